"""The summary of a tuned run: the grid of n, the choice, and what sharing answers saved."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.counts import (
    is_answered,
    is_eligible,
    is_flipped,
    is_unrefuted_success,
    pick_success,
)
from medstress.store.reader import RunReader
from medstress.summary.tuned_choice import (
    METRICS,
    REGIMES,
    Grid,
    choose,
    is_pdws,
    metric_of,
    template_of,
    tuning_grids,
)

REPORT, TUNING, SAME_ITEMS = "report", "tuning", "same_items"
"""The kinds of folders that `medstress tune` makes."""

FEW = 10
"""With fewer eligible items, the choice of n comes with a warning."""

QUERIES = ("asked", "failed", "computed_alone", "computed", "saved")

Shared = dict[tuple[str, str, str, str], dict[str, int]]
"""(data set, group, victim, template) -> queries."""


def describe_tuning(reader: RunReader, trials: Sequence[TrialRow]) -> dict[str, Any] | None:
    """Return the summary's `tuning` (docs: tuning); None if the run tuned nothing.

    Args:
        reader: the run.
        trials: its trials.
    """
    notes: dict[str, Any] | None = reader.manifest.get("tuning")
    if notes is None:
        return None
    settings = {**notes["settings"], "metric": metric_of(notes["settings"]["metric"])}
    notes = {**notes, "settings": settings}
    if notes["part"] == REPORT:
        choices = [
            row for choice in notes["choices"] for row in _held_out(choice, settings, trials)
        ]
        asked, paid = (sum(g[name] for g in notes["grids"]) for name in ("n_asked", "n_paid"))
        queries = {"asked": asked, "failed": 0, "computed_alone": asked, "computed": paid}
        return {**notes, "choices": choices, "queries": {**queries, "saved": asked - paid}}
    grids = tuning_grids(trials, settings["metric"])
    shared = queries_shared(reader, trials)
    found = {
        **notes,
        "grids": [_grid(grid, shared) for grid in grids],
        # In an unfinished run, trials that end early are over-represented.
        "choices": list(_choices(grids)) if reader.manifest["complete"] else [],
    }
    total = {name: sum(row["queries"][name] for row in found["grids"]) for name in QUERIES}
    return {**found, "queries": total}


def cautions(tuning: Mapping[str, Any] | None) -> list[str]:
    """List warnings that a reader of the run's rates needs."""
    if tuning is None:
        return []
    if tuning["part"] == REPORT:
        return [*_left_out(tuning["grids"]), *_chosen_on_few(tuning["choices"])]
    n = len([n for n in tuning["settings"]["grid"] if n])
    if tuning["part"] == SAME_ITEMS:
        return [
            f"n is the best of {n} values on the same items whose rates are reported, so the rate "
            "at the chosen n is optimistic. Set share = 0.2 in [tune] to report on other items."
        ]
    return [
        f"These items are the tuning split: their rates choose one of {n} values of n, so they "
        "are optimistic. The result is in the parent folder."
    ]


