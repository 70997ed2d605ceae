"""What one measure of a summary is: its name, label, meaning and format, and how it is read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medstress.metrics.old_stats.estimates import is_estimate, read_score, read_share
from medstress.results.estimands import tip_of
from medstress.results.table import Column, Format, Value

SHARE, SCORE = Format.SHARE, Format.SCORE


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One number of a row of `summary --json`."""

    name: str
    """The field; nested fields are joined by a dot, as in `queries.asked`."""
    label: str
    """Heading of its columns."""
    meaning: str
    """What it is, in one sentence without a full stop; empty if it is not defined."""
    format: Format = SCORE
    """How it is written. Only a share is read with its hits."""

    @property
    def column(self) -> Column:
        """The measure's column."""
        return Column(heading=self.label, format=self.format, tip=tip_of(self.name))

    def read(self, row: Mapping[str, Any]) -> Value:
        """Return its value in a row: an estimate, a number, a text, or None if it is missing."""
        value: Any = row
        for part in self.name.split("."):
            value = value.get(part) if isinstance(value, Mapping) else None
        if is_estimate(value):
            if self.format is SHARE and value["value"] is None and row.get("n_measured"):
                return None  # no share of nothing: scores moved, and none is right or wrong
            return read_share(value) if self.format is SHARE else read_score(value)
        return value if isinstance(value, int | float | str) else None


def defined(form: Format, *definitions: tuple[str, str, str]) -> tuple[Measure, ...]:
    """Return measures of one format from their (name, label, meaning)."""
    return tuple(
        Measure(name=name, label=label, meaning=meaning, format=form)
        for name, label, meaning in definitions
    )
