"""Whether files that do not agree with their chain may be read all the same."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_doubts: list[dict[str, None] | None] = [None]


@contextmanager
def unverified() -> Iterator[dict[str, None]]:
    """Read files that do not agree with their chain, in this process; outputs say so.

    Yields:
        A sentence for each such file, as they are read.
    """
    before, found = _doubts[0], dict[str, None]()
    _doubts[0] = found
    try:
        yield found
    finally:
        _doubts[0] = before


def noted() -> tuple[str, ...]:
    """Return a sentence for each file in doubt that was read so far."""
    return tuple(_doubts[0] or ())


def accepted(doubt: str) -> bool:
    """Return whether a file in doubt may be read, and note it."""
    found = _doubts[0]
    if found is not None:
        found[doubt] = None
    return found is not None
