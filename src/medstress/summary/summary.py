"""The summary of a run: rows and ledgers go to the metrics, warnings are added."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from functools import partial
from typing import Any

from medstress.core.controls import left_out_sentences
from medstress.core.rows import TrialRow
from medstress.experiment.plan.spending import describe_spending
from medstress.metrics.arms import largest_budget
from medstress.metrics.clean_answers import clean_answers
from medstress.metrics.controls import attacks_only
from medstress.metrics.summary import LEDGER_FIELDS, summarise
from medstress.results.answer_warnings import about_answers
from medstress.results.formats import plural
from medstress.results.load import StoredRun, kind_of_run
from medstress.results.names import names_of
from medstress.results.queries import substitutions
from medstress.results.root import describe_root
from medstress.results.rows import trial_rows
from medstress.results.shards import bought_twice, lost_calls, shard_lines
from medstress.significance.results import add_faithfulness, add_tests
from medstress.summary.analyses import analyse, remarks
from medstress.summary.arms import Place
from medstress.summary.attacked import attacked_lines
from medstress.summary.criteria import add_decisions
from medstress.summary.explanations import about_explanations, describe_explanations
from medstress.summary.headlines import headlines
from medstress.summary.passages import NO_GAIN, describe_passages
from medstress.summary.remarks import left_out_lines
from medstress.summary.reviews import describe_reviews, review_warnings
from medstress.summary.sentences import add_scores
from medstress.summary.training import describe_training
from medstress.summary.tuned import cautions, describe_tuning
from medstress.summary.verdict import GUESSING, verdict_of

_REPEATED = ("requests_repeated", "requests_late")
"""Counts of servers, where there is something to count."""


def summarise_run(run: StoredRun) -> dict[str, Any]:
    """Summarise a run, finished or not.

    The result is cached with the open run: do not change it.
    """
    return run.once(_summarise)


def _summarise(run: StoredRun) -> dict[str, Any]:
    manifest, trials = run.manifest, trial_rows(run)
    performance = dict(manifest.get("performance", {}))
    totals = run.totals()
    seconds = performance.get("wall_seconds", 0.0)
    usd, spending = describe_spending(run.spending(), manifest)
    n_asked = sum(trial.n_asked for trial in trials)
    experiment = {
        "name": manifest["config"]["experiment"]["name"],
        "fingerprint": manifest["fingerprint"],
        "seeds": manifest["seeds"],
        "versions": manifest["versions"],
        "started": manifest["started"],
        "finished": manifest["finished"],
        "complete": manifest["complete"],
        "n_planned": manifest["n_planned"],
        "n_skipped_rows": sum(len(d["skipped"]) for d in manifest["datasets"].values()),
    }
    budgets = _budgets(trials)
    found = summarise(
        trials,
        experiment,
        _ledgers(run, trials),
        {
            "wall_seconds": seconds,
            "queries_per_second": n_asked / seconds if seconds else None,
            "calls": totals["calls"],
            "calls_from_cache": run.n_from_cache(),
            **bought_twice(manifest),
            **lost_calls(performance),
            "calls_per_query": run.calls_per_query(),
            "tokens_forwarded": performance.get("tokens_forwarded"),
            "tokens_naive": performance.get("tokens_naive"),
            **{name: n for name in _REPEATED if (n := performance.get(name))},
            "usd": usd,
            "spending": spending,
        },
        budgets,
        run.role_counts(),
        (manifest.get("controls") or {}).get("left_out"),
    )
    found |= describe_root(run)
    doubts = [f"unverified: {run.doubt}"] if run.doubt else []
    found["warnings"] = [
        *doubts,
        *shard_lines(manifest),
        *about_answers(run, found),
        *found["warnings"],
    ]
    found["names"] = asdict(names_of(manifest))
    found["headlines"] = headlines(found["pooled"], manifest)
    add_scores(run, found)
    review = describe_reviews(run, trials)
    found["verdict"] = verdict_of({**found, "review": review}, manifest, partial(_guesses, trials))
    tuning = describe_tuning(run, trials)
    if tuning is not None:
        found["tuning"] = tuning
        found["warnings"] += cautions(tuning)
    training = describe_training(run, trials)
    if training is not None:
        found["training"] = training
        found["warnings"] += training["cautions"]
    if "surrogates" in manifest:
        found["surrogates"] = manifest["surrogates"]
    groups = manifest.get("groups", {}).values()
    found["warnings"] += [group["undefined"] for group in groups if group.get("undefined")]
    found["warnings"] += [
        note for part in manifest["datasets"].values() for note in part.get("notes", ())
    ]
    skipped = {label: part["skipped"] for label, part in manifest["datasets"].items()}
    found["warnings"] += [
        *left_out_lines(skipped),
        *left_out_sentences((manifest.get("controls") or {}).get("left_out") or {}),
        *remarks(run),
        *attacked_lines(manifest),
    ]
    add_tests(found, run, trials)
    add_faithfulness(found, run, trials)
    if (explained := describe_explanations(run)) is not None:
        found["explanations"] = explained
        found["warnings"] += about_explanations(explained)
    if (passages := describe_passages(run, trials)) is not None:
        found["passages"] = passages
        if not passages["gains"]:
            found["warnings"].append(NO_GAIN)
    if review is not None:
        found["review"] = review
        found["warnings"] += review_warnings(review)
    add_decisions(run, trials, found, budgets)
    # Only kinds whose attacks draw names have analyses.
    analysed = trials if kind_of_run(run).draws_names else ()
    substituted = substitutions(run, attacks_only(analysed))
    return {
        **found,
        "analysis": analyse(run, analysed, found["pooled"], budgets, substituted),
    }


def _guesses(trials: Sequence[TrialRow], place: Place) -> str:
    """Return how guessing reaches what a victim's clean answers do; empty if they are above it."""
    found = clean_answers(
        trial for trial in trials if (trial.dataset, trial.group, trial.victim) == place
    )
    if not found.guesses:
        return ""
    n = plural(found.readable.n, "item")
    return f"by always giving the commonest key letter of these {n}" * found.by_letter or GUESSING


def _budgets(trials: Sequence[TrialRow]) -> dict[str, int]:
    """Return the query budget of each attack; without one, the most queries of a trial."""
    most_asked: dict[str, int] = {}
    budgets: dict[str, int | None] = {}
    for trial in trials:
        most_asked[trial.attack] = max(most_asked.get(trial.attack, 1), trial.n_asked)
        budgets[trial.attack] = json.loads(trial.attack_spec)["budget"]
    return {
        attack: n if budgets[attack] is None else largest_budget(int(budgets[attack] or 1), [n])
        for attack, n in most_asked.items()
    }


def _ledgers(
    run: StoredRun, trials: Sequence[TrialRow]
) -> dict[tuple[str, str, str, str, int | None], dict[str, int]]:
    ledgers: dict[tuple[str, str, str, str, int | None], dict[str, int]] = {}
    for trial in trials:
        key = (trial.dataset, trial.group, trial.victim, trial.attack, trial.seed)
        ledger = ledgers.setdefault(key, dict.fromkeys(LEDGER_FIELDS, 0))
        ledger["asked"] += trial.n_asked
        ledger["paid"] += trial.n_paid
        ledger["cached"] += trial.n_cached
        ledger["failed"] += trial.n_failed
    for key, counts in run.other_counts().items():
        if key in ledgers:
            ledgers[key].update(counts)
    return ledgers
