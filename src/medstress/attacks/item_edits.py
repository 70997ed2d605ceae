"""From a rewritten question back to edits of the original, word by word."""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

from rapidfuzz.distance import Indel

from medstress.items import Candidate, Question
from medstress.text import Edit

_WORD = re.compile(r"\w+|[^\w\s]")
_HIDDEN = ("Cc", "Cf")
"""Unicode categories: controls, and marks without a shape."""
_LAYOUT = "\t\n\r"


@dataclass(frozen=True, slots=True)
class _Word:
    text: str
    start: int
    end: int


def edits_between(item: Question, rewritten: str) -> Candidate:
    """Return the item with the fewest word insertions and deletions that give the rewritten text.

    White space between words that stay is that of the original; what is inserted keeps its own.
    An insertion between context and stem belongs to the context.

    >>> item = Question(id="q", context="A man coughs.", stem="Why?", options=("Flu", "Cold"),
    ...                 key="A")
    >>> made = edits_between(item, "A man, a teacher, coughs.  Why?")
    >>> made.context, made.stem
    ('A man, a teacher, coughs.', 'Why?')
    """
    old, new = _words(item.question), _words(rewritten)
    before, after = [word.text for word in old], [word.text for word in new]
    edits: list[Edit] = []
    i = j = 0
    for op in [*Indel.opcodes(before, after), None]:
        if op is not None and op.tag != "equal":
            continue
        until = (len(old), len(new)) if op is None else (op.src_start, op.dest_start)
        if until != (i, j):
            edits += _edits(
                item, old[i : until[0]], new[j : until[1]], (old, i), (new, j), rewritten
            )
        if op is not None:
            i, j = op.src_end, op.dest_end
    return Candidate(item=item, edits=tuple(edits))


def hidden_in(rewritten: str, original: str) -> str | None:
    """The first character of a rewritten text that nobody sees and the original does not have.

    Such characters would part words that the gates look for, or end a text early.

    >>> hidden_in("a fe\\u200bver", "a fever"), hidden_in("two\\nlines", "two lines")
    ('U+200B', None)
    """
    for character in rewritten:
        if unicodedata.category(character) in _HIDDEN and character not in _LAYOUT + original:
            return f"U+{ord(character):04X}"
    return None


def _words(text: str) -> list[_Word]:
    return [_Word(found.group(), found.start(), found.end()) for found in _WORD.finditer(text)]


def _edits(
    item: Question,
    gone: list[_Word],
    come: list[_Word],
    old: tuple[list[_Word], int],
    new: tuple[list[_Word], int],
    rewritten: str,
) -> list[Edit]:
    """The edits of one place where the two texts differ."""
    (old_words, i), (new_words, j) = old, new
    if gone:
        start, end = gone[0].start, gone[-1].end
        text = rewritten[come[0].start : come[-1].end] if come else ""
        return _placed(item, start, end, text)
    if i:
        at = old_words[i - 1].end
        return _placed(item, at, at, rewritten[new_words[j - 1].end : come[-1].end])
    follows = new_words[j + len(come)].start if j + len(come) < len(new_words) else len(rewritten)
    return _placed(item, 0, 0, rewritten[come[0].start : follows])


def _placed(item: Question, start: int, end: int, text: str) -> list[Edit]:
    """An edit of the whole question as edits of its fields; one across both becomes two."""
    n = len(item.context)
    if not n:
        return [Edit(field="stem", start=start, end=end, replacement=text)]
    if end <= n:
        return [Edit(field="context", start=start, end=end, replacement=text)]
    if start > n:
        return [Edit(field="stem", start=start - n - 1, end=end - n - 1, replacement=text)]
    return [
        Edit(field="context", start=start, end=n, replacement=text),
        Edit(field="stem", start=0, end=end - n - 1, replacement=""),
    ]
