"""Success by distance, for attacks that try every name: lines and caption of the figure."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from medstress.figures.canvas import Point
from medstress.metrics.old_stats.estimates import read_share
from medstress.papers.arms import Arm
from medstress.papers.outputs import csv_row
from medstress.report.coverage import coverage_sentence
from medstress.results.formats import plural

BY_DISTANCE, BY_ORDER = "distance to the key", "names, nearest to the key first (share)"
CSV_FIELDS = (
    "victim", "dataset", "group", "embedding", "rule", "attack", "item", "class", "from", "to",
    "distance_from", "distance_to", "value", "low", "high", "n", "interval",
)  # fmt: skip

Line = tuple[tuple[float, float], ...]
"""Points (middle of a class, share) of one item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sweep:
    """One attack on one group."""

    arm: Arm
    """The attack and its place."""
    row: Mapping[str, Any]
    """Its row of `analysis.sweeps`."""
    coverage: str | None
    """Sentence on how much of the vocabulary was tried; None if the summary does not say."""

    @property
    def has_distances(self) -> bool:
        """True if the run kept the distances of every class and every listed item."""
        per_class = (each["distance"] for each in self.row["classes"])
        per_item = (item["distances"] for item in self.listed)
        return all(distances is not None for distances in (*per_class, *per_item))

    @property
    def listed(self) -> Sequence[Mapping[str, Any]]:
        """Items that the summary lists one by one."""
        items: Sequence[Mapping[str, Any]] = self.row["items"]
        return items

    def mean(self, by_distance: bool) -> list[Point]:
        """Return the share over all items, with interval; empty classes are left out."""
        points = []
        for each in self.row["classes"]:
            ends = each["distance"] if by_distance else (each["from"], each["to"])
            if each["success"]["value"] is not None:
                points.append((sum(ends) / 2, read_share(each["success"])))
        return points

    def lines(self, by_distance: bool) -> list[Line]:
        """Return one line per listed item."""
        return [self._line(item, by_distance) for item in self.listed]

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
    """Victim and data set, and whatever else differs between panels."""
    sweeps: tuple[Sweep, ...]
    """One sweep per entity group."""
    by_distance: bool
    """True if the axis shows distances; else it shows the order of names."""


def panels_of(
    arms: Sequence[Arm], sweeps: Sequence[Mapping[str, Any]], coverage: Sequence[Mapping[str, Any]]
) -> list[SweepPanel]:
    """Return the panels of the attacks that tried every name.

    Args:
        arms: arms of the run.
        sweeps: rows of `analysis.sweeps`.
        coverage: rows of `analysis.coverage`.
    """
    by_key = {
        (arm.place.dataset, arm.group, arm.place.victim.label, arm.attack): arm for arm in arms
    }
    tried = {_key(row): row for row in coverage}
    drawn = [
        Sweep(arm=by_key[_key(row)], row=row, coverage=coverage_sentence(tried.get(_key(row))))
        for row in sweeps
        if _key(row) in by_key
    ]
    several = {
        name: len({get(sweep) for sweep in drawn}) > 1
        for name, get in (("attack", _attack), ("embedding", _embedding), ("rule", _rule))
    }
    panels: dict[str, list[Sweep]] = defaultdict(list)
    for sweep in drawn:
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
    """Return the caption's sentences about what was asked."""
    caption = [
        "Every allowed name was asked, the nearest first; the names of an item form 20 classes of "
        "equal size, each drawn at its middle."
    ]
    sweeps = [(panel, sweep) for panel in panels for sweep in panel.sweeps]
    if any(sweep.row["n_items"] > 1 for _, sweep in sweeps):
        caption.append(
            "Thin lines are single items, the thick line is the share over all, with its interval."
        )
    if any(sweep.row["n_items"] > len(sweep.listed) for _, sweep in sweeps):
        caption.append(
            "The first 100 items by identifier have a thin line; all count in the share."
        )
    if any(sweep.row["n_items"] == 1 for _, sweep in sweeps):
        caption.append(
            "One item: all its names were asked, so nothing is estimated and no interval is drawn."
        )
    if not all(panel.by_distance for panel in panels):
        caption.append("If the run has no distances, the axis shows the order of names.")
    for panel, sweep in sweeps:
        row = sweep.row
        wrong = f"{row['n_wrong']:,} of {row['n_asked']:,} questions answered wrong"
        where = f"{panel.label} · {sweep.arm.place.entity}"
        parts = (f"{plural(row['n_items'], 'item')}, {wrong}", sweep.coverage)
        caption.append(f"{where}: {'; '.join(filter(None, parts))}.")
    return caption


def csv_rows(panels: Iterable[SweepPanel]) -> list[dict[str, Any]]:
    """Return the numbers of the figure: every class over all items (item empty), then by item."""
    rows = []
    for sweep in (sweep for panel in panels for sweep in panel.sweeps):
        place = sweep.arm.place
        labels = {
            "victim": place.victim.label, "dataset": place.dataset, "group": place.entity,
            "embedding": place.embedding, "rule": place.rule, "attack": sweep.arm.attack,
        }  # fmt: skip
        classes = sweep.row["classes"]
        for i, each in enumerate(classes):
            row = csv_row(read_share(each["success"]), **labels, item="")
            rows.append(row | _class(i, each, each["distance"]))
        for item in sweep.listed:
            for i, (each, share) in enumerate(zip(classes, item["success"], strict=True)):
                ends = item["distances"] and item["distances"][i : i + 2]
                row = {**csv_row(None, **labels), "item": item["item_id"], "value": share}
                rows.append(row | _class(i, each, ends))
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
