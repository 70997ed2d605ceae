"""The rows of a run's summary, with names in words instead of keys."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from medstress.core.controls import BETWEEN
from medstress.metrics.old_stats.estimates import Estimate, read_share
from medstress.metrics.success import at_budget
from medstress.results.names import Names

Row = Mapping[str, Any]
"""A row of the summary's `pooled`."""
Place = tuple[Any, ...]
"""Data set, group and victim."""

PLACE = ("dataset", "group", "victim")
SHOWN = ("victim", "dataset", "group")
"""The same, in the order of a label."""


class Rows:
    """The rows of a run's attacks, their controls, and what both are called.

    Args:
        summary: as `medstress summary --json`; samples and old exports have no `names`.
    """

    def __init__(self, summary: Mapping[str, Any]) -> None:
        self.summary = summary
        self.names = Names(**(summary.get("names") or {}))
        pooled: Sequence[Row] = sorted(summary.get("pooled") or (), key=self._order())
        self.attacks = [row for row in pooled if "control_of" not in row]
        """One row for each data set, group, victim and attack, in the order of the file."""
        self._controls: dict[Place, list[Row]] = defaultdict(list)
        for row in pooled:
            if "control_of" in row:
                self._controls[(*place_of(row), row["control_of"])].append(row)
        self._varying = tuple(
            name for name in SHOWN if len({str(row.get(name)) for row in self.attacks}) > 1
        )

    def _order(self) -> Callable[[Row], tuple[int, ...]]:
        """Return the key that sorts rows as their names stand in the experiment file."""
        known = {
            factor: {key: i for i, key in enumerate(getattr(self.names, f"{factor}s"))}
            for factor in (*PLACE, "attack")
        }
        return lambda row: tuple(
            places.get(row.get(factor), len(places)) for factor, places in known.items()
        )

    def places(self, rows: Iterable[Row] | None = None) -> dict[Place, list[Row]]:
        """Return the rows of each data set, group and victim; of all attacks by default."""
        return by(self.attacks if rows is None else rows, *PLACE)

    def controls_of(self, row: Row) -> list[Row]:
        """Return the rows of an attack's controls."""
        return self._controls[(*place_of(row), row["attack"])]

    def label(self, row: Row, *factors: str) -> str:
        """Name the place of a row by the factors that vary in the run; empty if none does.

        Args:
            row: a row.
            factors: those that may be named; all of `SHOWN` by default.
        """
        shown = [name for name in self._varying if name in (factors or SHOWN)]
        return " · ".join(self.name(row, name) for name in shown)

    def name(self, row: Row, factor: str) -> str:
        """Return the name of a row's attack, victim, data set or group."""
        return self.names.of(factor, row.get(factor))

    def control_name(self, row: Row) -> str:
        """Return what a control does, in words: without the attack beside which it stands."""
        return self.name(row, "attack").rpartition(BETWEEN)[2]

    def shared_controls(self, rows: Sequence[Row]) -> Iterator[tuple[str, Row]]:
        """Yield (name, row) of the controls of attacks in one place.

        A control that found the same under every attack is one; others name their attack.
        """
        known: dict[str, list[Row]] = defaultdict(list)
        for row in rows:
            for control in self.controls_of(row):
                known[self.control_name(control)].append(control)
        for name, members in known.items():
            found = {json.dumps([row["accuracy_after"], row["asr_at"]]) for row in members}
            if len(found) == 1:
                yield name, members[0]
            else:
                for row in members:
                    yield self.name(row, "attack"), row


def place_of(row: Row) -> Place:
    """Return the data set, group and victim of a row."""
    return tuple(row.get(name) for name in PLACE)


def keys_of(row: Row) -> dict[str, Any]:
    """Return the keys that identify a row, for a line of a CSV file."""
    return {name: row.get(name) for name in (*PLACE, "attack")}


def by(rows: Iterable[Row], *factors: str) -> dict[Place, list[Row]]:
    """Group rows by factors, groups in the order of their first row."""
    found: dict[Place, list[Row]] = {}
    for row in rows:
        found.setdefault(tuple(row.get(name) for name in factors), []).append(row)
    return found


def success(row: Row, budget: int) -> Estimate | None:
    """Return success within a budget; None if the attack's budget was smaller."""
    point = at_budget(row["asr_at"], budget)
    return None if point is None else read_share(point)


def spec_of(row: Row) -> Mapping[str, Any]:
    """Return the parameters of a row's attack."""
    given = row.get("attack_spec") or {}
    found: Mapping[str, Any] = json.loads(given) if isinstance(given, str) else given
    return found


def last_budget(row: Row) -> int:
    """Return the budget of a row's attack; 0 if it has no curve."""
    points = row.get("asr_at") or ()
    return int(points[-1]["budget"]) if points else 0
