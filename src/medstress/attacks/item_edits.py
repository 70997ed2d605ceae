"""From a rewritten question back to edits of the original, word by word."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from medstress.attacks.alignment import Word, aligned, words_of
from medstress.items import Candidate, Question
from medstress.text import Edit

_HIDDEN = ("Cc", "Cf")
"""Unicode categories: controls, and marks without a shape."""
_LAYOUT = "\t\n\r"


def edits_between(item: Question, rewritten: str, told: Collection[str] = ()) -> Candidate:
    """Return the item with the fewest word insertions and deletions that give the rewritten text.

    Quotes and dashes of either kind are one. White space and marks of words that stay are those
    of the original; what is inserted keeps its own. An insertion between context and stem belongs
    to the context. Among equally few edits those of `alignment.aligned` are taken.

    Args:
        item: the original.
        rewritten: the whole question.
        told: what whoever wrote it says was inserted.

    >>> item = Question(id="q", context="A man coughs.", stem="Why?", options=("Flu", "Cold"),
    ...                 key="A")
    >>> made = edits_between(item, "A man, a teacher, coughs.  Why?")
    >>> made.context, made.stem
    ('A man, a teacher, coughs.', 'Why?')
    """
    old, new = words_of(item.question), words_of(rewritten)
    stem = len(words_of(item.context))
    edits: list[Edit] = []
    i = j = 0
    for until in [*aligned(old, new, stem, told), (len(old), len(new))]:
        if until != (i, j):
            edits += _edits(
                item, old[i : until[0]], new[j : until[1]], (old, i), (new, j), rewritten
            )
        i, j = until[0] + 1, until[1] + 1
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


def _edits(
    item: Question,
    gone: list[Word],
    come: list[Word],
    old: tuple[list[Word], int],
    new: tuple[list[Word], int],
    rewritten: str,
) -> list[Edit]:
    """The edits of one place where the two texts differ."""
    (old_words, i), (new_words, j) = old, new
    if gone:
        start, end = gone[0].start, gone[-1].end
        text = rewritten[come[0].start : come[-1].end] if come else ""
        return placed(item, start, end, text)
    if i:
        at = old_words[i - 1].end
        return placed(item, at, at, rewritten[new_words[j - 1].end : come[-1].end])
    follows = new_words[j + len(come)].start if j + len(come) < len(new_words) else len(rewritten)
    return placed(item, 0, 0, rewritten[come[0].start : follows])


def placed(item: Question, start: int, end: int, text: str) -> list[Edit]:
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
