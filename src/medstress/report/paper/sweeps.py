"""Success by distance, for attacks that ask every name: lines and sentences of the figure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from medstress.metrics.estimates import read_share
from medstress.report.coverage import coverage_sentence
from medstress.report.paper.arms import Arm
from medstress.report.paper.canvas import Point
from medstress.report.paper.made import csv_row
from medstress.results.formats import plural

BY_DISTANCE, BY_ORDER = "distance to the key", "names, nearest to the key first (share)"
CSV_FIELDS = (
    "victim", "dataset", "group", "embedding", "rule", "attack", "item", "class", "from", "to",
    "distance_from", "distance_to", "value", "low", "high", "n", "interval",
)  # fmt: skip

Line = tuple[tuple[float, float], ...]
"""(middle of a class, share) of one item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One attack on one group."""

    arm: Arm
    """Which."""
    row: Mapping[str, Any]
    """Its row of `analysis.sweeps`."""
    coverage: str | None
    """How much of the vocabulary was tried; None where the summary does not say."""

    @property
    def has_distances(self) -> bool:
        """Whether the run kept the distances of every item that is told."""
        told = [*(c["distance"] for c in self.row["classes"]), *(i["distances"] for i in self.told)]
        return all(each is not None for each in told)

    @property
    def told(self) -> Sequence[Mapping[str, Any]]:
        """Items that are told one by one."""
        found: Sequence[Mapping[str, Any]] = self.row["items"]
        return found

    def mean(self, by_distance: bool) -> list[Point]:
        """Over items, with interval; classes that hold no name are left out."""
        found = []
        for each in self.row["classes"]:
            ends = each["distance"] if by_distance else (each["from"], each["to"])
            if each["success"]["value"] is not None:
                found.append((sum(ends) / 2, read_share(each["success"])))
        return found

    def lines(self, by_distance: bool) -> list[Line]:
        """One for each item that is told."""
        return [self._line(item, by_distance) for item in self.told]

    def _line(self, item: Mapping[str, Any], by_distance: bool) -> Line:
        shares = item["success"]
        ends = [i / len(shares) for i in range(len(shares) + 1)]
        ends = item["distances"] if by_distance else ends
        middles = [(low + high) / 2 for low, high in pairwise(ends)]
        return tuple((x, y) for x, y in zip(middles, shares, strict=True) if y is not None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SweepPanel:
    """One victim on one data set."""

    label: str
    """Victim and data set, and what else tells panels apart."""
    sweeps: tuple[Sweep, ...]
    """Its groups."""
    by_distance: bool
    """Whether distances are known; the order of names where not."""


def panels_of(
    arms: Sequence[Arm], sweeps: Sequence[Mapping[str, Any]], coverage: Sequence[Mapping[str, Any]]
) -> list[SweepPanel]:
    """Panels of the attacks that asked every name.

    Args:
        arms: of the run.
        sweeps: rows of `analysis.sweeps`.
        coverage: rows of `analysis.coverage`.
    """
    by_key = {
        (arm.place.dataset, arm.group, arm.place.victim.label, arm.attack): arm for arm in arms
    }
    tried = {_key(row): row for row in coverage}
    found = [
        Sweep(arm=by_key[_key(row)], row=row, coverage=coverage_sentence(tried.get(_key(row))))
        for row in sweeps
        if _key(row) in by_key
    ]
    several = {
        name: len({get(sweep) for sweep in found}) > 1
        for name, get in (("attack", _attack), ("embedding", _embedding), ("rule", _rule))
    }
    panels: dict[str, list[Sweep]] = defaultdict(list)
    for sweep in found:
        place = sweep.arm.place
        extra = [
            _embedding(sweep) if several["embedding"] else "",
            _attack(sweep) if several["attack"] else "",
            _rule(sweep) if several["rule"] and not several["attack"] else "",
        ]
        panels[" · ".join(filter(None, (place.victim.label, place.dataset, *extra)))].append(sweep)
    return [
        SweepPanel(label=label, sweeps=tuple(each), by_distance=all(s.has_distances for s in each))
        for label, each in panels.items()
    ]


def sentences(panels: Sequence[SweepPanel]) -> list[str]:
    """What the figure's caption says of what was asked."""
    found = [
        "Every allowed name was asked, the nearest first; the names of an item fall into "
        "20 classes of equally many, each drawn at its middle."
    ]
    sweeps = [(panel, sweep) for panel in panels for sweep in panel.sweeps]
    if any(sweep.row["n_items"] > 1 for _, sweep in sweeps):
        found.append(
            "Thin lines are single items, the thick line is the share over all, with its interval."
        )
    if any(sweep.row["n_items"] > len(sweep.told) for _, sweep in sweeps):
        found.append("The first 100 items by identifier have a thin line; all count in the share.")
    if any(sweep.row["n_items"] == 1 for _, sweep in sweeps):
        found.append(
            "One item: all its names were asked, so nothing is estimated and no interval is drawn."
        )
    if not all(panel.by_distance for panel in panels):
        found.append("Where the run keeps no distances, names stand in their order.")
    for panel, sweep in sweeps:
        row = sweep.row
        asked = f"{row['n_wrong']:,} of {row['n_asked']:,} questions answered wrong"
        where = f"{panel.label} · {sweep.arm.place.entity}"
        parts = (f"{plural(row['n_items'], 'item')}, {asked}", sweep.coverage)
        found.append(f"{where}: {'; '.join(filter(None, parts))}.")
    return found


def csv_rows(panels: Iterable[SweepPanel]) -> list[dict[str, Any]]:
    """The numbers of the figure: every class over all items (item empty), then item by item."""
    rows = []
    for sweep in (sweep for panel in panels for sweep in panel.sweeps):
        place = sweep.arm.place
        labels = {
            "victim": place.victim.label, "dataset": place.dataset, "group": place.entity,
            "embedding": place.embedding, "rule": place.rule, "attack": sweep.arm.attack,
        }  # fmt: skip
        classes = sweep.row["classes"]
        for i, each in enumerate(classes):
            told = csv_row(read_share(each["success"]), **labels, item="")
            rows.append(told | _class(i, each, each["distance"]))
        for item in sweep.told:
            for i, (each, share) in enumerate(zip(classes, item["success"], strict=True)):
                ends = item["distances"] and item["distances"][i : i + 2]
                told = {**csv_row(None, **labels), "item": item["item_id"], "value": share}
                rows.append(told | _class(i, each, ends))
    return [{name: row.get(name) for name in CSV_FIELDS} for row in rows]


def _class(i: int, each: Mapping[str, Any], ends: Sequence[float] | None) -> dict[str, Any]:
    low, high = ends or (None, None)
    where = {"class": i + 1, "from": each["from"], "to": each["to"]}
    return {**where, "distance_from": low, "distance_to": high}


def _key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return (row["dataset"], row["group"], row["victim"], row["attack"])


def _attack(sweep: Sweep) -> str:
    return sweep.arm.attack


def _embedding(sweep: Sweep) -> str:
    return sweep.arm.place.embedding


def _rule(sweep: Sweep) -> str:
    return sweep.arm.place.rule
