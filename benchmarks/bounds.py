"""Numbers on the command line, with their bounds: a benchmark of nothing measures nothing."""

from __future__ import annotations

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """Return what reads a whole number for argparse, and refuses smaller ones.

    >>> at_least(1)("7")
    7
    """

    def read(told: str) -> int:
        try:
            number = int(told)
        except ValueError:
            number = least - 1
        if number < least:
            raise argparse.ArgumentTypeError(
                f"expected a whole number, at least {least}, not {told!r}"
            )
        return number

    return read


def above_zero(told: str) -> float:
    """Read a number above 0 for argparse.

    >>> above_zero("0.5")
    0.5
    """
    try:
        number = float(told)
    except ValueError:
        number = 0.0
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"expected a number above 0, not {told!r}")
    return number
