"""Bi-encoders: each text has a vector; the similarity of two texts is their cosine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from medstress.core.calls import (
    Backend,
    BackendTraits,
    Call,
    Compare,
    Compared,
    Failure,
    ModelIdentity,
    Reply,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BATCH_SIZE = 256
_MAX_VECTORS = 20_000
"""Size of the vector cache: an attack changes one text of a pair and repeats the other."""


class BiEncoderBackend(Backend):
    """Answers `compare` calls with the cosine of two unit vectors, in [-1, 1].

    Args:
        encode: maps texts to unit vectors, `(n_texts, n_dimensions)`.
        identity: covers everything that determines a vector.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
    """

    def __init__(
        self,
        encode: Callable[[Sequence[str]], NDArray[np.float64]],
        identity: ModelIdentity,
        *,
        batch_size: int | None = None,
    ) -> None:
        self.identity = identity
        self.traits = BackendTraits(
            calls=frozenset({"compare"}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
        )
        self._encode = encode
        self._known: dict[str, NDArray[np.float64]] = {}

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; known texts are not encoded again."""
        pairs = [call for call in calls if isinstance(call, Compare)]
        texts = dict.fromkeys(text for call in pairs for text in (call.text_a, call.text_b))
        if len(self._known) + len(texts) > _MAX_VECTORS:
            self._known.clear()
        fresh = [text for text in texts if text not in self._known]
        if fresh:
            self._known.update(zip(fresh, self._encode(fresh), strict=True))
        return [
            Compared(score=self._cosine(call))
            if isinstance(call, Compare)
            else Failure(error=f"a bi-encoder cannot answer {call.kind!r} calls")
            for call in calls
        ]

    def close(self) -> None:
        """Drop the vectors."""
        self._known.clear()

    def _cosine(self, call: Compare) -> float:
        value = float(self._known[call.text_a] @ self._known[call.text_b])
        return min(1.0, max(-1.0, value))  # rounding may exceed the bounds
