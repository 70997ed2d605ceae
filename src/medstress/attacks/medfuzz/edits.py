"""Turn what an attacker writes into insertions: texts with places, or a question written again.

A question written again is taken if every word of the original is in it, in order. Many alignments
of the two may be possible: "His" of an inserted sentence may match the "His" that begins the next
one. Of these we take the one with the fewest insertions, at the ends of sentences, clauses and
words.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from rapidfuzz.distance import Indel

from medstress.core.errors import MedstressError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit

START, END = "start", "end"
"""Places of an insertion besides words: the beginning, and before the sentence that asks."""
_WORD = re.compile(r"\w+|-{2,}|\.{3}|''|``|[^\w\s]")
_PLAIN = str.maketrans(
    dict.fromkeys("‘’‛ʼ`´′", "'") | dict.fromkeys("“”„‟″", '"') | dict.fromkeys("‐‑‒–—―−", "-")
)
_DOUBLED = {"''": '"'}
_ENDS, _CLOSERS, _OPENERS = frozenset(".?!"), frozenset("\"')]"), frozenset("([")
_CLAUSE_OPENS, _CLAUSE_CLOSES = frozenset(",;:(-"), frozenset(",;:)-")
_MAX_PLACES, _MAX_STEPS = 1_000_000, 200_000
"""Limits on pairs of words and of places: a hostile text may have billions. Beyond them the first
alignment is taken."""
_MAX_READINGS = 100
"""Alternative places checked on either side of an insertion."""
_IN_STEM, _PER_INSERTION = 1_000, 10
"""Costs of an insertion: inside the sentence that asks, and for every one. The cost of its edges is
added."""
_SENTENCE, _CLAUSE, _WORDS, _PART_OF_WORD = range(4)
_CLOSING = re.compile(r"[.,;:?!)\]\"'’”]+(?=\s|$)")
"""Marks followed by white space: words may be inserted before them."""
_SENTENCE_END = re.compile(r"[.?!][\"'’”)\]]*$")
_MARKS, _LEADS = (".", ",", ";", ":"), (",", ".", ";", ":", ")")
_SHOWN = 60
"""Most characters of an attacker's words that an error quotes."""


class EditError(MedstressError):
    """What an attacker wrote is no insertion into the question; the message is for the attacker."""

    def __init__(self, message: str, cause: str) -> None:
        super().__init__(message)
        self.cause = cause
        """In few words, to be counted."""


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
    words = []
    for match in _WORD.finditer(text):
        word = plain(match.group())
        words.append(Word("-" if set(word) == {"-"} else _DOUBLED.get(word, word), *match.span()))
    return words


def hidden_in(text: str, original: str) -> str | None:
    """Return the first invisible character of a text that the original does not have.

    Such characters would split words that the gates look for, or end a text early.

    >>> hidden_in("a fe\\u200bver", "a fever"), hidden_in("two\\nlines", "two lines")
    ('U+200B', None)
    """
    for character in text:
        hidden = unicodedata.category(character) in ("Cc", "Cf")
        if hidden and character not in "\t\n\r" + original:
            return f"U+{ord(character):04X}"
    return None


# Texts with their places.


def inserted(item: Question, insertions: Sequence[tuple[str, str]]) -> Candidate:
    """Insert texts into the question, each after the words given for it.

    Kinds of quotes and dashes do not count. A whole sentence goes behind the full stop that follows
    the words. A comma or full stop that is already there is not repeated.

    Args:
        item: the original.
        insertions: (words of the question right before the text, or `START` or `END`; text).

    Raises:
        EditError: a text holds no word, or its place is none, or is in the sentence that asks.

    >>> item = Question(id="q", context="A man coughs.", stem="Why?", options=("Flu", "Cold"),
    ...                 key="A")
    >>> inserted(item, [("A man", ", a teacher,"), ("coughs", "He sings.")]).context
    'A man, a teacher, coughs. He sings.'
    """
    words = words_of(item.question)
    edits = [_edit(item, words, where, " ".join(text.split())) for where, text in insertions]
    return Candidate(item=item, edits=tuple(sorted(edits, key=lambda e: (e.field, e.start))))


