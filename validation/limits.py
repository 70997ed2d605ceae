"""Cells beyond their limits: intervals that miss the truth too often, tests that err too often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import sqrt
from typing import Any

from drawn_tables import ONCE

Cell = dict[str, Any]
Found = Mapping[str, Mapping[str, Any]]

INTERVALS = ("shares", "pairs", "losses", "clusters", "victims")
"""Parts whose cells hold intervals against the truth."""
LEAST = {True: 0.929, False: 0.92}
"""The least coverage: where items occur once, and for clusters."""
MOST = {True: 0.055, False: 0.06}
"""The largest share of intervals on one side of the truth."""


def beyond(found: Found) -> Iterator[Cell]:
    """Yield the cells beyond their limits, with the part they are of and what exceeds."""
    for part in INTERVALS:
        for cell in found.get(part, {}).get("cells", ()):
            once = cell["layout"] == ONCE
            tail = max(cell["too_low"], cell["too_high"])
            if cell["coverage"] < LEAST[once] or tail > MOST[once]:
                yield {"part": part, **cell}
    if "sizes" in found:
        for cell in found["sizes"]["cells"]:
            runs = None if cell["exact"] else found["sizes"]["runs"]
            for level, size in cell["rejected"].items():
                if size > size_limit(float(level), runs):
                    yield {"part": "sizes", **cell, "level": level, "excess": size - float(level)}


def size_limit(level: float, runs: int | None) -> float:
    """The level where sizes are exact; three standard errors above it where they are drawn."""
    return level if runs is None else level + 3 * sqrt(level * (1 - level) / runs)
