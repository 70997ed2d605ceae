"""Further facts about a victim's answers, beside right and wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.counts import cluster_of, is_eligible, is_flipped, is_never_asked, unit_of
from medstress.metrics.evidence import evidence
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import ratio
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.success import asr_asked

NO_SCORES = "the victim gives no scores"


def answer_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return the fields of a summary row that describe how the victim answered."""
    return {
        "letter_mass": letter_mass(trials).as_json(),
        "n_ties": _sum(trials, lambda row: row.n_ties),
        "n_unchanged": _sum(trials, lambda row: row.n_unchanged),
        "chose_edited": chose_edited(trials).as_json(),
        "n_never_asked": sum(map(is_never_asked, trials)),
        "asr_asked": asr_asked(trials).as_json(),
        "evidence": evidence(trials),
    }


def letter_mass(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the mean probability of all option letters together, over clean prompts.

    If it is small, the model would hardly say a letter, and answers read from letters mean little.
    Whole items are drawn with replacement for the interval.
    """
    by_item: dict[str, list[float]] = defaultdict(list)
    for row in trials:
        if row.letter_mass is not None:
            by_item[cluster_of(row)].append(row.letter_mass)
    if not by_item:
        return unknown("no victim answered by letter")
    masses = [by_item[item] for item in sorted(by_item)]
    return ratio([sum(each) for each in masses], [len(each) for each in masses], "mean letter mass")


def chose_edited(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the share of successes in which the victim chose an option that was edited.

    In the other successes the edit of one option led the victim to another. Only successes with a
    readable answer after an edit of an option count.
    """
    return rate(
        (unit_of(row), row.chose_edited)
        for row in trials
        if is_flipped(row) and row.chose_edited is not None
    )


def key_probability_change(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the mean change of P(key) from the clean answer to the attacked one.

    The attacked answer is that at the first success, else the last one to an edit. Eligible trials
    without an attacked answer are left out. Whole items are drawn for the interval.
    """
    changes: dict[str, list[float]] = defaultdict(list)
    for row in trials:
        held = row.score_after if row.last_score is None else row.last_score
        after = row.first_success_score if is_flipped(row) else held
        if not is_eligible(row) or not row.n_options or row.score_before is None or after is None:
            continue
        changes[cluster_of(row)].append(after - row.score_before)
    if not changes:
        has_scores = any(row.n_options and row.score_before is not None for row in trials)
        return unknown("no eligible trial has an attacked answer" if has_scores else NO_SCORES)
    items = [changes[item] for item in sorted(changes)]
    return ratio([sum(each) for each in items], [len(each) for each in items], "attacked answers")


def _sum(trials: Sequence[TrialRow], count: Callable[[TrialRow], int | None]) -> int | None:
    """Add up counts; None if a trial, made by the first version, does not have the count."""
    counts = [known for row in trials if (known := count(row)) is not None]
    return sum(counts) if len(counts) == len(trials) else None
