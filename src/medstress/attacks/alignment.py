"""Which words of a rewritten text are those of the original, and where the others were put in.

Many alignments delete and insert equally few words: "His" of an inserted sentence may be taken for
the "His" with which the next one begins. Among them the one is taken whose insertions are what the
writer says they are, then the one with fewest, at the ends of sentences, clauses and words.
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
_MOST_TOLD = 50
"""Texts of the writer's that are looked for."""
_MOST_PLACES, _MOST_STEPS = 1_000_000, 200_000
"""Pairs of words and of places that are looked at; a hostile text may hold thousands of millions,
and then the first alignment that is found is taken."""
_MOST_READINGS = 100
"""Places on either side of an insertion that are looked at."""
_IN_STEM, _NOT_TOLD, _EACH = 1_000, 100, 10
"""Costs of an insertion inside the sentence that asks, of one that the writer does not name, and
of every one; what its edges cost comes on top."""
_SENTENCE, _CLAUSE, _WORDS, _PART_OF_WORD = range(4)


@dataclass(frozen=True, slots=True)
class Word:
    """A word or a mark of a text."""

    text: str
    """As words are compared: with straight quotes and plain hyphens."""
    start: int
    """First character in the text."""
    end: int
    """One past the last."""


def plain(text: str) -> str:
    """A text with straight quotes, hyphens for dashes, and compatible characters made one.

    >>> plain("the patient’s “cough” – 5 µg")
    'the patient\\'s "cough" - 5 μg'
    """
    return unicodedata.normalize("NFKC", text).translate(_PLAIN)


def words_of(text: str) -> list[Word]:
    """The words and marks of a text in their order."""
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
    old: Sequence[Word], new: Sequence[Word], stem: int, told: Collection[str] = ()
) -> list[tuple[int, int]]:
    """Pair the words that stay, in the alignment described above.

    Args:
        old: words of the original.
        new: words of the rewritten text.
        stem: number of the first word of the sentence that asks.
        told: what the writer says was inserted.

    Returns:
        (number in `old`, number in `new`) of every word that stays, in their order. As many stay
        as can; among equal alignments insertions inside the sentence that asks are avoided first,
        and the leftmost place is taken where nothing else decides.
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
    best = _Costs(old, new, stem, told).best(kept, places)
    return list(zip(kept, best, strict=True))


def _places(kept: Sequence[str], after: Sequence[str]) -> list[list[int]] | None:
    """Where every word that stays can stand, the others still finding theirs; None: too many."""
    if len(kept) * (len(after) - len(kept) + 1) > _MOST_PLACES:
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
    return found if steps <= _MOST_STEPS else None


def _named(told: Collection[str], longest: int) -> frozenset[tuple[str, ...]]:
    """The words of every text, and of texts that follow one another: they may stand together.

    Args:
        told: the texts.
        longest: words in the longest that can be found.
    """
    texts = [tuple(_folded(words_of(text))) for text in list(told)[:_MOST_TOLD]]
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
    """What insertions cost at the places where they can stand."""

    def __init__(
        self, old: Sequence[Word], new: Sequence[Word], stem: int, told: Collection[str]
    ) -> None:
        self._old, self._new, self._stem = old, new, stem
        self._folded = _folded(new)
        self._named = _named(told, len(self._folded))
        self._n_folded = [0, *accumulate(word.text[0].isalnum() for word in new)]

    def best(self, kept: Sequence[int], places: Sequence[Sequence[int]]) -> list[int]:
        """The cheapest place of every word that stays (dynamic programming over the words)."""
        ways: list[dict[int, tuple[int, int]]] = []
        for k, there in enumerate(places):
            came = ways[-1] if ways else {-1: (0, -1)}
            i = kept[k - 1] + 1 if k else 0
            ways.append({})
            for at in there:
                costs = [
                    (cost + self._of(i, kept[k], before + 1, at), -before)
                    for before, (cost, _) in came.items()
                    if before < at
                ]
                cost, before = min(costs)
                ways[-1][at] = (cost, -before)
        if not ways:
            return []
        i, end = kept[-1] + 1, len(self._new)
        at = min(
            ways[-1],
            key=lambda at: (ways[-1][at][0] + self._of(i, len(self._old), at + 1, end), -at),
        )
        found = []
        for way in reversed(ways):
            found.append(at)
            at = way[at][1]
        return found[::-1]

    def _of(self, i: int, until: int, start: int, end: int) -> int:
        """What it costs that new[start:end] stand in place of old[i:until]."""
        if start == end or until > i:
            return 0
        cost = _EACH + self._edges(i, start, end)
        if i > self._stem:
            cost += _IN_STEM
        words = self._folded[self._n_folded[start] : self._n_folded[end]]
        return cost if tuple(words) in self._named else cost + _NOT_TOLD

    def _edges(self, i: int, start: int, end: int) -> int:
        """The kind of place before old[i] at which new[start:end] begin and end."""
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
    """An insertion where it stands, and at the places next to it that give the same words.

    Where it is a sentence of its own at one of them, everybody reads it so: that one is given
    alone.

    Yields:
        (text before, insertion, text after); the words of all three together stay the same.

    >>> for _, inserted, _ in readings("because", " of the lack", " of fever"):
    ...     print(inserted)
     of the lack
     the lack of
    """
    words = words_of(before)
    start = len(words)
    words += _moved(words_of(inserted), len(before))
    end = len(words)
    words += _moved(words_of(after), len(before) + len(inserted))
    text = f"{before}{inserted}{after}"
    steps = _steps([word.text for word in words], start, end)
    whole = [n for n in steps if _ends(words, start + n) and _ends(words, end + n)]
    for n in whole or steps:
        first, last = len(before), len(before) + len(inserted)
        if n:
            first, last = words[start + n - 1].end if start + n else 0, words[end + n - 1].end
        yield text[:first], text[first:last], text[last:]


def _steps(words: Sequence[str], start: int, end: int) -> list[int]:
    """By how many words words[start:end] can be moved, the text staying the same; 0 first."""
    found = [0]
    most = min(end - start, _MOST_READINGS)
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


def _moved(words: Iterable[Word], by: int) -> list[Word]:
    return [Word(word.text, word.start + by, word.end + by) for word in words]