def place_of(grid: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return data set, group and victim of a grid in a summary."""
    return grid["dataset"], grid["group"], grid["victim"]


def places_without_n(grids: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str, str], int]:
    """Return the places where a victim was asked and had no item right -> items asked."""
    asked = [grid for grid in grids if grid["n_items"]]
    eligible = {place_of(grid) for grid in asked if grid["n_eligible"]}
    return {place_of(grid): grid["n_items"] for grid in asked if place_of(grid) not in eligible}


def victims_without_n(grids: Sequence[Mapping[str, Any]]) -> frozenset[str]:
    """Return the victims that were asked and had no item right in any place."""
    without = places_without_n(grids)
    others = {grid["victim"] for grid in grids if grid["n_items"] and place_of(grid) not in without}
    return frozenset(victim for *_, victim in without) - others


def _left_out(grids: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    for (dataset, group, victim), n in places_without_n(grids).items():
        yield (
            f"{victim} on {dataset}/{group} answered none of the {n} tuning items correctly, so "
            "no n can be chosen and it is left out here. Add items, raise share in [tune], or "
            "remove the victim from the file."
        )


def _chosen_on_few(choices: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    few = {
        (each["dataset"], each["group"], each["victim"]): each["tuned_on"]["n_eligible"]
        for each in choices
        if each["tuned_on"]["n_eligible"] < FEW
    }
    for (dataset, group, victim), n in few.items():
        yield (
            f"{victim} on {dataset}/{group}: n was chosen on {n} eligible item{'s' * (n != 1)}, "
            "too few to tell the values of n apart; add items or raise share in [tune]."
        )


def queries_shared(reader: RunReader, trials: Iterable[TrialRow]) -> Shared:
    """Count the queries that sharing answers between the values of n saved.

    `computed` counts the grid's computed queries. `computed_alone` counts them as if each value
    of n had its own run, where seeds still share answers. `saved` is the difference. Queries
    shared with other attacks or groups do not count as saved.
    """
    templates: dict[str, str] = {}
    shared: Shared = defaultdict(lambda: dict.fromkeys(QUERIES, 0))
    for row in trials:
        spec = json.loads(row.attack_spec)
        if is_pdws(spec):
            templates[row.attack] = template_of(spec)
            counts = shared[row.dataset, row.group, row.victim, templates[row.attack]]
            counts["asked"] += row.n_asked
            counts["failed"] += row.n_failed
    in_grid: set[tuple[Any, ...]] = set()
    alone: set[tuple[Any, ...]] = set()
    calls = groupby(reader.attack_calls(), key=lambda call: call[:6])
    for (_, dataset, group, victim, attack, _), members in calls:
        if attack not in templates:
            continue
        place = (dataset, group, victim, templates[attack])
        keys = [call[6] for call in members]
        counts = shared[place]
        counts["computed"] += _is_new(in_grid, place, keys)
        counts["computed_alone"] += _is_new(alone, (*place, attack), keys)
    for counts in shared.values():
        counts["saved"] = counts["computed_alone"] - counts["computed"]
    return shared


def _is_new(seen: set[tuple[Any, ...]], arm: tuple[str, ...], keys: Sequence[bytes]) -> bool:
    """True if a query needs a call that no query before it needed (the ledger's `paid`)."""
    new = [(arm, key) for key in keys if (arm, key) not in seen]
    seen.update(new)
    return bool(new)


def _grid(grid: Grid, shared: Shared) -> dict[str, Any]:
    return {
        **_place(grid),
        "n_items": grid.n_items,
        "n_eligible": grid.n_eligible,
        "points": [
            {"n": point.n, "attack": point.attack, "estimate": point.estimate.as_json()}
            for point in grid.points
        ],
        "queries": shared[*grid.place, grid.template],
    }


def _choices(grids: Iterable[Grid]) -> Iterable[dict[str, Any]]:
    for grid in grids:
        chosen = choose(grid.points)
        for regime in REGIMES:
            if regime in chosen:
                point = chosen[regime]
                yield {
                    **_place(grid),
                    "regime": regime,
                    "n": point.n,
                    "tuned_on": {
                        "n_items": grid.n_items,
                        "n_eligible": grid.n_eligible,
                        "estimate": point.estimate.as_json(),
                    },
                    "reported_on": None,
                }


def _place(grid: Grid) -> dict[str, Any]:
    return {
        "dataset": grid.dataset,
        "group": grid.group,
        "victim": grid.victim,
        "attack": grid.name,
        "template": json.loads(grid.template),
    }


def _held_out(
    choice: Mapping[str, Any], settings: Mapping[str, Any], trials: Iterable[TrialRow]
) -> Iterable[dict[str, Any]]:
    """Yield the choice with its rate on the report's items, for every attack with this n."""
    arms: dict[str, list[TrialRow]] = defaultdict(list)
    place = tuple(choice[name] for name in ("dataset", "group", "victim"))
    template = template_of(choice["template"])
    for trial in trials:
        if (trial.dataset, trial.group, trial.victim) == place:
            spec = json.loads(trial.attack_spec)
            matches = is_pdws(spec) and spec["n"] == choice["n"]
            if matches and template_of(spec, settings["budget"]) == template:
                arms[trial.attack].append(trial)
    metric = METRICS[settings["metric"]]
    for label, rows in sorted(arms.items()):
        within = [_within(row, int(choice["template"]["budget"])) for row in rows]
        yield {
            **choice,
            "attack": label,
            "reported_on": {
                "n_items": len({row.item_id for row in rows if is_answered(row)}),
                "n_eligible": len({row.item_id for row in rows if is_eligible(row)}),
                "estimate": metric(within).as_json(),
            },
        }
    if not arms:
        yield dict(choice)


def _within(row: TrialRow, budget: int) -> TrialRow:
    """Return the trial as it would have ended with the budget that n was chosen with."""
    first, pick = row.first_success, pick_success(row)
    if pick is not None and pick > budget:
        if is_unrefuted_success(row):
            # With this budget the search would have ended with the refuted success before it.
            row = replace(row, valid=False)
        row = replace(row, first_unrefuted_success=None, first_valid_success=None)
    if is_flipped(row) and first is not None and first > budget:
        row = replace(row, verdict=Verdict.HELD, first_success=None, valid=None)
    return row
