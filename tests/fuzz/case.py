"""One input of the fuzzer: what is wrong with it, how it is written, what may come of it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

DONE, REFUSED = 0, 2
FAILED_TRIALS = 1
"""Documented: more failed trials than `max_failed`; never with the word bug."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A data set read with `on_bad_row = "skip"`: none of its rows may vanish."""

    dataset: str
    """Its registered name."""
    file: str
    """Within the case's folder."""
    given: int
    """Rows that the file holds, counted by other means than the reader's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A valid input with one thing wrong."""

    name: str
    """What is wrong, in a few words."""
    write: Callable[[Path], Sequence[str]]
    """Writes the files into an empty folder; returns the arguments of `medstress`."""
    codes: frozenset[int] = frozenset({DONE, REFUSED})
    """Exit codes that are documented for it."""
    rows: Rows | None = None
    """What is counted, where rows are."""
    check: Callable[[Path], str | None] | None = None
    """Looks at the folder when the command is done; says what is wrong, or None."""
