"""Align a rewritten text with the original: which words stayed, and where others were inserted.

Many alignments delete and insert equally few words: "His" of an inserted sentence may match the
"His" that begins the next one. Of these we take the one whose insertions are what the writer
claims, then the one with the fewest insertions, at the ends of sentences, clauses and words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from rapidfuzz.distance import Indel

_WORD = re.compile(r"\w+|-{2,}|\.{3}|''|``|[^\w\s]")
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‛ʼ`´′", "'") | dict.fromkeys("“”„‟″", '"') | dict.fromkeys("‐‑‒–—―−", "-")
)
_DOUBLED = {"''": '"'}
_ENDS, _CLOSERS, _OPENERS = frozenset(".?!"), frozenset("\"')]"), frozenset("([")
_CLAUSE_OPENS, _CLAUSE_CLOSES = frozenset(",;:(-"), frozenset(",;:)-")
_MAX_CLAIMED = 50
"""Claims of the writer that are looked for."""
_MAX_PLACES, _MAX_STEPS = 1_000_000, 200_000
"""Limits on pairs of words and of places: a hostile text may have billions. Beyond them the first
alignment found is taken."""
_MAX_READINGS = 100
"""Alternative places checked on either side of an insertion."""
_IN_STEM, _UNCLAIMED, _PER_INSERTION = 1_000, 100, 10
"""Costs of an insertion: inside the sentence that asks, not claimed by the writer, and for every
one. The cost of its edges is added."""
_SENTENCE, _CLAUSE, _WORDS, _PART_OF_WORD = range(4)


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a mark of a text."""

    text: str
    """Normalised for comparison: straight quotes and plain hyphens."""
    start: int
    """First character in the text."""
    end: int
    """One past the last."""


def plain(text: str) -> str:
    """Return a text in NFKC with straight quotes, and hyphens for dashes.

    >>> plain("the patient’s “cough” – 5 µg")
    'the patient\\'s "cough" - 5 μg'
    """
    return unicodedata.normalize("NFKC", text).translate(_PLAIN)


def words_of(text: str) -> list[Word]:
    """Return the words and marks of a text, in order."""
    return [_word(found) for found in _WORD.finditer(text)]


def _word(found: re.Match[str]) -> Word:
    text = plain(found.group())
    return Word("-" if set(text) == {"-"} else _DOUBLED.get(text, text), *found.span())


def is_end(words: Sequence[Word], n: int) -> bool:
    """Whether a sentence ends with the n-th word; quotes and brackets may follow its mark."""
    while n > 0 and words[n].text in _CLOSERS:
        n -= 1
    return n >= 0 and words[n].text in _ENDS


def aligned(
    old: Sequence[Word], new: Sequence[Word], stem: int, claimed: Collection[str] = ()
) -> list[tuple[int, int]]:
    """Pair the words that stay, by the alignment of the module docstring.

    Args:
        old: words of the original.
        new: words of the rewritten text.
        stem: index in `old` of the first word of the sentence that asks.
        claimed: what the writer says was inserted.

    Returns:
        (index in `old`, index in `new`) of every word that stays, in order. As many stay as
        possible. Among equal alignments, insertions inside the sentence that asks are avoided
        first; remaining ties go to the leftmost place.
    """
    before, after = [word.text for word in old], [word.text for word in new]
    found = [
        (op.src_start + n, op.dest_start + n)
        for op in Indel.opcodes(before, after)
        if op.tag == "equal"
        for n in range(op.src_end - op.src_start)
    ]
    kept = [i for i, _ in found]
    places = _places([before[i] for i in kept], after)
    if places is None:
        return found
    best = _Costs(old, new, stem, claimed).best(kept, places)
    return list(zip(kept, best, strict=True))


def _places(kept: Sequence[str], after: Sequence[str]) -> list[list[int]] | None:
    """List the places in `after` open to every word that stays; None if there are too many."""
    if len(kept) * (len(after) - len(kept) + 1) > _MAX_PLACES:
        return None
    first, last, at = [0] * len(kept), [0] * len(kept), -1
    for k, word in enumerate(kept):
        at = first[k] = after.index(word, at + 1)
    at = len(after)
    for k in range(len(kept) - 1, -1, -1):
        at -= 1
        while after[at] != kept[k]:
            at -= 1
        last[k] = at
    found = [
        [at for at in range(first[k], last[k] + 1) if after[at] == kept[k]]
        for k in range(len(kept))
    ]
    steps = sum(len(a) * len(b) for a, b in pairwise(found))
    return found if steps <= _MAX_STEPS else None


def _named(claimed: Collection[str], longest: int) -> frozenset[tuple[str, ...]]:
    """Return the words of every claim, and of consecutive claims: they may stand together.

    Args:
        claimed: the texts.
        longest: most words that can match.
    """
    texts = [tuple(_folded(words_of(text))) for text in list(claimed)[:_MAX_CLAIMED]]
    found = set()
    for i in range(len(texts)):
        run: tuple[str, ...] = ()
        for text in texts[i:]:
            if len(run) + len(text) > longest:
                break
            found.add(run := run + text)
    return frozenset(found - {()})


