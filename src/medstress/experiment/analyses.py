"""The analyses of a run: what was stored, handed to the metrics."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.experiment.arm_rules import goal_told, names_told
from medstress.experiment.asked import asked_trials, first_queries, tried
from medstress.experiment.sweeps import sweeps
from medstress.metrics.arms import Arms, arrange, spec_of
from medstress.metrics.coverage import coverage_rows, sweep_rows
from medstress.metrics.edits import distance_rows, word_rows
from medstress.metrics.exponents import exponent_rows
from medstress.metrics.reuse import AskedNames, overlap_rows, reusable_rows, universality_rows
from medstress.metrics.scaling import curve_rows, pair_rows
from medstress.metrics.size import r_cap_rows, size_rows
from medstress.metrics.transfer import Carried, transfer_rows
from medstress.outcomes import Outcome
from medstress.results.load import StoredRun
from medstress.rows import TrialRow
from medstress.store.reader import RunReader, StoredInquiry

_RULES = ("goal", "unreadable_is_success", "exclusions", "similarity_threshold")


def analyse(
    run: StoredRun,
    trials: Sequence[TrialRow],
    pooled: Sequence[Mapping[str, Any]],
    budgets: Mapping[str, int],
) -> dict[str, Any]:
    """Compute the key `analysis` of a summary (docs: analyses).

    Args:
        run: the run.
        trials: its trials.
        pooled: the pooled rows of its summary, whose estimates are repeated.
        budgets: by attack label.
    """
    manifest = run.manifest
    settings = manifest["config"].get("analysis", {})
    groups = {
        label: part["n_names"] for label, part in manifest["groups"].items() if "n_names" in part
    }
    arms = arrange(trials)
    asked = asked_trials(run, trials)
    found = {(row["dataset"], row["group"], row["victim"], row["attack"]): row for row in pooled}
    first = list(first_queries(asked))
    curves = _limited(arms)
    return {
        "curves": curve_rows(curves, budgets),
        "pairs": pair_rows(curves, budgets),
        "exponents": exponent_rows(arms, lambda place, attack: found.get((*place, attack))),
        "words": word_rows(first),
        "edit_distance": distance_rows(first),
        "size": size_rows(pooled, manifest["victims"]),
        "r_cap": r_cap_rows(trials),
        "reusable": reusable_rows(arms),
        "overlap": overlap_rows(arms),
        "universality": _universality(run, arms, settings),
        "transfer": transfer_rows(trials, _carried(run, trials))
        if settings.get("transfer")
        else [],
        "coverage": coverage_rows(tried(asked, groups), groups),
        "sweeps": sweep_rows(sweeps(run, trials)),
    }


def _limited(arms: Arms) -> Arms:
    """Without the attacks that ask every name: those have no budget to recommend."""
    return {
        place: {a: rows for a, rows in found.items() if spec_of(rows).get("budget") is not None}
        for place, found in arms.items()
    }


def remarks(reader: RunReader) -> list[str]:
    """What a reader must know of what `[analysis]` asked."""
    manifest, found = reader.manifest, []
    settings = manifest["config"].get("analysis", {})
    if settings.get("transfer") and len(manifest["victims"]) == 1:
        found.append(
            "[analysis] transfer with one victim is only the diagonal, the flip check: "
            "there is nobody to transfer to."
        )
    failed = [one.purpose for one in reader.inquiries() if one.note is not None]
    # What a significance test lacks is said beside the tests.
    if n_unjudged := failed.count("judge") + failed.count("slope"):
        found.append(
            f"the reasonings of {n_unjudged} trials were not asked about to the end: run again "
            "with --retry-failed."
        )
    if unanswered := failed.count("transfer") + failed.count("universality"):
        found.append(
            f"{unanswered} questions of the analyses were not answered and are left out: "
            "run again with --retry-failed."
        )
    return found


def _universality(
    reader: RunReader, arms: Any, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    sizes = settings.get("universality") or ()
    if not sizes:
        return []
    asked = [
        AskedNames(
            place=(one.dataset, one.group, one.victim),
            attack=one.attack,
            item_id=one.item_id,
            top=tuple(one.spec["top"]),
            asked=tuple(one.spec["asked"]),
            n_answered=len(one.outcomes),
            reached=_reached(one),
        )
        for one in reader.inquiries()
        if one.purpose == "universality"
        and (trials := arms.get((one.dataset, one.group, one.victim), {}).get(one.attack))
        and _follows(one, {**goal_told(spec := spec_of(trials)), **names_told(spec)})
    ]
    return universality_rows(arms, asked, sizes)


def _carried(reader: RunReader, trials: Sequence[TrialRow]) -> list[Carried]:
    goals = {row.trial_id: goal_told(json.loads(row.attack_spec)) for row in trials}
    return [
        Carried(
            trial_id=one.spec["trial"],
            edits=one.spec["edits"],
            victim=one.victim,
            outcome=one.outcomes[0] if one.outcomes else None,
            reached=_reached(one),
        )
        for one in reader.inquiries()
        if one.purpose == "transfer" and _follows(one, goals.get(one.spec["trial"], {}))
    ]


def _follows(one: StoredInquiry, rules: Mapping[str, Any]) -> bool:
    """Whether it was asked by the rules of its arm; earlier versions asked all by the default."""
    return all(one.spec.get(name) == rules.get(name) for name in _RULES)


def _reached(one: StoredInquiry) -> bool:
    """Whether its last answer is a success; earlier versions, with the plain goal, do not say."""
    return one.outcomes[-1:] == [Outcome.WRONG] if one.reached is None else one.reached
