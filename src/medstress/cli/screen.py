"""Print sentences and tables for people: as wide as the terminal, plain text in a pipe."""

from __future__ import annotations

import os
import re
import sys
import textwrap
from dataclasses import dataclass

from rich.cells import cell_len, set_cell_size
from rich.console import Console
from rich.text import Text

from medstress.cli.streams import one_line, plain_stream

WIDTH = 80
"""Columns of a pipe, and of a terminal that does not say."""
_NARROWEST = 60
_INTERVAL = re.compile(r"(?<=\d), (?=[−-]?[\d.]+\])")
_TIED = "\N{NO-BREAK SPACE}"
_MARKS = "█▏…−–"
"""What a stream has to be able to encode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Screen:
    """Standard output, as it is now."""

    console: Console
    """Draws on a terminal; it knows NO_COLOR and terminals without colours."""
    width: int = WIDTH
    """Columns."""

    def say(self, text: str, style: str = "") -> None:
        """Print a sentence: wrapped between words on a terminal, in one line elsewhere."""
        line = one_line(text)
        if not self.console.is_terminal:
            print(line)
            return
        for part in wrapped(line, self.width, "  " if line.startswith("! ") else ""):
            self.console.print(Text(part, style), soft_wrap=True)

    def row(self, text: str = "", style: str = "", behind: str = "") -> None:
        """Print one line, cut so that it is no wider than the screen with what stands behind it."""
        line = cut(one_line(text), self.width - cell_len(behind)) + behind
        if self.console.is_terminal:
            self.console.print(Text(line, style), soft_wrap=True)
        else:
            print(line)


def screen() -> Screen:
    """Return standard output as a screen: 80 columns unless a terminal says otherwise."""
    stream = plain_stream(sys.stdout)
    console = Console(file=stream, highlight=False)
    if not console.is_terminal or _is_ascii(stream):
        # Through what replaces characters that cannot be written, and outlives a closed pipe.
        console = Console(file=sys.stdout, highlight=False, color_system=None)
    width = max(_NARROWEST, console.width) if console.is_terminal else WIDTH
    return Screen(console=console, width=width)


def cut(text: str, width: int) -> str:
    """Cut a text to at most `width` cells.

    >>> cut("entity substitution", 12)
    'entity su...'
    """
    if cell_len(text) <= width:
        return text
    return set_cell_size(text, max(0, width - 3)).rstrip() + "..."


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


def _is_ascii(stream: object) -> bool:
    """Return whether a stream shows nothing but ASCII for certain."""
    if os.environ.get("TERM") == "dumb":
        return True
    try:
        _MARKS.encode(getattr(stream, "encoding", None) or "utf-8")
    except (UnicodeEncodeError, LookupError):
        return True
    return False
