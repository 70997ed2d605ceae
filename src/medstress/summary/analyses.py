"""The analyses of a run, computed from what its folder stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.arms import Arms, arrange, spec_of
from medstress.metrics.controls import attacks_only
from medstress.metrics.coverage import coverage_rows, sweep_rows
from medstress.metrics.curves.exponents import exponent_rows
from medstress.metrics.curves.scaling import curve_rows, pair_rows
from medstress.metrics.curves.size import r_cap_rows, size_rows
from medstress.metrics.edits import distance_rows, word_rows
from medstress.results.load import StoredRun
from medstress.results.queries import TrialSubstitutions, first_queries, tried_names
from medstress.store.reader import RunReader
from medstress.summary.reusable_names import (
    QueriedNames,
    overlap_rows,
    reusable_rows,
    universality_rows,
)
from medstress.summary.sweeps import sweeps
from medstress.summary.transfers import Carried, transfer_rows


def analyse(
    run: StoredRun,
    trials: Sequence[TrialRow],
    pooled: Sequence[Mapping[str, Any]],
    budgets: Mapping[str, int],
    substituted: Sequence[TrialSubstitutions],
) -> dict[str, Any]:
    """Compute the key `analysis` of a summary (docs: analyses).

    Args:
        run: the run.
        trials: its trials; those of control arms are left out.
        pooled: the pooled rows of its summary; their estimates are reused.
        budgets: query budget by attack label.
        substituted: the substitutions of its trials, those of control arms left out.
    """
    manifest = run.manifest
    settings = manifest["config"].get("analysis", {})
    groups = {
        label: part["n_names"] for label, part in manifest["groups"].items() if "n_names" in part
    }
    trials = attacks_only(trials)
    pooled = [row for row in pooled if "control_of" not in row]
    arms = arrange(trials)
    estimates = {
        (row["dataset"], row["group"], row["victim"], row["attack"]): row for row in pooled
    }
    first = list(first_queries(substituted))
    curves = _limited(arms)
    return {
        "curves": curve_rows(curves, budgets),
        "pairs": pair_rows(curves, budgets),
        "exponents": exponent_rows(arms, lambda place, attack: estimates.get((*place, attack))),
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
        "coverage": coverage_rows(tried_names(substituted, groups), groups),
        "sweeps": sweep_rows(sweeps(run, trials)),
    }


def _limited(arms: Arms) -> Arms:
    """Drop the attacks that ask every name: they have no budget to recommend."""
    return {
        place: {a: rows for a, rows in attacks.items() if spec_of(rows).get("budget") is not None}
        for place, attacks in arms.items()
    }


def remarks(reader: RunReader) -> list[str]:
    """List warnings about the queries of `[analysis]` and of the judge."""
    manifest, found = reader.manifest, []
    settings = manifest["config"].get("analysis", {})
    if settings.get("transfer") and len(manifest["victims"]) == 1:
        found.append(
            "[analysis] transfer needs two victims or more; with one it only repeats the flip "
            "check."
        )
    failed = [inquiry.purpose for inquiry in reader.inquiries() if inquiry.note is not None]
    # Missing queries of significance tests are reported beside the tests.
    if n_unjudged := failed.count("judge"):
        found.append(
            f"the reasonings of {n_unjudged} trials could not be fully judged: run again with "
            "--retry-failed."
        )
    if n_failed := failed.count("transfer") + failed.count("universality"):
        found.append(
            f"{n_failed} queries of the analyses failed and are left out: run again with "
            "--retry-failed."
        )
    return found


def _universality(
    reader: RunReader, arms: Any, settings: Mapping[str, Any]
) -> list[dict[str, Any]]:
    sizes = settings.get("universality") or ()
    if not sizes:
        return []
    asked = [
        QueriedNames(
            place=(inquiry.dataset, inquiry.group, inquiry.victim),
            attack=inquiry.attack,
            item_id=inquiry.item_id,
            top=tuple(inquiry.spec["top"]),
            asked=tuple(inquiry.spec["asked"]),
            n_answered=len(inquiry.outcomes),
            reached=bool(inquiry.reached),
        )
        for inquiry in reader.inquiries()
        if inquiry.purpose == "universality"
        and inquiry.attack in arms.get((inquiry.dataset, inquiry.group, inquiry.victim), {})
    ]
    return universality_rows(arms, asked, sizes)


def _carried(reader: RunReader, trials: Sequence[TrialRow]) -> list[Carried]:
    known = {row.trial_id for row in trials}
    return [
        Carried(
            trial_id=inquiry.spec["trial"],
            edits=inquiry.spec["edits"],
            victim=inquiry.victim,
            outcome=inquiry.outcomes[0] if inquiry.outcomes else None,
            reached=bool(inquiry.reached),
        )
        for inquiry in reader.inquiries()
        if inquiry.purpose == "transfer" and inquiry.spec["trial"] in known
    ]
