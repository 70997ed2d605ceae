"""Sentences of words as pieces of a tokenizer, in windows that fit the model.

The words are joined by single spaces and read as the text they are, so that a byte-level
tokenizer sees the same white space as in running text; character offsets then say which piece is
the first of which word. That holds for word pieces, byte-level BPE and SentencePiece alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from medstress.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """A part of a sentence that the model reads at once; short sentences have one."""

    names: tuple[str, ...]
    """Of the model's inputs: `input_ids`, and what else its tokenizer makes."""
    rows: tuple[tuple[int, ...], ...]
    """The inputs, one row a name, `(n_names, n_pieces)`."""
    places: tuple[tuple[int, int], ...]
    """(word, piece) of every word that is read here, the piece being its first."""

    def __len__(self) -> int:
        """Pieces, special ones included."""
        return len(self.rows[0])


class PieceTokenizer:
    """Cuts words into pieces and long sentences into overlapping windows.

    Args:
        tokenizer: a fast tokenizer of transformers.
        name: the model's name, for messages.
        longest: the most pieces a window may have, special ones included.
    """

    def __init__(self, tokenizer: Any, name: str, longest: int) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise UsageError(
                f"model {name!r}: its tokenizer does not say which characters a piece stands for; "
                "save it with a fast tokenizer (tokenizer.json)"
            )
        self._tokenizer = tokenizer
        self._longest = longest
        # A quarter is seen twice, so that every word has context on both sides in one window.
        self._overlap = max((longest - tokenizer.num_special_tokens_to_add()) // 4, 0)

    def windows(self, sentences: Sequence[Sequence[str]]) -> list[list[Window]]:
        """Return the windows of each sentence, in reading order; every word with a piece is in
        exactly one window's `places`: the one in which it stands farthest from the edges."""
        if not sentences:
            return []
        found = self._tokenizer(
            [" ".join(words) for words in sentences],
            truncation=True,
            max_length=self._longest,
            stride=self._overlap,
            padding=False,
            return_overflowing_tokens=True,
            return_offsets_mapping=True,
        )
        owners = found.pop("overflow_to_sample_mapping")
        offsets = found.pop("offset_mapping")
        rows = list(zip(*found.values(), strict=True))
        parts: list[list[int]] = [[] for _ in sentences]
        for row, owner in enumerate(owners):
            parts[owner].append(row)
        names = tuple(found)
        return [
            [
                Window(names=names, rows=tuple(map(tuple, rows[row])), places=tuple(places))
                for row, places in zip(
                    mine, _places(words, [offsets[r] for r in mine]), strict=True
                )
            ]
            for words, mine in zip(sentences, parts, strict=True)
        ]


def _places(
    words: Sequence[str], windows: Sequence[Sequence[tuple[int, int]]]
) -> list[list[tuple[int, int]]]:
    """Give every word to the window in which its first piece stands farthest from the edges."""
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
    """Yield (word, piece) for the first piece of a window that holds characters of the word.

    At the left edge of a window after the first that may be a later piece of a word whose first
    one stands in the window before, where it is farther from the edges unless words are longer
    than the overlap.
    """
    starts = list(accumulate((len(word) + 1 for word in words), initial=0))[:-1]
    word = 0
    for piece, (start, end) in enumerate(offsets):
        if start == end:
            continue  # special, or stands for no character
        # A byte-level piece may begin with the space before its word.
        while word < len(words) and starts[word] + len(words[word]) <= start:
            word += 1
        while word < len(words) and starts[word] < end:
            yield word, piece
            word += 1
