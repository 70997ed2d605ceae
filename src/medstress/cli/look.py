"""Names, bars and sentences within a given width, in characters that can be shown."""

from __future__ import annotations

import os
import re
import textwrap
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size

from medstress.cli.streams import one_line

WIDTH = 80
"""Columns of a pipe, and of a terminal that does not say."""
_EIGHTHS = " ▏▎▍▌▋▊▉█"
_INTERVAL = re.compile(r"(?<=\d), (?=[−-]?[\d.]+\])")
_TIED = "\N{NO-BREAK SPACE}"
_MARKS = "█▏…−–"
"""What a stream has to be able to encode."""
_PLAIN = str.maketrans({"−": "-", "–": "-", "·": "-", "→": ">", "…": "..."})


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """Where lines are shown."""

    width: int = WIDTH
    """Columns."""
    is_ascii: bool = False
    """Whether nothing but ASCII can be shown."""

    @property
    def ellipsis(self) -> str:
        """Ends a name that is cut."""
        return "..." if self.is_ascii else "…"

    def shown(self, text: str) -> str:
        """Return a text in one line, in characters that can be shown.

        >>> Look(is_ascii=True).shown("−.5 · caffè")
        '-.5 - caff?'
        """
        line = one_line(text)
        if not self.is_ascii:
            return line
        return line.translate(_PLAIN).encode("ascii", "replace").decode()

    def fitted(self, text: str) -> str:
        """Return a text in one line that is no wider than the screen."""
        return cut(self.shown(text), self.width, self.ellipsis)


def bar(share: float | None, width: int, *, is_ascii: bool = False) -> str:
    """Draw a share as a bar of at most `width` cells; what is above 0 is never empty.

    >>> bar(0.5, 8), bar(0.33, 4), bar(0.001, 8), bar(0.0, 8)
    ('████', '█▍', '▏', '')
    >>> bar(0.33, 8, is_ascii=True)
    '###'
    """
    if share is None or not share > 0 or not width:
        return ""
    if is_ascii:
        return "#" * max(1, round(min(share, 1.0) * width))
    full, rest = divmod(max(1, round(min(share, 1.0) * 8 * width)), 8)
    return _EIGHTHS[8] * full + _EIGHTHS[rest].strip()


def cut(text: str, width: int, ellipsis: str = "…") -> str:
    """Cut a name to at most `width` cells.

    >>> cut("entity substitution", 12)
    'entity subs…'
    """
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - len(ellipsis))).rstrip() + ellipsis


def wrapped(text: str, width: int, later: str = "") -> list[str]:
    """Wrap a text between words; an interval and a long word, such as a path, stay whole.

    >>> wrapped("lost: .33 [.21, .48] of all", 18)
    ['lost: .33', '[.21, .48] of all']
    """
    lines = textwrap.wrap(
        _INTERVAL.sub(f",{_TIED}", text),
        width,
        break_long_words=False,
        break_on_hyphens=False,
        subsequent_indent=later,
    )
    return [line.replace(_TIED, " ") for line in lines] or [""]


def is_ascii(stream: object) -> bool:
    """Return whether a stream shows nothing but ASCII for certain."""
    if os.environ.get("TERM") == "dumb":
        return True
    try:
        _MARKS.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False
