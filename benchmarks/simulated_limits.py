"""What exceeds its limit, and the answer that the page may give: never Yes without the excess."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import sqrt
from textwrap import fill
from typing import Any

from pages import blocks, table
from simulated_tables import ONCE

from medstress.results.formats import decimal

Cell = dict[str, Any]
Found = Mapping[str, Mapping[str, Any]]

WHATS = {
    "share": "a share",
    "difference": "a paired difference",
    "abbott": "Abbott's point",
    "loss": "the loss, by its bounds",
}
LEAST = {True: 0.929, False: 0.92}
"""The least coverage: where items occur once, and for clusters."""
MOST = {True: 0.055, False: 0.06}
"""The largest share of intervals on one side of the truth."""


def intervals(found: Found) -> list[Cell]:
    """Every cell in which an interval was held against the truth."""
    names = ("shares", "pairs", "losses", "clusters", "victims")
    return [each for name in names for each in found[name]["cells"]]


def is_beyond(cell: Cell) -> bool:
    """Whether coverage or a tail exceeds its limit."""
    once = cell["layout"] == ONCE
    tail = max(cell["too_low"], cell["too_high"])
    return bool(cell["coverage"] < LEAST[once] or tail > MOST[once])


def size_limit(level: float, runs: int) -> float:
    """The level and three standard errors."""
    return level + 3 * sqrt(level * (1 - level) / runs)


@dataclass(frozen=True, slots=True)
class Sizes:
    """One test at one level, over all of its cells of one layout."""

    test: str
    layout: str
    level: str
    cells: list[Cell]
    limit: float
    """The level where sizes are exact; three standard errors above it where they are drawn."""

    def size(self, cell: Cell) -> float:
        """How often it rejects in a cell."""
        return float(cell["rejected"][self.level])

    @property
    def worst(self) -> Cell:
        """The cell with the largest size."""
        return max(self.cells, key=self.size)

    @property
    def above(self) -> list[Cell]:
        """The cells beyond the limit, the largest size first."""
        return sorted(
            (c for c in self.cells if self.size(c) > self.limit), key=self.size, reverse=True
        )


def sizes_of(part: Mapping[str, Any]) -> Iterator[Sizes]:
    """The tests, in the order of the page."""
    cells = part["cells"]
    kinds = dict.fromkeys((c["test"], c["layout"], level) for c in cells for level in c["rejected"])
    for test, layout, level in kinds:
        some = [c for c in cells if (c["test"], c["layout"]) == (test, layout)]
        exact = all(c["exact"] for c in some)
        limit = float(level) if exact else size_limit(float(level), part["runs"])
        yield Sizes(test, layout, level, some, limit)


def answer(found: Found) -> str:
    """The first sentences of the page: what exceeds its level comes first."""
    worst: dict[tuple[str, str], float] = {}
    for each in sizes_of(found["sizes"]):
        if each.above:
            key = (each.test, each.level)
            worst[key] = max(worst.get(key, 0.0), each.size(each.worst))
    told = [
        f"{test}, at {level.lstrip('0')}: up to {decimal(size, 4)}"
        for (test, level), size in worst.items()
    ]
    if told:
        first = (
            "Not everywhere. Tests that [err more often than their level](#beyond-the-limits): "
            f"{'; '.join(told)}. The other tests keep theirs."
        )
    else:
        first = "Of the tests, yes: each keeps its level."
    cells = intervals(found)
    below = sum(map(is_beyond, cells))
    least = decimal(min(cell["coverage"] for cell in cells))
    points = [
        f"95 % intervals of shares and losses hold the truth in {least} of runs or more; "
        f"{below or 'none'} of {len(cells):,} cells {'is' if below < 2 else 'are'} beyond the "
        "limits set for them, .929 and .92.",
        *short(found),
    ]
    return blocks(_wrapped(f"**Answer.** {first}"), "\n".join(_wrapped(f"* {p}") for p in points))


def short(found: Found) -> list[str]:
    """What the intervals of slices, of names like these and of confidence hold, at the least."""
    slices = {
        each: min(c["exact"] for c in found["slices"]["cells"] if c["answers"] == each)
        for each in (1, 5)
    }
    net = min(c["net"] for c in found["slices"]["cells"] if c["net"] is not None)
    two_way = max(cell["two-way"] for cell in found["two_way"]["cells"])
    errors = min(cell["coverage"] for cell in found["calibration"]["cells"])
    few, many = (
        min(c["coverage"] for c in found["changes"]["cells"] if (c["items"] >= 100) is many)
        for many in (False, True)
    )
    return [
        f"Intervals of slices at Sidak's level hold all at once in {decimal(slices[1])} or more "
        f"where items occur once, in [as few as {decimal(slices[5])}](#slices) where they are "
        f"answered five times; those of a − c of slices in {decimal(net)} or more.",
        f"The interval for names like these misses in [up to {decimal(two_way)}](#names), for .05.",
        f"Intervals of calibration errors hold in {decimal(errors)} or more; those of the change "
        f"of P(key) and of Brier's score in {decimal(many)} with 100 items or more, and in "
        f"[as few as {decimal(few)}](#confidence) with 10 to 50.",
    ]


def _wrapped(text: str) -> str:
    indent = "  " if text.startswith("* ") else ""
    return fill(text, 118, subsequent_indent=indent, break_long_words=False, break_on_hyphens=False)


def beyond(found: Found) -> str:
    """Sizes above their level first, then intervals below their limit."""
    above = [each for each in sizes_of(found["sizes"]) if each.above]
    above.sort(key=lambda each: each.size(each.worst) - float(each.level), reverse=True)
    rows = [
        [
            each.test,
            each.layout,
            each.level.lstrip("0"),
            decimal(each.size(each.worst) - float(each.level), 4),
            decimal(each.size(each.worst), 4),
            "enumerated" if each.worst["exact"] else "drawn",
            _where(each.worst),
            f"{len(each.above)} of {len(each.cells)}",
        ]
        for each in above
    ]
    heads = [
        "null",
        "answers an item",
        "level",
        "excess, at most",
        "size",
        "how",
        "with",
        "cells beyond",
    ]
    tests = (
        blocks("Tests that err more often than their level:", table(heads, rows))
        if rows
        else "No test errs more often than its level."
    )
    return blocks(tests, _intervals(intervals(found)))


def _where(cell: Cell) -> str:
    given = ", ".join(
        f"{name} {decimal(cell[name], 2)}"
        for name in ("discordance", "correlation", "margin", "chance")
        if name in cell
    )
    return f"{cell['items']:,} items, {given}"


_HIDDEN = ("what", "layout", "exact", "coverage", "too_low", "too_high", "with_abbott", "items")


def _truth(cell: Cell) -> str:
    return ", ".join(
        f"{name} {decimal(value) if isinstance(value, float) else value}"
        for name, value in cell.items()
        if name not in _HIDDEN
    )


def _intervals(cells: list[Cell]) -> str:
    below = sorted(filter(is_beyond, cells), key=lambda cell: float(cell["coverage"]))
    if not below:
        return f"None of {len(cells):,} cells of intervals is beyond its limit."
    rows = [
        [
            WHATS[cell["what"]],
            cell["layout"],
            cell["items"],
            _truth(cell),
            *(decimal(cell[name]) for name in ("coverage", "too_low", "too_high")),
        ]
        for cell in below
    ]
    heads = ["interval of", "answers", "items", "truth", "coverage", "too low", "too high"]
    return blocks(f"{len(below)} of {len(cells):,} cells of intervals:", table(heads, rows))


def sizes(part: Mapping[str, Any]) -> str:
    """The largest size of every test at every level."""
    rows = [
        [
            each.test,
            each.layout,
            each.level.lstrip("0"),
            len(each.cells),
            decimal(each.size(each.worst), 4),
            decimal(each.limit, 4),
            len(each.above),
        ]
        for each in sizes_of(part)
    ]
    heads = ["null", "answers an item", "level", "cells", "largest size", "limit", "beyond"]
    return table(heads, rows)
