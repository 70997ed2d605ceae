"""Print sentences and tables for people: as wide as the terminal, plain text in a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from rich.console import Console
from rich.text import Text

from medstress.cli.look import WIDTH, Look, is_ascii, wrapped
from medstress.cli.streams import one_line, plain_stream

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
