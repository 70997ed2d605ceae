"""Splits sentences of words into tokenizer pieces, in windows that fit the model.

The words are joined by single spaces and tokenised as one text, so that a byte-level tokenizer sees
the white space of running text. Character offsets then give the first piece of each word. This
works for word pieces, byte-level BPE and SentencePiece.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from medstress.core.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of a sentence that the model reads at once; a short sentence has one."""

    names: tuple[str, ...]
    """Names of the model's inputs: `input_ids`, and what else its tokenizer makes."""
    rows: tuple[tuple[int, ...], ...]
    """The inputs, one row per name, `(n_names, n_pieces)`."""
    places: tuple[tuple[int, int], ...]
    """(word, first piece) of every word whose label is read from this window."""

    def __len__(self) -> int:
        """Number of pieces, special ones included."""
        return len(self.rows[0])


class PieceTokenizer:
    """Splits words into pieces, and long sentences into overlapping windows.

    Args:
        tokenizer: a fast tokenizer of transformers.
        name: the model's name, for messages.
        longest: the most pieces of a window, special ones included.
    """

    def __init__(self, tokenizer: Any, name: str, longest: int) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(
                f"model {name!r}: its tokenizer does not give the characters of a piece; "
                "save it with a fast tokenizer (tokenizer.json)"
            )
        self._tokenizer = tokenizer
        self._longest = longest
        # Windows overlap by a quarter, so that every word has context on both sides in one of them.
        self._overlap = max((longest - tokenizer.num_special_tokens_to_add()) // 4, 0)

    def windows(self, sentences: Sequence[Sequence[str]]) -> list[list[Window]]:
        """Return the windows of each sentence, in order.

        Every word with a piece is in the `places` of exactly one window: the one in which it is
        farthest from the edges.
        """
        if not sentences:
            return []
        encoded = self._tokenizer(
            [" ".join(words) for words in sentences],
            truncation=True,
            max_length=self._longest,
            stride=self._overlap,
            padding=False,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        owners = encoded.pop("overflow_to_sample_mapping")
        offsets = encoded.pop("offset_mapping")
        rows = list(zip(*encoded.values(), strict=True))
        parts: list[list[int]] = [[] for _ in sentences]
        for row, owner in enumerate(owners):
            parts[owner].append(row)
        names = tuple(encoded)
        return [
            [
                Window(names=names, rows=tuple(map(tuple, rows[row])), places=tuple(places))
                for row, places in zip(
                    part, _places(words, [offsets[r] for r in part]), strict=True
                )
            ]
            for words, part in zip(sentences, parts, strict=True)
        ]


def _places(
    words: Sequence[str], windows: Sequence[Sequence[tuple[int, int]]]
) -> list[list[tuple[int, int]]]:
    """Assign every word to the window in which its first piece is farthest from the edges."""
    best: dict[int, tuple[int, int, int]] = {}
    for number, offsets in enumerate(windows):
        for word, piece in _first_pieces(words, offsets):
            margin = min(piece, len(offsets) - 1 - piece)
            if word not in best or margin > best[word][0]:
                best[word] = (margin, number, piece)
    places: list[list[tuple[int, int]]] = [[] for _ in windows]
    for word, (_, number, piece) in sorted(best.items()):
        places[number].append((word, piece))
    return places


def _first_pieces(
    words: Sequence[str], offsets: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int]]:
    """Yield (word, piece) for the first piece of each word in a window.

    At the left edge of a later window this may be an inner piece of a word. Its first piece is then
    in the window before, and farther from the edges there unless words are longer than the overlap.
    """
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    word = 0
    for piece, (start, end) in enumerate(offsets):
        if start == end:
            continue  # a special piece, or one without characters
        # A byte-level piece may begin with the space before its word.
        while word < len(words) and starts[word] + len(words[word]) <= start:
            word += 1
        while word < len(words) and starts[word] < end:
            yield word, piece
            word += 1
