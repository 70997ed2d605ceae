"""What a table of the report is, and the cells it is made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from medstress.report.formats import as_text, count, decimal, interval, probability

Row = Mapping[str, Any]
"""A row of the summary's `results` or `pooled`."""

FACTORS = ("attack", "dataset", "group", "victim")
"""What tells the rows of a summary apart, besides the seed."""

_ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: what it says, smaller lines below, and what it is sorted by."""

    text: str
    """The first line."""
    lines: tuple[str, ...] = ()
    """Further lines, set smaller."""
    sort: float | None = None
    """Its rank when the column is sorted; None sorts by the text, and empty numbers last."""
    numeric: bool = True
    """Whether it is aligned and sorted as a number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table with a caption; the first cell of each row is its header."""

    name: str
    """Unique on the page; letters and hyphens."""
    caption: str
    """What the table shows."""
    columns: tuple[str, ...]
    """Column headers, the row header's first."""
    rows: tuple[tuple[Cell, ...], ...]
    """Cells, as many as columns."""
    note: str = ""
    """A sentence below the table."""


def is_estimate(value: Any) -> TypeGuard[Mapping[str, Any]]:
    """Tell whether `value` is an estimate: value, n, low, high, method."""
    return isinstance(value, Mapping) and {"value", "n", "low", "high"} <= set(value)


def words(value: Any) -> Cell:
    """A cell of text."""
    return Cell(text=as_text(value), numeric=False)


def tally(value: float | None, *lines: str) -> Cell:
    """A cell with a count."""
    return Cell(text=count(value), lines=lines, sort=value)


def measure(value: float | None, *lines: str) -> Cell:
    """A cell with a number of three decimals."""
    return Cell(text=decimal(value), lines=lines, sort=value)


def p_cell(value: float | None) -> Cell:
    """A cell with a p-value."""
    return Cell(text=probability(value), sort=value)


def share_cell(estimate: Any, part: int | None = None, whole: int | None = None) -> Cell:
    """A cell with a share of trials: value, hits / n, interval.

    Args:
        estimate: `{"value", "n", "low", "high", "method"}`, or None where the row has none.
        part: the hits, where the row holds them as a count; else value times n.
        whole: the denominator beside it.
    """
    if not is_estimate(estimate):
        return measure(None)
    value, n = estimate["value"], estimate["n"]
    if value is None:
        return measure(None, f"n = {count(n)}" if part is None else f"{count(part)}/{count(whole)}")
    if part is None:
        part, whole = round(value * n), n
    # A mean of shares is no share of its trials, though value times n may happen to be whole.
    is_share = whole and abs(part / whole - value) < _ROUNDING
    told = f"{count(part)}/{count(whole)}" if is_share else f"n = {count(n)}"
    return measure(value, told, interval(estimate))


def score_cell(estimate: Any) -> Cell:
    """A cell with what is no share (F1, a correlation, a difference): value, n, interval.

    It has no hits, so it shows none, even where value times n happens to be whole.
    """
    if not is_estimate(estimate):
        return measure(None)
    value, told = estimate["value"], f"n = {count(estimate['n'])}"
    return measure(value, told) if value is None else measure(value, told, interval(estimate))


def at_worst(cell: Cell, estimate: Any, bounds: Sequence[float | None] | None) -> Cell:
    """A cell with, below it, the ends of its interval if open answers count at their worst.

    Args:
        cell: of the estimate.
        estimate: whose interval it shows.
        bounds: `[low, high]`; nothing is added where they are the interval's ends.
    """
    if not is_estimate(estimate) or not bounds or None in bounds:
        return cell
    if list(bounds) == [estimate["low"], estimate["high"]]:
        return cell
    ends = interval({"low": bounds[0], "high": bounds[1]})
    return Cell(text=cell.text, lines=(*cell.lines, f"at worst {ends}"), sort=cell.sort)


def label_cell(row: Row) -> Cell:
    """The header of a row: its attack, and below it data set, group, victim and seeds."""
    place = " · ".join(as_text(row[name]) for name in ("dataset", "group") if row.get(name))
    return Cell(
        text=as_text(row.get("attack")),
        lines=(place, as_text(row.get("victim")), seeds_of(row)),
        numeric=False,
    )


def label_text(place: Iterable[Any]) -> str:
    """Name data set, group and victim in one line."""
    return " · ".join(map(as_text, place))


def seeds_of(row: Row) -> str:
    """Say which seeds a row covers.

    >>> seeds_of({"seeds": [0, 1]}), seeds_of({"seed": None}), seeds_of({"seed": 3})
    ('seeds 0, 1', 'no seed (deterministic)', 'seed 3')
    """
    seeds: Sequence[Any] = row["seeds"] if row.get("seeds") else [row.get("seed")]
    if all(seed is None for seed in seeds):
        return "no seed (deterministic)"
    return ("seed " if len(seeds) == 1 else "seeds ") + ", ".join(map(as_text, seeds))


def short_labels(rows: Sequence[Row], factors: Iterable[str] = FACTORS) -> list[str]:
    """Name each row by the factors in which the rows differ (by the attack where in none).

    >>> short_labels([{"attack": "a", "victim": "v"}, {"attack": "b", "victim": "v"}])
    ['a', 'b']
    """
    varying = [name for name in factors if len({as_text(row.get(name)) for row in rows}) > 1]
    used = varying or ["attack"]
    labels = [" · ".join(as_text(row.get(name)) for name in used) for row in rows]
    if len(set(labels)) == len(labels):
        return labels
    return [f"{label} · {seeds_of(row)}" for label, row in zip(labels, rows, strict=True)]


def number(row: Row, name: str) -> int:
    """A count of a row; 0 where the row has none."""
    return int(row.get(name) or 0)