def _folded(words: Iterable[Word]) -> list[str]:
    return [word.text.casefold() for word in words if word.text[0].isalnum()]


class _Costs:
    """Costs of insertions at their possible places."""

    def __init__(
        self, old: Sequence[Word], new: Sequence[Word], stem: int, claimed: Collection[str]
    ) -> None:
        self._old, self._new, self._stem = old, new, stem
        self._folded = _folded(new)
        self._named = _named(claimed, len(self._folded))
        self._n_folded = [0, *accumulate(word.text[0].isalnum() for word in new)]

    def best(self, kept: Sequence[int], places: Sequence[Sequence[int]]) -> list[int]:
        """Return the cheapest place of every word that stays, by dynamic programming."""
        ways: list[dict[int, tuple[int, int]]] = []
        for k, open_places in enumerate(places):
            previous = ways[-1] if ways else {-1: (0, -1)}
            i = kept[k - 1] + 1 if k else 0
            ways.append({})
            for at in open_places:
                costs = [
                    (cost + self._cost_of(i, kept[k], before + 1, at), -before)
                    for before, (cost, _) in previous.items()
                    if before < at
                ]
                cost, before = min(costs)
                ways[-1][at] = (cost, -before)
        if not ways:
            return []
        i, end = kept[-1] + 1, len(self._new)
        at = min(
            ways[-1],
            key=lambda at: (ways[-1][at][0] + self._cost_of(i, len(self._old), at + 1, end), -at),
        )
        found = []
        for way in reversed(ways):
            found.append(at)
            at = way[at][1]
        return found[::-1]

    def _cost_of(self, i: int, until: int, start: int, end: int) -> int:
        """Return the cost of new[start:end] in place of old[i:until]."""
        if start == end or until > i:
            return 0
        cost = _PER_INSERTION + self._edge_cost(i, start, end)
        if i > self._stem:
            cost += _IN_STEM
        words = self._folded[self._n_folded[start] : self._n_folded[end]]
        return cost if tuple(words) in self._named else cost + _UNCLAIMED

    def _edge_cost(self, i: int, start: int, end: int) -> int:
        """Return the kind of boundary around new[start:end] when it is put before old[i]."""
        old, new = self._old, self._new
        parted = self._is_parted(i)
        before = old[i - 1].text if i else ""
        after = old[i].text if i < len(old) else "."
        first, last = new[start].text, new[end - 1].text
        if _ends(old, i) and is_end(new[start:end], end - start - 1):
            return _SENTENCE
        closed = after in _CLAUSE_CLOSES | _ENDS
        if not parted and not (closed and self._is_parted(i + 1)) and before not in _OPENERS:
            return _PART_OF_WORD
        if first in _CLAUSE_OPENS and (last in _CLAUSE_CLOSES or closed):
            return _CLAUSE
        return _CLAUSE if before in _CLAUSE_OPENS and last in _CLAUSE_CLOSES else _WORDS

    def _is_parted(self, i: int) -> bool:
        """Whether there is white space before old[i]."""
        old = self._old
        return not 0 < i < len(old) or old[i - 1].end < old[i].start


def readings(before: str, inserted: str, after: str) -> Iterator[tuple[str, str, str]]:
    """Yield an insertion where it stands, and at neighbouring places that give the same words.

    If it is a sentence of its own at some of them, everybody reads it so: only those are yielded.

    Yields:
        (text before, insertion, text after); the words of all three together stay the same.

    >>> for _, inserted, _ in readings("because", " of the lack", " of fever"):
    ...     print(inserted)
     of the lack
     the lack of
    """
    words = words_of(before)
    start = len(words)
    words += _shifted(words_of(inserted), len(before))
    end = len(words)
    words += _shifted(words_of(after), len(before) + len(inserted))
    text = f"{before}{inserted}{after}"
    steps = _steps([word.text for word in words], start, end)
    as_sentence = [n for n in steps if _ends(words, start + n) and _ends(words, end + n)]
    for n in as_sentence or steps:
        first, last = len(before), len(before) + len(inserted)
        if n:
            first, last = words[start + n - 1].end if start + n else 0, words[end + n - 1].end
        yield text[:first], text[first:last], text[last:]


def _steps(words: Sequence[str], start: int, end: int) -> list[int]:
    """Return by how many words words[start:end] can move without changing the text; 0 first."""
    found = [0]
    most = min(end - start, _MAX_READINGS)
    for n in range(1, most + 1):
        if end + n > len(words) or words[start + n - 1] != words[end + n - 1]:
            break
        found.append(n)
    for n in range(1, most + 1):
        if n > start or words[start - n] != words[end - n]:
            break
        found.append(-n)
    return found


def _ends(words: Sequence[Word], n: int) -> bool:
    """Whether a sentence ends before the n-th word."""
    parted = not 0 < n < len(words) or words[n - 1].end < words[n].start
    return n == 0 or (parted and is_end(words, n - 1))


def _shifted(words: Iterable[Word], by: int) -> list[Word]:
    return [Word(word.text, word.start + by, word.end + by) for word in words]
