"""Turn a rewritten question into word edits of the original."""

from __future__ import annotations

import unicodedata
from collections.abc import Collection

from medstress.attacks.medfuzz.alignment import Word, aligned, words_of
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit

_HIDDEN = ("Cc", "Cf")
"""Unicode categories of control and format characters."""
_LAYOUT = "\t\n\r"


def edits_between(item: Question, rewritten: str, claimed: Collection[str] = ()) -> Candidate:
    """Return the item with the fewest word insertions and deletions that give the rewritten text.

    Kinds of quotes and dashes do not count. Words that stay keep the original's white space and
    marks; insertions keep their own. An insertion between context and stem belongs to the context.
    `alignment.aligned` decides between equally few edits.

    Args:
        item: the original.
        rewritten: the whole question.
        claimed: what the writer says was inserted.

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
    for until in [*aligned(old, new, stem, claimed), (len(old), len(new))]:
        if until != (i, j):
            edits += _edits(
                item, old[i : until[0]], new[j : until[1]], (old, i), (new, j), rewritten
            )
        i, j = until[0] + 1, until[1] + 1
    return Candidate(item=item, edits=tuple(edits))


def hidden_in(rewritten: str, original: str) -> str | None:
    """Return the first invisible character of a rewritten text that the original does not have.

    Such characters would split words that the gates look for, or end a text early.

    >>> hidden_in("a fe\\u200bver", "a fever"), hidden_in("two\\nlines", "two lines")
    ('U+200B', None)
    """
    for character in rewritten:
        if unicodedata.category(character) in _HIDDEN and character not in _LAYOUT + original:
            return f"U+{ord(character):04X}"
    return None


def _edits(
    item: Question,
    deleted: list[Word],
    added: list[Word],
    old: tuple[list[Word], int],
    new: tuple[list[Word], int],
    rewritten: str,
) -> list[Edit]:
    """Return the edits at one place where the two texts differ."""
    (old_words, i), (new_words, j) = old, new
    if deleted:
        start, end = deleted[0].start, deleted[-1].end
        text = rewritten[added[0].start : added[-1].end] if added else ""
        return field_edits(item, start, end, text)
    if i:
        at = old_words[i - 1].end
        return field_edits(item, at, at, rewritten[new_words[j - 1].end : added[-1].end])
    follows = new_words[j + len(added)].start if j + len(added) < len(new_words) else len(rewritten)
    return field_edits(item, 0, 0, rewritten[added[0].start : follows])


def field_edits(item: Question, start: int, end: int, text: str) -> list[Edit]:
    """Turn an edit of the whole question into edits of its fields: two if it crosses both."""
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