def _edit(item: Question, words: Sequence[Word], where: str, text: str) -> Edit:
    if not any(map(str.isalnum, text)):
        raise EditError(f"text: {text[:_SHOWN]!r} holds no word", "nothing inserted")
    place = where.strip().strip("\"'<>[]").casefold()
    if place in ("", START) or (place == END and not item.context):
        return _in_field(item, 0, f"{text} ")
    at, question = len(item.context), item.question
    if place != END:
        at = _end_of(words, where)
    rest = _CLOSING.match(question, at)
    if rest is None and question[at : at + 1].strip():
        raise EditError(f"where: after {where[-_SHOWN:]!r} it would be inside a word", "no place")
    marks = rest.group() if rest else ""
    if _SENTENCE_END.match(marks) and _SENTENCE_END.search(text) and text[0].isupper():
        at += len(marks)
    elif marks and text.endswith(_MARKS):
        text = text[:-1]
    if at > len(item.context):
        raise EditError(
            f'where: {where[-_SHOWN:]!r} is in the sentence that asks, which stays as it is; "end" '
            "is the place before it",
            "no place",
        )
    if question[at - 1] in _MARKS and text.startswith(_MARKS):
        text = text[1:].lstrip()
    return _in_field(item, at, text if text.startswith(_LEADS) else f" {text}")


def _end_of(words: Sequence[Word], where: str) -> int:
    """Return where words that occur exactly once in a question end."""
    sought = [word.text for word in words_of(where.strip(" .…"))] or ["…"]
    shown, n = where[-_SHOWN:], len(sought)
    for fold in (str, str.casefold):  # as written, else in any case
        texts, wanted = [fold(word.text) for word in words], [fold(word) for word in sought]
        ends = [i + n for i in range(len(texts) - n + 1) if texts[i : i + n] == wanted]
        if len(ends) == 1:
            return words[ends[0] - 1].end
        if ends:
            raise EditError(
                f"where: the question has the words {shown!r} {len(ends)} times; give more of the "
                "words before them",
                "no place",
            )
    raise EditError(f"where: the question does not have the words {shown!r}", "no place")


def _in_field(item: Question, at: int, text: str) -> Edit:
    """Return an insertion at a character of the whole question."""
    n = len(item.context)
    if n and at <= n:
        return Edit(field="context", start=at, end=at, replacement=text)
    at -= n + 1 if n else 0
    return Edit(field="stem", start=at, end=at, replacement=text)


# A question written again.


def edits_between(item: Question, rewritten: str) -> Candidate:
    """Return the item with the insertions that give a rewritten text.

    Kinds of quotes and dashes do not count. Words of the original keep its white space and marks;
    insertions keep their own. One between context and stem belongs to the context.

    Args:
        item: the original.
        rewritten: the whole question.

    Raises:
        EditError: a word of the original is not there, or the sentence that asks was changed.

    >>> item = Question(id="q", context="A man coughs.", stem="Why?", options=("Flu", "Cold"),
    ...                 key="A")
    >>> made = edits_between(item, "A man, a teacher, coughs.  Why?")
    >>> made.context, made.stem
    ('A man, a teacher, coughs.', 'Why?')
    """
    rewritten = " ".join(rewritten.split())
    old, new = words_of(item.question), words_of(rewritten)
    stem = len(words_of(item.context))
    places = aligned(old, new, stem)
    if places is None:
        raise EditError(_difference(item.question, old, rewritten, new), "not only insertions")
    edits: list[Edit] = []
    start = 0
    for i, end in enumerate([*places, len(new)]):
        if start < end and i:
            text = rewritten[new[start - 1].end : new[end - 1].end]
            edits.append(_in_field(item, old[i - 1].end, text))
        elif start < end:
            follows = new[end].start if end < len(new) else len(rewritten)
            edits.append(_in_field(item, 0, rewritten[new[0].start : follows]))
        if start < end and i > stem:
            raise EditError(
                f"{edits[-1].replacement.strip()[:_SHOWN]!r} is in or behind the sentence that "
                "asks, which stays as it is and comes last",
                "not only insertions",
            )
        start = end + 1
    return Candidate(item=item, edits=tuple(edits))


def _difference(original: str, old: Sequence[Word], rewritten: str, new: Sequence[Word]) -> str:
    """Say which words of the original are missing first."""
    lost = [op for op in Indel.opcodes(_texts(old), _texts(new)) if op.tag in ("delete", "replace")]
    op = lost[0]
    gone = original[old[op.src_start].start : old[op.src_end - 1].end]
    return (
        f"{gone[:_SHOWN]!r} of the question was left out or changed; only insert, and copy the "
        "rest word for word"
    )


def _texts(words: Iterable[Word]) -> list[str]:
    return [word.text for word in words]


def aligned(old: Sequence[Word], new: Sequence[Word], stem: int) -> list[int] | None:
    """Return the place in a rewritten text of every word of the original.

    Args:
        old: words of the original.
        new: words of the rewritten text.
        stem: index in `old` of the first word of the sentence that asks.

    Returns:
        Indexes in `new`, ascending; None if a word is missing. Insertions inside the sentence that
        asks are avoided first; remaining ties go to the leftmost place.
    """
    places = _places(_texts(old), _texts(new))
    return None if places is None else _Costs(old, new, stem).best(places)


