"""Print sentences and tables for people: as wide as the terminal, plain text in a pipe."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from medstress.cli.streams import one_line, plain_stream

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


_NARROWEST = 60


class Kind(Enum):
    """What a line is, for those who give it a style."""

    SAID = "said"
    """What holds for every row."""
    HEAD = "head"
    """Headings."""
    ROW = "row"
    """One row."""
    NOTE = "note"
    """Remarks on rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line, at most as wide as the screen."""

    text: str
    kind: Kind


STYLES = {Kind.HEAD: "bold", Kind.NOTE: "yellow"}
"""Kind of line -> style on a terminal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Standard output, as it is now."""

    console: Console
    """Draws on a terminal; it knows NO_COLOR and terminals without colours."""
    look: Look
    """Its width and characters."""

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence: wrapped between words on a terminal, in one line elsewhere."""
        line = one_line(text)
        if not self.console.is_terminal:
            print(line)
            return
        for part in wrapped(line, self.look.width, "  " if line.startswith("! ") else ""):
            self._print(part, style)

    def print_lines(self, lines: Iterable[Line]) -> None:
        """Print lines that are no wider than the screen."""
        for line in lines:
            if self.console.is_terminal:
                self._print(line.text, STYLES.get(line.kind, ""))
            else:
                print(line.text)

    def _print(self, text: str, style: str) -> None:
        self.console.print(Text(text, style), soft_wrap=True)


def screen() -> Screen:
    """Return standard output as a screen: 80 columns unless a terminal says otherwise."""
    stream = plain_stream(sys.stdout)
    console = Console(file=stream, highlight=False)
    if not console.is_terminal or is_ascii(stream):
        # Through what replaces characters that cannot be written, and outlives a closed pipe.
        console = Console(file=sys.stdout, highlight=False, color_system=None)
    width = max(_NARROWEST, console.width) if console.is_terminal else WIDTH
    return Screen(console=console, look=Look(width=width, is_ascii=is_ascii(stream)))


def titled(caption: str) -> Iterator[Line]:
    """Yield an empty line and the title of what follows."""
    yield Line(text="", kind=Kind.SAID)
    yield Line(text=caption, kind=Kind.HEAD)
