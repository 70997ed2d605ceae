"""Tables as commented TOML text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.files.toml_values import toml_key, toml_value

_WIDEST = 40
"""Characters of a key and its value that comments in a table are still aligned with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    """One key of a table."""

    name: str
    """The key."""
    value: Any
    """A value that TOML has."""
    remark: str = ""
    """What the user should know, in a few words."""
    is_off: bool = False
    """True if it is shown as a comment, to be switched on."""

    @property
    def text(self) -> str:
        """Key and value."""
        return f"{'# ' if self.is_off else ''}{toml_key(self.name)} = {toml_value(self.value)}"

    def line(self, column: int) -> str:
        """Return its line, with the remark as a comment from a column on, if there is room."""
        return f"{self.text:<{column}}  # {self.remark}" if self.remark else self.text


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One table."""

    header: str
    """Such as `[experiment]` or `[[victim]]`."""
    keys: Sequence[Key]
    """In order."""
    before: str = ""
    """A comment above it."""
    is_off: bool = False
    """True if all of it is shown as a comment."""

    @property
    def lines(self) -> Iterator[str]:
        """The lines of the table."""
        if self.before:
            yield from (f"# {line}" for line in self.before.splitlines())
        mark = "# " if self.is_off else ""
        yield f"{mark}{self.header}"
        widths = [len(key.text) for key in self.keys if key.remark]
        column = max((width for width in widths if width <= _WIDEST), default=0)
        yield from (f"{mark}{key.line(column)}" for key in self.keys)


def written(title: str, sections: Sequence[Section]) -> str:
    """Return a file: its title as a comment, and the tables with an empty line between them."""
    head = "\n".join(f"# {line}" for line in title.splitlines())
    return "\n\n".join([head, *("\n".join(section.lines) for section in sections)]) + "\n"
