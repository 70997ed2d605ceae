"""Open what is compared: run folders, or a victim of a run with several."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from medstress.comparison.compare import Comparison, Settings, compare_sides
from medstress.comparison.like_these import NameReader
from medstress.comparison.sides import Side, match_arms
from medstress.core.errors import UsageError, did_you_mean
from medstress.results.load import StoredRun, open_run
from medstress.results.root import describe_root
from medstress.results.rows import trial_rows

OF_RUN = "#"
"""Stands between a run folder and the victim of it that is compared."""


def compare_folders(first: Path, second: Path, settings: Settings) -> Comparison:
    """Compare two run folders, or `DIR#victim` for a victim of a run with several.

    Raises:
        UsageError: both are the same, there is no such victim, or see `compare_sides`.
        StoreError: a folder holds no run, or it cannot be read.
    """
    places = [_place(first), _place(second)]
    if places[0][0].resolve() == places[1][0].resolve() and places[0][1] == places[1][1]:
        raise UsageError(
            f"{first} is given twice: a run cannot be compared with itself. Give two run folders, "
            f"or two victims of one run as DIR{OF_RUN}victim"
        )
    with open_run(places[0][0]) as one, open_run(places[1][0]) as other:
        sides = _side("A", one, places[0][1]), _side("B", other, places[1][1])
        arms = match_arms(*(side.arms() for side in sides))
        if not arms:
            raise UsageError(
                f"nothing can be compared: {first} and {second} have no data set, group, victim "
                "and attack in common under which both have finished trials"
            )
        return compare_sides(*sides, arms, settings, NameReader((one, other)))


def _place(given: Path) -> tuple[Path, str | None]:
    """Return a run folder and the victim that is meant, if one is named."""
    folder, mark, victim = str(given).rpartition(OF_RUN)
    if not mark or given.exists():
        return given, None
    return Path(folder), victim


def _side(name: str, run: StoredRun, victim: str | None) -> Side:
    """Return an open run as `A` or `B`."""
    side = Side(
        name=name,
        source=str(run.folder),
        manifest=run.manifest,
        rows=trial_rows(run),
        about_root=describe_root(run),
    )
    if victim is None:
        return side
    rows = [row for row in side.rows if row.victim == victim]
    if not rows:
        known = list(dict.fromkeys(row.victim for row in side.rows))
        raise UsageError(
            f"{run.folder}{OF_RUN}{victim}: no trial of a victim {victim!r} has finished there"
            f"{did_you_mean(victim, known)} (victims: {', '.join(known)})"
        )
    return replace(side, rows=rows)
