"""What kind of answers a victim gave, beside right and wrong."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any

from medstress.metrics.counts import cluster_of, is_flipped, is_never_asked, unit_of
from medstress.metrics.estimates import Estimate, unknown
from medstress.metrics.resampling import ratio
from medstress.metrics.shares import rate
from medstress.metrics.success import asr_asked
from medstress.rows import TrialRow


def answer_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """The fields of a summary row that say how answers came about."""
    return {
        "letter_mass": letter_mass(trials).as_json(),
        "n_ties": _sum(trials, lambda row: row.n_ties),
        "n_unchanged": _sum(trials, lambda row: row.n_unchanged),
        "chose_edited": chose_edited(trials).as_json(),
        "n_never_asked": sum(map(is_never_asked, trials)),
        "asr_asked": asr_asked(trials).as_json(),
    }


def letter_mass(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the mean probability of all option letters together, over clean prompts.

    Where it is small, the answer is read from what the model hardly considers saying. Whole items
    are drawn with replacement for the interval.
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

    In the others the edit of one option led it to another. Over successes with a readable answer
    after an edit of an option.
    """
    return rate(
        (unit_of(row), row.chose_edited)
        for row in trials
        if is_flipped(row) and row.chose_edited is not None
    )


def _sum(trials: Sequence[TrialRow], count: Callable[[TrialRow], int | None]) -> int | None:
    """Add up counts; None where a trial of the first edition did not count."""
    counts = [found for row in trials if (found := count(row)) is not None]
    return sum(counts) if len(counts) == len(trials) else None
