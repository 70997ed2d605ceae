"""The first paragraphs of the report: whether the run is complete, and what was run."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.old_stats.estimates import is_estimate
from medstress.report.labels import Row, is_control, number
from medstress.results.formats import as_text, plural, shorten
from medstress.results.measures import GROUPS

_ALWAYS = ("Rates", "Trials", "Answers", "Queries", "Successes")
_MOST_REASONS = 3
"""Reasons of failures that are said; the table of failures has all."""
_NAMES = 6
"""Largest number of names in a sentence; further ones are only counted."""


def state(summary: Mapping[str, Any]) -> str:
    """Say whether the run is complete, and how many trials are missing, if known."""
    experiment = summary["experiment"]
    if experiment.get("complete"):
        return "Complete: every planned trial has ended."
    planned = experiment.get("n_planned")
    if planned is None:
        return "Partial: the run had not ended when this page was made."
    done = sum(number(row, "n_trials") for row in summary.get("results") or ())
    missing = max(0, planned - done)
    verb = "is" if missing == 1 else "are"
    return f"Partial: {missing:,} of {plural(planned, 'planned trial')} {verb} missing."


def n_failed(summary: Mapping[str, Any]) -> int:
    """Return how many trials failed, those whose clean item could not be asked included."""
    rows = summary.get("results") or ()
    return sum(number(row, "n_failed") + number(row, "n_failed_at_baseline") for row in rows)


def failure_lines(trials: Sequence[TrialRow], summary: Mapping[str, Any]) -> list[str]:
    """Say why trials failed, the commonest reasons first."""
    if not n_failed(summary):
        return []
    reasons = Counter(trial.error for trial in trials if trial.error)
    return [f"{n} failed: {reason}" for reason, n in reasons.most_common(_MOST_REASONS)]


def state_lines(summary: Mapping[str, Any]) -> list[str]:
    """Return what `state` says, and when."""
    return [state(summary), *filter(None, (_when(summary),))]


def run_line(rows: Sequence[Row], experiment: Mapping[str, Any]) -> str:
    """Describe the run in one line.

    Args:
        rows: the headline rows, one per data set, group, victim and attack.
        experiment: what the summary says of the whole run.
    """
    if not rows:
        return "No trial has ended yet."
    budgets = [row["asr_at"][-1]["budget"] for row in rows if row.get("asr_at")]
    most = f", up to {plural(max(budgets), 'query', 'queries')} each" if budgets else ""
    seeds = [each for each in experiment.get("seeds") or () if each is not None]
    seeded = f", {plural(len(seeds), 'seed')}" if len(seeds) > 1 else ""
    so_far = "" if experiment.get("complete") else " so far"
    return (
        f"{_named(rows, 'victim', 'model')}, {plural(_distinct_items(rows), 'item')}{so_far} of "
        f"{_named(rows, 'dataset', 'data set')}{_groups(rows)}, {_attacks(rows)}{most}{seeded}."
    )


def _named(rows: Iterable[Row], field: str, noun: str) -> str:
    """Return the name of the only value of a field, or how many values there are."""
    names = list(dict.fromkeys(as_text(row.get(field)) for row in rows))
    return shorten(names[0], 60) if len(names) == 1 else plural(len(names), noun)


def _attacks(rows: Sequence[Row]) -> str:
    """Name or count the attacks, and count the controls that the file names as attacks."""
    attacks = [row for row in rows if not is_control(row)]
    n = len({as_text(row.get("attack")) for row in rows if is_control(row)})
    if not attacks or not n:
        return _named(rows, "attack", "attack")
    return f"{_named(attacks, 'attack', 'attack')} and {plural(n, 'control')}"


def _groups(rows: Iterable[Row]) -> str:
    names = list(dict.fromkeys(as_text(row.get("group")) for row in rows))
    if len(names) > 3:
        return f", {len(names):,} groups"
    return f" ({', '.join(shorten(name, 40) for name in names)})"


def what_was_run(summary: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """Describe the run in one paragraph.

    Args:
        summary: as `medstress summary --json`.
        rows: the headline rows, one per data set, group, victim and attack.
    """
    if not rows:
        return "No trial has ended yet, so there is nothing to measure."
    results: Sequence[Row] = summary.get("results") or rows
    return " ".join(
        (
            f"{_listed(rows, 'victim', 'victim')} answered "
            f"{plural(_distinct_items(rows), 'item')} from {_listed(rows, 'dataset', 'data set')}, "
            f"perturbed by {_listed(rows, 'attack', 'attack')} "
            f"in {_listed(rows, 'group', 'entity group')}, {_seeds(summary)}.",
            _work(results),
        )
    ).strip()


def _listed(rows: Iterable[Row], field: str, noun: str) -> str:
    names = list(dict.fromkeys(as_text(row.get(field)) for row in rows))
    shown = ", ".join(shorten(name, 60) for name in names[:_NAMES])
    more = f" and {len(names) - _NAMES} more" if len(names) > _NAMES else ""
    return f"{plural(len(names), noun)} ({shown}{more})"


def _distinct_items(rows: Iterable[Row]) -> int:
    """Count the items of all data sets; groups and attacks of a data set share its items."""
    largest: dict[Any, int] = {}
    for row in rows:
        name = row.get("dataset")
        largest[name] = max(largest.get(name, 0), number(row, "n_items"))
    return sum(largest.values())


def _seeds(summary: Mapping[str, Any]) -> str:
    seeds = summary["experiment"].get("seeds") or ()
    if not seeds:
        return "without a seed"
    return ("with seed " if len(seeds) == 1 else "with seeds ") + ", ".join(map(as_text, seeds))


def _work(rows: Iterable[Row]) -> str:
    ledgers = [(number(row, "n_trials"), row.get("queries") or {}) for row in rows]
    trials = sum(n for n, _ in ledgers)
    asked, paid = (sum(number(ledger, name) for _, ledger in ledgers) for name in ("asked", "paid"))
    queries = plural(asked, "perturbed query", "perturbed queries")
    return f"That made {plural(trials, 'trial')} and {queries}, of which {paid:,} were computed."


def _when(summary: Mapping[str, Any]) -> str:
    experiment = summary["experiment"]
    versions = experiment.get("versions") or {}
    parts = []
    if experiment.get("started"):
        parts.append(f"Started {as_text(experiment['started'])}")
    if experiment.get("finished"):
        parts.append(f"finished {as_text(experiment['finished'])}")
    if isinstance(versions, Mapping) and versions.get("medstress"):
        parts.append(f"medstress {as_text(versions['medstress'])}")
    text = ", ".join(parts)
    return text[:1].upper() + text[1:] + "." if text else ""


def command(manifest: Mapping[str, Any]) -> str | None:
    """Return the command that repeats the run, if the manifest has it (as text or a list)."""
    given = manifest.get("command")
    if isinstance(given, list | tuple):
        return shlex.join(map(str, given))
    return None if given is None else str(given)


def performance(summary: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return (name, value) of the known costs of the run."""
    known = summary.get("performance") or {}
    return [
        (name.replace("_", " ").capitalize(), f"{value:,.2f}".removesuffix(".00"))
        for name, value in known.items()
        if isinstance(value, int | float)
    ]


def glossary(rows: Sequence[Row]) -> list[tuple[str, str]]:
    """Return (label, meaning) of the measures on every page and of those that the rows contain."""
    held = {name for row in rows for name, value in row.items() if _is_known(value)}
    return [
        (measure.label, f"{measure.meaning[0].upper()}{measure.meaning[1:]}.".replace("`", ""))
        for group, measures in GROUPS.items()
        for measure in measures
        if group in _ALWAYS or measure.name.partition(".")[0] in held
    ]


def _is_known(value: Any) -> bool:
    """Return whether a field of a row says anything: an estimate that has a value, or other."""
    if not isinstance(value, Mapping):
        return value is not None
    if is_estimate(value):
        return value["value"] is not None
    return not value or any(map(_is_known, value.values()))
