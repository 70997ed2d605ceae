"""What the picture of the first screen measures: answers, a score, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medstress.metrics.old_stats.estimates import is_estimate
from medstress.report.labels import Row
from medstress.results.names import key_of

_SCORES = {"f1": "F1", "pearson": "Pearson correlation", "macro_f1": "Macro F1"}


@dataclass(frozen=True, slots=True)
class Part:
    """What a panel draws."""

    measure: str
    """The field."""
    title: str
    """What it is called."""
    only: frozenset[str] = frozenset()
    """Keys of the attacks that are drawn; empty: all."""
    without: frozenset[str] = frozenset()
    """Keys of those that are not."""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of answers, and no score."""
        return self.measure == "accuracy"

    def has(self, row: Row) -> bool:
        """Return whether a row is drawn."""
        attack = key_of(row["attack"])
        return attack not in self.without and (not self.only or attack in self.only)


def parts_of(rows: Sequence[Row]) -> list[Part]:
    """Return what is drawn: one measure of all rows.

    A search on tagged texts counts entities and has no score after it, so the entities are a
    second measure.
    """
    measure, title = _measure(rows)
    if measure is None:
        return []
    if measure == "accuracy":
        return [Part(measure, title)]
    counted = [row for row in rows if not is_known(row.get(f"{measure}_after"))]
    counted = [row for row in counted if is_known(row.get("accuracy_after"))]
    if not counted:
        return [Part(measure, title)]
    found = "Entities found" if measure == "f1" else "Right answers"
    attacks = frozenset(key_of(row["attack"]) for row in counted)
    return [Part(measure, title, without=attacks), Part("accuracy", found, only=attacks)]


def _measure(rows: Sequence[Row]) -> tuple[str | None, str]:
    """Return the field that is drawn, and what it is called."""
    if any(is_known(row.get("accuracy")) and row.get("chance") is not None for row in rows):
        return "accuracy", "Right answers"
    for name, words in _SCORES.items():
        if any(is_known(row.get(name)) for row in rows):
            return name, words
    if any(is_known(row.get("accuracy")) for row in rows):
        return "accuracy", "Right answers"
    return None, ""


def is_known(found: Any) -> bool:
    """Return whether a field is an estimate with a value."""
    return is_estimate(found) and found["value"] is not None
