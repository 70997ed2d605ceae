"""The order of the plan over the trials of several shards.

A trial's place in the plan follows from the manifest's order of victims, data sets, groups, attacks
and seeds, and from the positions of items that each shard keeps. Trials of an extended shard are
stored in another order, and so come to their places again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.store.odd_rows import interpreting
from medstress.store.run_store import FILE
from medstress.store.shards import KEY, PLACES, StoredShard

Numbers: TypeAlias = NDArray[np.int64]
Arm: TypeAlias = tuple[str, str, str, str, str, int | None]
"""(data set, group, victim, attack, spec, seed)"""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Trials that follow each other in a shard and in the plan."""

    source: int
    """Index of the shard."""
    first: int
    """Their first row in the shard."""
    last: int
    """Their last row there."""
    shift: int
    """What is added to a row in the shard to get the row in the merged run."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Order:
    """Where everything of the shards stands in the merged run."""

    trials: Sequence[Numbers]
    """Of every shard: row of a trial -> its row in the merged run; index 0 is 0."""
    stretches: Sequence[Stretch]
    """All trials, in the order of the plan."""
    items: Sequence[tuple[int, int]]
    """(index of the shard, row there) of every item, in the order of its first trial."""
    arms: Sequence[Arm]
    """All arms, in the order of their first trial."""
    arm_rows: Sequence[Mapping[int, int]]
    """Of every shard: row of an arm -> its row in the merged run."""
    item_rows: Sequence[Mapping[int, int]]
    """Of every shard: row of an item -> its row in the merged run."""


def plan_order(shards: Sequence[StoredShard]) -> Order:
    """Put the trials of all shards in the order of the plan."""
    ranks = _Ranks(shards[0].manifest)
    arms = [
        {
            row: (dataset, group, victim, attack, spec, seed)
            for row, dataset, group, victim, attack, spec, seed in each.rows(
                "SELECT id, dataset, grp, victim, attack, spec, seed FROM main.arms"
            )
        }
        for each in shards
    ]
    tables = [_trials(each) for each in shards]
    lengths = [len(table) for table in tables]
    of_source = np.repeat(np.arange(len(shards)), lengths)
    rows = np.concatenate([np.arange(1, n + 1) for n in lengths])
    whole = np.concatenate(tables)
    keys = np.concatenate(
        [
            ranks.keys(each, own, table)
            for each, own, table in zip(shards, arms, tables, strict=True)
        ]
    )
    order = np.lexsort((rows, *keys.T[::-1]))
    of_source, rows, whole = of_source[order], rows[order], whole[order]
    numbers = np.arange(1, len(rows) + 1)
    trials = []
    for source, n in enumerate(lengths):
        own = np.zeros(n + 1, np.int64)
        is_own = of_source == source
        own[rows[is_own]] = numbers[is_own]
        trials.append(own)
    items = _first_seen(of_source, whole[:, 1])
    all_arms: dict[Arm, int] = {}
    arm_rows: list[dict[int, int]] = [{} for _ in shards]
    for source, row in _first_seen(of_source, whole[:, 0]):
        arm = arms[source][row]
        arm_rows[source][row] = all_arms.setdefault(arm, len(all_arms) + 1)
    item_rows: list[dict[int, int]] = [{} for _ in shards]
    for number, (source, row) in enumerate(items, 1):
        item_rows[source][row] = number
    return Order(
        trials=trials,
        stretches=list(_stretches(of_source, rows)),
        items=items,
        arms=list(all_arms),
        arm_rows=arm_rows,
        item_rows=item_rows,
    )


class _Ranks:
    """The places of labels in a plan."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._victims = _places(manifest["victims"])
        self._datasets = _places(manifest["datasets"])
        self._groups = _places(manifest["groups"])
        self._attacks = _places(manifest["attacks"])
        self._seeds = _places(manifest["seeds"])

    def keys(self, shard: StoredShard, arms: Mapping[int, Arm], trials: Numbers) -> Numbers:
        """Return what the trials of a shard are ordered by, shape (n_trials, 7)."""
        arm_keys = np.zeros((max(arms, default=0) + 1, 5), np.int64)
        places: Mapping[str, Any] = shard.manifest[KEY].get(PLACES, {})
        shared: dict[int, Mapping[str, int]] = {}
        for row, (dataset, group, victim, attack, _, seed) in arms.items():
            if victim in places:
                shared[row] = places[victim][dataset]
            arm_keys[row] = (
                self._victims(victim),
                self._datasets(dataset),
                self._groups(group),
                self._attacks(attack),
                0 if seed is None else self._seeds(seed),
            )
        positions = shard.manifest[KEY]["positions"]
        found = list(shard.rows("SELECT id, dataset, item_id FROM main.items"))
        item_keys = np.zeros(len(found) + 1, np.int64)
        with interpreting(shard.folder / FILE):
            for row, dataset, item in found:
                item_keys[row] = positions[dataset][item]
        by_arm = arm_keys[trials[:, 0]]
        if shared:
            names = {row: item for row, _, item in found}
            with interpreting(shard.folder / FILE):
                for at, (arm, item) in enumerate(trials[:, :2].tolist()):
                    if arm in shared:
                        by_arm[at, 0] = shared[arm][names[item]]
        by_item = item_keys[trials[:, 1]]
        return np.column_stack((by_arm[:, :2], by_item, by_arm[:, 2:], trials[:, 2]))


def _places(labels: Sequence[Any] | Mapping[Any, Any]) -> Any:
    """Return a function from a label to its place; unknown labels come last."""
    known = {label: place for place, label in enumerate(labels)}
    return lambda label: known.get(label, len(known))


def _trials(shard: StoredShard) -> Numbers:
    """Return (arm, item, repeat) of a shard's trials, which are numbered without gaps."""
    (n,) = next(shard.rows("SELECT COUNT(*) FROM main.trials"))
    query = "SELECT arm, item, repeat FROM main.trials ORDER BY id"
    values = (value for row in shard.rows(query) for value in row)
    return np.fromiter(values, np.int64, 3 * n).reshape(n, 3)


def _first_seen(of_source: Numbers, rows: Numbers) -> list[tuple[int, int]]:
    """Return each (source, row) once, in the order in which it comes first."""
    width = int(rows.max(initial=0)) + 1
    codes, first = np.unique(of_source * width + rows, return_index=True)
    return [(int(code) // width, int(code) % width) for code in codes[np.argsort(first)]]


def _stretches(of_source: Numbers, rows: Numbers) -> Iterator[Stretch]:
    if not len(rows):
        return
    goes_on = (np.diff(of_source) == 0) & (np.diff(rows) == 1)
    starts = np.concatenate(([0], np.flatnonzero(~goes_on) + 1))
    ends = np.concatenate((starts[1:], [len(rows)])) - 1
    for start, end in zip(starts.tolist(), ends.tolist(), strict=True):
        first = int(rows[start])
        yield Stretch(int(of_source[start]), first, int(rows[end]), start + 1 - first)
