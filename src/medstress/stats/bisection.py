"""Find the end of an interval by bisection."""

from __future__ import annotations

from collections.abc import Callable

HALVINGS = 60
"""Number of bisections; it makes the interval's ends exact up to rounding."""


def last_kept(is_kept: Callable[[float], bool], kept: float, out: float) -> float:
    """Return the last value that is kept on the way from one that is to an outer one.

    Args:
        is_kept: whether a value belongs to the interval; once false, it stays so further out.
        kept: a value inside.
        out: the outermost value; it is returned if it is kept too.

    >>> round(last_kept(lambda x: x * x <= 2, 0, 2), 6)
    1.414214
    """
    if is_kept(out):
        return out
    for _ in range(HALVINGS):
        middle = (kept + out) / 2
        kept, out = (middle, out) if is_kept(middle) else (kept, middle)
    return kept
