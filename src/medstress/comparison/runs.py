"""Open what is compared: two run folders, or the arms that `[compare]` names in one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product, starmap
from pathlib import Path
from typing import Any

from medstress.comparison.compare import Comparison, Settings, compare_sides, one_factor
from medstress.comparison.factors import ATTACK, factors_of
from medstress.comparison.like_these import NameReader
from medstress.comparison.sides import Arm, Side, match_arms
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.results.load import StoredRun, open_run
from medstress.results.root import describe_root
from medstress.results.rows import trial_rows
from medstress.results.victims import victim_of

__all__ = ["check_compared", "compare_folders", "compare_within", "compared_arms"]


_PLACE = "[compare]: "


def compare_folders(first: Path, second: Path, settings: Settings) -> Comparison:
    """Compare two run folders.

    Raises:
        UsageError: both are the same folder, or see `compare_sides`.
        StoreError: a folder holds no run, or it cannot be read.
    """
    if first.resolve() == second.resolve():
        raise UsageError(
            f"{first} is given twice: a run cannot be compared with itself. Give two run folders; "
            "or name two arms of one run in its experiment file, under [compare], and give the "
            "folder once"
        )
    with open_run(first) as one, open_run(second) as other:
        return compare_runs(one, other, settings)


def compare_runs(first: StoredRun, second: StoredRun, settings: Settings) -> Comparison:
    """Compare two open runs; see `compare_folders`."""
    sides = side_of("A", first), side_of("B", second)
    arms = match_arms(*(side.arms() for side in sides))
    if not arms:
        raise UsageError(
            f"nothing can be compared: {first.folder} and {second.folder} have no data set, group, "
            "victim and attack in common under which both have finished trials"
        )
    return compare_sides(*sides, arms, settings, NameReader((first, second)))


def compare_within(run: StoredRun, settings: Settings) -> Comparison:
    """Compare the two arms that `[compare]` of a run's experiment file names.

    Raises:
        UsageError: the file has no `[compare]`, or see `compare_sides`.
    """
    table = run.manifest["config"].get("compare")
    if table is None:
        raise UsageError(
            f"{run.folder} is one run, and its experiment file has no [compare] with a and b, the "
            "arms to compare; add it and run the same command again, or give a second folder"
        )
    side = side_of("A", run)
    what = compared_kind(run.manifest, table)
    sides = [
        replace(side, name=name, rows=_of(side, what, label))
        for name, label in (("A", table["a"]), ("B", table["b"]))
    ]
    for each, label in zip(sides, (table["a"], table["b"]), strict=True):
        if not each.arms():
            raise UsageError(
                f"[compare]: no trial of {label!r} has finished in {run.folder}; or it is a "
                "control, which asr_net of the summary sets against its attack"
            )
    arms = match_arms(*(each.arms() for each in sides))
    first, second = sides
    names, factor = NameReader((run, run)), table.get("factor")
    return compare_sides(first, second, arms, settings, names, factor, _PLACE)


def _of(side: Side, what: str, label: str) -> list[Any]:
    if what == ATTACK:
        own = f"{label} / "
        return [r for r in side.rows if r.attack == label or r.attack.startswith(own)]
    return [row for row in side.rows if row.victim == label]


def side_of(name: str, run: StoredRun) -> Side:
    """Return an open run as `A` or `B`."""
    rows = trial_rows(run)
    return Side(
        name=name,
        source=str(run.folder),
        manifest=run.manifest,
        rows=rows,
        about_root=describe_root(run),
    )


def run_digest(run: StoredRun) -> str:
    """Return what tells a run from every other, and stays when its folder is copied or extended.

    Two runs can begin in the same second, but no first answer takes equally long twice.
    """
    first = next(run.exchanges(), None)
    name = run.manifest["config"]["experiment"]["name"]
    answer = [first.trial_id, first.seconds] if first is not None else []
    return content_hash([run.manifest["started"], name, *answer])


def compared_kind(manifest: Mapping[str, Any], table: Mapping[str, Any]) -> str:
    """Return `attack` or `victim`: which labels `a` and `b` of `[compare]` are.

    Raises:
        UsageError: they are neither two attacks nor two victims of the run.
    """
    victims = set(starmap(victim_of, manifest["victims"].items()))
    return compared_arms(table, sorted(victims), [*manifest["attacks"]])


def compared_arms(table: Mapping[str, Any], victims: Sequence[str], attacks: Sequence[str]) -> str:
    """Return `attack` or `victim`: which labels `a` and `b` of `[compare]` are.

    Raises:
        UsageError: they are neither two attacks nor two victims.
    """
    labels = table["a"], table["b"]
    for what, known in (("victim", victims), (ATTACK, attacks)):
        if all(label in known for label in labels):
            return what
    lost = next((x for x in labels if x not in {*victims, *attacks}), None)
    if lost is not None:
        raise UsageError(
            f"[compare]: there is no arm {lost!r}{did_you_mean(lost, [*victims, *attacks])} "
            f"(victims: {', '.join(victims)}; attacks: {', '.join(attacks)})"
        )
    raise UsageError(
        f"[compare]: a = {labels[0]!r} and b = {labels[1]!r} are a victim and an attack; expected "
        "two victims or two attacks"
    )


def check_compared(manifest: Mapping[str, Any]) -> None:
    """Check before anything is asked that the arms of `[compare]` differ in exactly one thing.

    Args:
        manifest: as `medstress.experiment.plan.manifest.describe` returns it.

    Raises:
        UsageError: an arm is unknown, or not exactly one thing differs.
    """
    table = manifest["config"].get("compare")
    if table is None:
        return
    what = compared_kind(manifest, table)
    groups, datasets = [*manifest["groups"]], [*manifest["datasets"]]
    others = ["?"] if what == ATTACK else [*manifest["attacks"]]
    victims = [*manifest["victims"]][:1]
    found = []
    for dataset, group, other in product(datasets, groups, others):
        labels = {"dataset": dataset, "group": group}
        arms = [
            Arm(**labels, victim=victims[0], attack=label)
            if what == ATTACK
            else Arm(**labels, victim=label, attack=other)
            for label in (table["a"], table["b"])
        ]
        found.append(factors_of(manifest, arms[0], manifest, arms[1]))
    if not any(found):
        raise UsageError(
            f"[compare]: nothing differs between a = {table['a']!r} and b = {table['b']!r}"
        )
    one_factor(found, table.get("factor"), _PLACE)
