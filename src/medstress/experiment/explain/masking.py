"""Tokens of a text, and the text with some of them masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Mask: TypeAlias = NDArray[np.bool_]
"""Which tokens are shown, `(n_tokens,)`."""
Cuts: TypeAlias = Callable[[str], Sequence[int]]
"""Returns the places, in characters, where the tokens of a text begin."""

MASK = "..."
"""The mask text by default, as in shap's masker of texts for models without a mask token."""
_WORD = re.compile(r"\s*\S+")


def word_cuts(text: str) -> list[int]:
    r"""Return where the words of a text begin, each with the white space before it.

    White space at the end belongs to the last word.

    >>> text = "  Take aspirin.\r\nWhy?\n"
    >>> pieces(text, word_cuts)
    ('  Take', ' aspirin.', '\r\nWhy?\n')
    """
    return [found.start() for found in _WORD.finditer(text)]


def pieces(text: str, cuts: Cuts) -> tuple[str, ...]:
    """Cut a text into tokens, whose concatenation is the text.

    Args:
        text: any.
        cuts: places outside the text, repeated or unordered ones do no harm.
    """
    places = sorted({0, len(text), *(place for place in cuts(text) if 0 < place < len(text))})
    return tuple(text[start:end] for start, end in pairwise(places))


@dataclass(frozen=True, slots=True, kw_only=True)
class Masker:
    """Shows a text with some of its tokens masked."""

    texts: tuple[tuple[str, ...], ...]
    """The tokens of each text."""
    mask: str = MASK
    """Stands for a run of masked tokens; empty leaves them out."""
    one_by_one: bool = False
    """True if every masked token is replaced by itself, because the model labels tokens."""

    def __post_init__(self) -> None:
        if self.one_by_one and not self.mask.strip():
            raise ValueError("a token of a tagger cannot be empty: the mask needs a text")

    @property
    def n_tokens(self) -> int:
        """Tokens of all texts together."""
        return sum(map(len, self.texts))

    def __call__(self, shown: Mask) -> tuple[str, ...]:
        """Return the texts under a mask; if all tokens are shown, they are the texts themselves."""
        masked, start = [], 0
        for tokens in self.texts:
            part = shown[start : start + len(tokens)]
            start += len(tokens)
            if self.one_by_one:
                masked.append("".join(tokens) if part.all() else self.mask)
            else:
                masked.append("".join(_runs(tokens, part, self.mask)))
        return tuple(masked)


def _runs(tokens: Sequence[str], shown: Mask, mask: str) -> Iterable[str]:
    """Yield shown tokens, and the mask in place of each run of others.

    The white space around a run stays, so that words stay apart; without a mask text it goes with
    the run. A run of nothing but white space stays.
    """
    hidden = ""
    for token, is_shown in zip(tokens, shown, strict=True):
        if not is_shown:
            hidden += token
            continue
        yield from _masked(hidden, mask)
        hidden = ""
        yield token
    yield from _masked(hidden, mask)


def _masked(run: str, mask: str) -> Iterable[str]:
    bare = run.strip()
    if not bare:
        yield run  # nothing to hide, and words would be joined
    elif mask:
        start = run.index(bare)
        yield run[:start] + mask + run[start + len(bare) :]


def as_key(mask: Any) -> bytes:
    """Return a mask as a key of a dictionary."""
    return np.packbits(np.asarray(mask, dtype=bool)).tobytes()