def _places(before: Sequence[str], after: Sequence[str]) -> list[list[int]] | None:
    """List the places open to every word; None if one has none, the leftmost if there are many."""
    first, last, at = [0] * len(before), [0] * len(before), -1
    for k, word in enumerate(before):
        try:
            at = first[k] = after.index(word, at + 1)
        except ValueError:
            return None
    leftmost = [[at] for at in first]
    if len(before) * (len(after) - len(before) + 1) > _MAX_PLACES:
        return leftmost
    at = len(after)
    for k in range(len(before) - 1, -1, -1):
        at -= 1
        while after[at] != before[k]:
            at -= 1
        last[k] = at
    places = [
        [at for at in range(first[k], last[k] + 1) if after[at] == before[k]]
        for k in range(len(before))
    ]
    return places if sum(len(a) * len(b) for a, b in pairwise(places)) <= _MAX_STEPS else leftmost


class _Costs:
    """Costs of insertions at their possible places."""

    def __init__(self, old: Sequence[Word], new: Sequence[Word], stem: int) -> None:
        self._old, self._new, self._stem = old, new, stem

    def best(self, places: Sequence[Sequence[int]]) -> list[int]:
        """Return the cheapest place of every word, by dynamic programming."""
        ways: list[dict[int, tuple[int, int]]] = [{-1: (0, -1)}]
        for i, open_places in enumerate([*places, [len(self._new)]]):
            way = {}
            for at in open_places:
                cost, before = min(
                    (cost + self._cost(i, before + 1, at), -before)
                    for before, (cost, _) in ways[-1].items()
                    if before < at
                )
                way[at] = (cost, -before)
            ways.append(way)
        chosen, at = [], len(self._new)
        for way in reversed(ways[1:]):
            at = way[at][1]
            chosen.append(at)
        return chosen[-2::-1]

    def _cost(self, i: int, start: int, end: int) -> int:
        """Return the cost of inserting new[start:end] before old[i]."""
        if start == end:
            return 0
        in_stem = _IN_STEM if i > self._stem else 0
        return in_stem + _PER_INSERTION + self._edge_cost(i, start, end)

    def _edge_cost(self, i: int, start: int, end: int) -> int:
        """Return the kind of boundary around new[start:end] when it is put before old[i]."""
        old, new = self._old, self._new
        parted = self._is_parted(i)
        before = old[i - 1].text if i else ""
        after = old[i].text if i < len(old) else "."
        first, last = new[start].text, new[end - 1].text
        if _ends(old, i) and _is_end(new[start:end], end - start - 1):
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


def _is_end(words: Sequence[Word], n: int) -> bool:
    """Whether a sentence ends with the n-th word; quotes and brackets may follow its mark."""
    while n > 0 and words[n].text in _CLOSERS:
        n -= 1
    return n >= 0 and words[n].text in _ENDS


def _ends(words: Sequence[Word], n: int) -> bool:
    """Whether a sentence ends before the n-th word."""
    parted = not 0 < n < len(words) or words[n - 1].end < words[n].start
    return n == 0 or (parted and _is_end(words, n - 1))


# An insertion next to its neighbours.


def readings(before: str, insertion: str, after: str) -> Iterator[tuple[str, str, str]]:
    """Yield an insertion at its place, and at neighbouring places that give the same words.

    If it is a sentence of its own at some of them, everybody reads it so: only those are yielded.

    Yields:
        (text before, insertion, text after); the words of all three together stay the same.

    >>> for _, insertion, _ in readings("because", " of the lack", " of fever"):
    ...     print(insertion)
     of the lack
     the lack of
    """
    words = words_of(before)
    start = len(words)
    words += _shifted(words_of(insertion), len(before))
    end = len(words)
    words += _shifted(words_of(after), len(before) + len(insertion))
    text = f"{before}{insertion}{after}"
    steps = _steps(_texts(words), start, end)
    as_sentence = [n for n in steps if _ends(words, start + n) and _ends(words, end + n)]
    for n in as_sentence or steps:
        first, last = len(before), len(before) + len(insertion)
        if n:
            first, last = words[start + n - 1].end if start + n else 0, words[end + n - 1].end
        yield text[:first], text[first:last], text[last:]


def _steps(words: Sequence[str], start: int, end: int) -> list[int]:
    """Return by how many words words[start:end] can move without changing the text; 0 first."""
    steps = [0]
    most = min(end - start, _MAX_READINGS)
    for n in range(1, most + 1):
        if end + n > len(words) or words[start + n - 1] != words[end + n - 1]:
            break
        steps.append(n)
    for n in range(1, most + 1):
        if n > start or words[start - n] != words[end - n]:
            break
        steps.append(-n)
    return steps


def _shifted(words: Iterable[Word], by: int) -> list[Word]:
    return [Word(word.text, word.start + by, word.end + by) for word in words]
