"""Counts and names in sentences."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from pathlib import PurePath

_TURNS = re.compile("[\u202a-\u202e\u2066-\u2069]")
"""Characters that change the writing direction of what follows them."""


def plural(n: int, one: str, many: str | None = None) -> str:
    """Write a count with its noun.

    >>> plural(1, "item"), plural(1200, "item"), plural(0, "query", "queries")
    ('1 item', '1,200 items', '0 queries')
    """
    return f"{n:,} {one if n == 1 else many or one + 's'}"


def quoted(path: object) -> str:
    """Return a path as a shell reads it: as it is, unless a character of it is odd there.

    >>> quoted("runs/a"), quoted("my runs/$(rm)"), quoted("a\\nb")
    ('runs/a', "'my runs/$(rm)'", "$'a\\\\nb'")
    """
    text = str(path)
    if text.isprintable():
        return shlex.quote(text)
    # What is not seen is written as Bash and Zsh read it.
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return "$'" + "".join(c if c.isprintable() else ascii(c)[1:-1] for c in escaped) + "'"


def with_quoted(sentence: str, words: Sequence[str]) -> str:
    """Return a sentence with those words of a command line, such as paths, quoted in it that hold
    what is not seen.

    >>> with_quoted("no run in a\\nb", ["summary", "a\\nb/"])
    "no run in $'a\\\\nb'"
    """
    values = {part for word in words for part in (word, word.partition("=")[2])}
    odd = {value for value in values if not value.isprintable()}
    for path in sorted(odd | {str(PurePath(value)) for value in odd}, key=len, reverse=True):
        sentence = sentence.replace(path, quoted(path))
    return sentence


def command(*words: object) -> str:
    """Return a command of medstress to type.

    >>> command("summary", "my runs/a")
    "medstress summary 'my runs/a'"
    """
    return " ".join(["medstress", *map(quoted, words)])


def listed(names: Sequence[str]) -> str:
    """Join names in a sentence.

    >>> listed(["a"]), listed(["a", "b", "c"])
    ('a', 'a, b and c')
    """
    *before, last = names
    return f"{', '.join(before)} and {last}" if before else last


def shorten(text: str, limit: int) -> str:
    """Cut a text to one line of at most `limit` characters.

    >>> shorten("entity substitution", 12)
    'entity subs…'
    """
    line = " ".join(_TURNS.sub("\N{REPLACEMENT CHARACTER}", text).split())
    return line if len(line) <= limit else line[: limit - 1].rstrip() + "…"
