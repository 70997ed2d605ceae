"""A table of results: columns that say how their values are written, and typed cells."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from medstress.metrics.old_stats.estimates import Estimate
from medstress.results.formats import MINUS, NONE, as_text, count, decimal, percent, probability

Value: TypeAlias = Estimate | int | float | str | None
"""A cell's value; text is written unchanged in a column of any format."""


class Format(Enum):
    """How the values of a column are written."""

    TEXT = "text"
    """Unchanged text."""
    COUNT = "count"
    """A whole number, or a mean or median of whole numbers."""
    NUMBER = "number"
    """A number with as few digits as possible."""
    PROBABILITY = "probability"
    """A p-value."""
    SHARE = "share"
    """Hits of n: the only format that shows hits."""
    PERCENT = "percent"
    """A share in per cent, as papers print success rates."""
    SCORE = "score"
    """Three decimals, and never hits: an F1, a correlation, a difference, a mean."""


_OF_ESTIMATES = frozenset({Format.SHARE, Format.PERCENT, Format.SCORE})


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column."""

    heading: str
    """Heading of the column."""
    format: Format = Format.TEXT
    """How its values are written."""
    tip: str = ""
    """What its numbers speak of, for those who point at the heading."""

    @property
    def is_numeric(self) -> bool:
        """True if it is aligned and sorted as numbers."""
        return self.format is not Format.TEXT


def columns(form: Format, *headings: str) -> tuple[Column, ...]:
    """Return columns of one format."""
    return tuple(Column(heading=heading, format=form) for heading in headings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One cell: a value, and remarks on it."""

    value: Value
    """The value."""
    lines: tuple[str, ...] = ()
    """Remarks after the value, in smaller type."""
    before: str = ""
    """Words before the value, such as `at most`."""
    mark: str = ""
    """A mark right behind the value."""

    def text(self, form: Format) -> str:
        """Return the value alone, in the format of its column.

        >>> Cell(value=0.25, before="at most").text(Format.SHARE)
        'at most .250'
        """
        value = self.value.value if isinstance(self.value, Estimate) else self.value
        return " ".join(filter(None, (self.before, _written(value, form)))) + self.mark

    def counted(self, form: Format) -> str:
        """Return the counts of a share, such as `17/51`; empty for everything else.

        >>> f1_drop = Estimate(value=0.0, n=4797, low=None, high=None, method="")
        >>> Cell(value=f1_drop).counted(Format.SHARE)
        ''
        """
        if form is not Format.SHARE or not isinstance(self.value, Estimate):
            return ""
        hits = self.value.hits
        return "" if hits is None else f"{count(hits)}/{count(self.value.n)}"

    def interval(self, form: Format) -> str:
        """Return an estimate's interval, such as `[.214, .479]`; empty if it has none."""
        if not isinstance(self.value, Estimate):
            return ""
        low, high = self.value.low, self.value.high
        if low is None or high is None:
            return ""
        return f"[{_written(low, form)}, {_written(high, form)}]"


def _written(value: float | str | None, form: Format) -> str:
    if value is None:
        return NONE
    if isinstance(value, str):
        return value
    if form is Format.TEXT:
        return as_text(value)
    if form is Format.COUNT:
        return count(value)
    if form is Format.NUMBER:
        return f"{value:g}".replace("-", MINUS)
    if form is Format.PROBABILITY:
        return probability(value)
    return percent(value) if form is Format.PERCENT else decimal(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One row."""

    cells: tuple[Cell, ...]
    """One cell per column."""
    published: bool = False
    """True if it repeats a paper's numbers."""
    rule_above: bool = False
    """True if a thin line separates it from the row above."""


def as_row(*values: Value | Cell, published: bool = False, rule_above: bool = False) -> Row:
    """Return a row of values; pass a `Cell` for a value with remarks."""
    cells = tuple(each if isinstance(each, Cell) else Cell(value=each) for each in values)
    return Row(cells=cells, published=published, rule_above=rule_above)


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table of results, for every renderer.

    Raises:
        ValueError: a row or head does not have as many cells as there are columns.
        TypeError: an estimate is in a column whose format cannot write estimates.
    """

    name: str
    """Unique on a page and among files; letters, digits and hyphens."""
    caption: str
    """Caption of the table."""
    columns: tuple[Column, ...]
    """The columns."""
    rows: tuple[Row, ...]
    """The rows."""
    notes: tuple[str, ...] = ()
    """Sentences below the table."""
    heads: tuple[tuple[tuple[str, int], ...], ...] = ()
    """Lines above the headings, each of (text, number of columns it spans)."""
    n_labels: int = 1
    """How many columns at the left label a row."""

    def __post_init__(self) -> None:
        widths = {sum(span for _, span in head) for head in self.heads}
        widths |= {len(each.cells) for each in self.rows}
        if widths - {len(self.columns)}:
            raise ValueError(f"table {self.name}: expected {len(self.columns)} columns in all rows")
        for each in self.rows:
            for column, cell in zip(self.columns, each.cells, strict=True):
                if isinstance(cell.value, Estimate) and column.format not in _OF_ESTIMATES:
                    problem = f"{column.heading}: an estimate in a column of format"
                    raise TypeError(f"table {self.name}, {problem} {column.format.value}")
