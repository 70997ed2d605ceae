"""The worst slices of a run in short, for the terminal: each named by property and value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medstress.metrics.slices import is_too_small
from medstress.report.criteria import compared
from medstress.report.labels import Row
from medstress.results.formats import as_text, shorten
from medstress.results.measures import measure
from medstress.results.names import Names
from medstress.results.table import Cell, Format, Table, as_row, columns

_MOST_ROWS = 20
_LONGEST_SLICE, _LONGEST_PART = 60, 24
_PLACE = ("victim", "dataset", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The worst slice of every attack and property."""

    tables: tuple[Table, ...]
    """One for each victim, data set and group."""
    n_left: int
    """Slices that are left out because others lose more."""


def worst_slices_in_short(slicing: Mapping[str, Any], names: Names) -> Worst:
    """Return the worst slices by place, those that lose most first; of many the worst.

    Args:
        slicing: of a summary; `worst` is read.
        names: of the run.
    """
    ranked = sorted(slicing["worst"], key=lambda row: -(row.get("asr_shrunken") or 0.0))
    by_place: dict[tuple[str, ...], list[Row]] = {}
    for row in ranked[:_MOST_ROWS]:
        place = tuple(shorten(names.of(name, row[name]), _LONGEST_PART) for name in _PLACE)
        by_place.setdefault(place, []).append(row)
    tables = tuple(
        Table(
            name="worst-slices-short",
            caption=f"The worst slice by each property: {victim} on {dataset}, {group}",
            columns=(
                *columns(Format.TEXT, "Slice", "Attack"),
                *(measure(name).column for name in ("n_items", "asr")),
            ),
            rows=tuple(
                as_row(
                    shorten(f"{row['by']} = {as_text(row['value'])}", _LONGEST_SLICE),
                    names.of("attack", row["attack"]),
                    measure("n_items").read(row),
                    Cell(value=measure("asr").read(row), lines=_remarks(row)),
                )
                for row in rows
            ),
        )
        for (victim, dataset, group), rows in by_place.items()
    )
    return Worst(tables=tables, n_left=max(0, len(ranked) - _MOST_ROWS))


def _remarks(row: Row) -> tuple[str, ...]:
    # The ends at their worst differ by slice and stand in the wide table: here every line is one
    # sentence about many slices.
    small = ("too few items to say anything",) if is_too_small(row) else ()
    return (*small, *compared(row))
