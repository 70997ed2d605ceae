"""Cross-encoders through transformers: two texts read together, one score."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from medstress.backends.loaded_model import LoadedModel
from medstress.backends.out_of_memory import in_halves, release_memory
from medstress.backends.padded_forward import MAX_TOKENS, forward, longest_input
from medstress.backends.score_calls import out_of_memory, too_long
from medstress.backends.token_tree import plan_batches
from medstress.calls import Backend, BackendTraits, Call, Compare, Compared, Failure, Reply
from medstress.compute_thread import in_compute_thread
from medstress.errors import UsageError

_BATCH_SIZE = 256
_OVERHEAD = 64.0
_MAX_WASTE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class _Pair:
    """The tokenised inputs of a pair of texts."""

    names: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.rows[0])


class CrossEncoderBackend(Backend):
    """Answers `compare` calls with a model of one output.

    Args:
        loaded: a model of `AutoModelForSequenceClassification` with one label.
        read: turns the model's output into the score; by default they are the same.
        batch_size: the largest number of calls given to `answer` at once; None for the default.

    Raises:
        UsageError: the model does not have exactly one output.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        read: Callable[[float], float] = float,
        *,
        batch_size: int | None = None,
    ) -> None:
        n = int(loaded.model.config.num_labels)
        if n != 1:
            raise UsageError(
                f"model {loaded.identity.name!r} has {n} outputs; expected one, the similarity "
                "(num_labels = 1): it is a classifier of pairs, so fine-tune it as a regression"
            )
        self.identity = loaded.identity
        self.traits = BackendTraits(
            calls=frozenset({"compare"}),
            batch_size=batch_size or _BATCH_SIZE,
            ahead=8,
        )
        self._loaded = loaded
        self._score = read
        self._longest = longest_input(loaded)

    @in_compute_thread
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; a pair that is too long fails alone and is never cut."""
        compares = [call for call in calls if isinstance(call, Compare)]
        replies = iter(self._compare(compares))
        return [
            next(replies)
            if isinstance(call, Compare)
            else Failure(error=f"a cross-encoder cannot answer {call.kind!r} calls")
            for call in calls
        ]

    def close(self) -> None:
        """Drop the model."""
        del self._loaded
        release_memory()

    def _compare(self, calls: Sequence[Compare]) -> list[Reply]:
        if not calls:
            return []
        encoded = self._loaded.tokenizer(
            [call.text_a for call in calls],
            [call.text_b for call in calls],
            truncation=False,
            padding=False,
            verbose=False,
        )
        pairs = [
            _Pair(names=tuple(encoded), rows=tuple(map(tuple, row)))
            for row in zip(*encoded.values(), strict=True)
        ]
        replies: list[Reply | None] = [too_long(len(pair), self._longest) for pair in pairs]
        ready = [i for i, reply in enumerate(replies) if reply is None]
        batches = plan_batches(
            [len(pairs[i]) for i in ready],
            overhead=_OVERHEAD,
            max_tokens=MAX_TOKENS[self._loaded.device.type],
            max_waste=_MAX_WASTE,
        )
        for batch in batches:
            chosen = [ready[place] for place in batch]
            values = in_halves([pairs[i] for i in chosen], self._forward)
            for i, value in zip(chosen, values, strict=True):
                replies[i] = self._reply(value, len(pairs[i]))
        return [reply for reply in replies if reply is not None]

    def _forward(self, pairs: Sequence[_Pair]) -> list[float]:
        values: list[float] = forward(self._loaded, pairs)[:, 0].float().tolist()
        return values

    def _reply(self, value: float | None, n_tokens: int) -> Reply:
        if value is None:
            return out_of_memory(n_tokens)
        if not math.isfinite(value):
            return Failure(error=f"the model's score is {value}; its weights may be damaged")
        return Compared(score=self._score(value), tokens_in=n_tokens)
