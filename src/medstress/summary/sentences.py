"""Add scores of whole data sets, before and after the attack, to a summary."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medstress.attacks.noise.non_entity_noise import is_control_of
from medstress.core.clusters import clusters_by_dataset
from medstress.core.outcomes import Verdict
from medstress.core.text import edits_of
from medstress.metrics.old_stats.estimates import unknown
from medstress.metrics.old_stats.multiplicity import benjamini_hochberg
from medstress.results.load import StoredRun, kind_of_run
from medstress.summary.dataset_scores import DatasetScores, Json, Place, ScoredArm
from medstress.summary.scores_of import scores_of

_RATES = ("accuracy", "accuracy_after", "asr", "asr_asked")


def add_scores(run: StoredRun, summary: Json) -> None:
    """Add scores of the whole data set to every row, and tests of before against after.

    The kind of the items defines the scores (`DatasetScores`); questions have none.
    """
    arms, scores = arms_of(run), scores_of(kind_of_run(run))
    if not arms or scores is None:
        return
    for row in [*summary["results"], *summary["pooled"]]:
        place = (row["dataset"], row["group"], row["victim"], row["attack"])
        seeds = row.get("seeds", [row["seed"]])
        control = control_of(arms, place)
        # An attack without random numbers is compared with the control of every seed.
        if control is not None and list(seeds) != [None]:
            control = control.of(seeds)
        row.update(scores.row(arms[place].of(seeds), control))
        if row["n_measured"]:
            row.update(_no_rates(row))
    summary["tests"] = [*summary["tests"], *_tests(arms, scores)]
    summary["warnings"] = [*summary["warnings"], *scores.warnings(arms)]


def _no_rates(row: Json) -> Json:
    """Return the rates of a row of which nothing is right or wrong: unknown, for a score moves.

    Without `max_change` no change of the score of a pair is a success.
    """
    unjudged = unknown("without max_change no score is right or wrong").as_json()
    points = [{**point, **unjudged} for point in row["asr_at"]]
    return {
        **dict.fromkeys(_RATES, unjudged),
        **{f"{name}_bounds": [None, None] for name in _RATES if f"{name}_bounds" in row},
        "asr_at": points,
    }


def arms_of(run: StoredRun) -> dict[Place, ScoredArm]:
    """Return the answers by place; empty if the items have no scores of data sets."""
    return run.once(_arms_of)


def _arms_of(run: StoredRun) -> dict[Place, ScoredArm]:
    stored, scores = run.items(), scores_of(kind_of_run(run))
    if scores is None:
        return {}
    items = {row: item for row, (_, item) in stored.items()}
    clusters = clusters_by_dataset(stored.values())
    arms: dict[Place, ScoredArm] = {}
    for trial in run.trials():
        item = items[trial.item]
        place = (trial.dataset, trial.group, trial.victim, trial.attack)
        arm = arms.setdefault(place, ScoredArm(json.loads(trial.spec)))
        key, cluster = (trial.seed, item.id), clusters[trial.dataset][item.id]
        # The entities of a sentence share the queries about it.
        if key not in arm.before and trial.result.get("before"):
            arm.before[key] = scores.answer(item, trial.result["before"], (), cluster)
        elif key not in arm.before:
            arm.unasked.add(key)
        if key not in arm.after and key in arm.before and scores.is_whole(arm.spec):
            # An item in which nothing can be perturbed keeps its clean answer.
            after = trial.result.get("after") or (
                trial.result["before"] if trial.verdict == Verdict.MEASURED.value else None
            )
            if after:
                edits = edits_of(trial.result.get("edits", []))
                arm.after[key] = scores.answer(item, after, edits, cluster)
    _complete(arms)
    return arms


def _complete(arms: Mapping[Place, ScoredArm]) -> None:
    """Fill in the clean answers of searches from other arms.

    Searches do not ask about sentences without entities.
    """
    clean: dict[tuple[str, str, str], dict[str, Any]] = {}
    for place, arm in arms.items():
        answers = clean.setdefault(place[:3], {})
        answers.update({item: answer for (_, item), answer in arm.before.items()})
    for place, arm in arms.items():
        if arm.spec.get("search", "none") != "none":
            for key in arm.unasked:
                if key[1] in clean[place[:3]]:
                    arm.before.setdefault(key, clean[place[:3]][key[1]])
        arm.unasked -= set(arm.before)


def control_of(arms: Mapping[Place, ScoredArm], place: Place) -> ScoredArm | None:
    """Return the control arm of a static attack in the same place, or None."""
    for other, arm in sorted(arms.items(), key=lambda pair: pair[0]):
        if other[:3] == place[:3] and is_control_of(arm.spec, arms[place].spec):
            return arm
    return None


def _tests(arms: Mapping[Place, ScoredArm], scores: DatasetScores) -> list[Json]:
    rows: list[Json] = []
    for (dataset, group, victim, attack), arm in sorted(arms.items(), key=lambda pair: pair[0]):
        if not arm.after:
            continue
        for family, statistic, p, method in scores.tests(arm):
            rows.append(
                {
                    "family": family,
                    "dataset": dataset,
                    "group": group,
                    "victim": victim,
                    "comparison": attack,
                    "against": "clean",
                    "statistic": statistic,
                    "p": p,
                    "p_adjusted": None,
                    "method": method,
                }
            )
    for family in {row["family"] for row in rows}:
        tested = [row for row in rows if row["family"] == family and row["p"] is not None]
        for row, p in zip(tested, benjamini_hochberg([row["p"] for row in tested]), strict=True):
            row["p_adjusted"] = p
    return rows
