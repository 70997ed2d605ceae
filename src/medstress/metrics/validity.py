"""The fields of a summary row about valid successes: rate, bounds, and what is known of labels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.core.validity import PANEL, REVIEW
from medstress.metrics.counts import is_flipped, unit_of
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.valid_bounds import asr_valid_bounds, n_censored, n_validity_unknown
from medstress.metrics.vouched import Vouched, said_by, truth_of, vouched_or_why


def validity_fields(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Return `asr_valid`, its bounds, the counts of what is unknown, and `validity`.

    `validity` says what the rate is of (`truth`), why there is none (`why`), how many successes
    are in a random sample (`n_sampled`), and how often the panel of judges agrees with people
    (`panel`).

    Args:
        trials: of one row.
    """
    found = vouched_or_why(trials)
    successes = [row for row in trials if is_flipped(row)]
    return {
        "asr_valid": found.as_json() if isinstance(found, Vouched) else None,
        "asr_valid_bounds": asr_valid_bounds(trials),
        "n_validity_unknown": n_validity_unknown(trials),
        "n_censored": n_censored(trials),
        "validity": {
            "truth": truth_of(successes) if successes else None,
            "why": found if isinstance(found, str) else None,
            "n_sampled": sum(row.sampled is True for row in successes),
            "panel": _panel(successes),
        },
    }


def _panel(successes: Sequence[TrialRow]) -> dict[str, Any] | None:
    """Return the shares of the keys that people call right or wrong of which the panel says so too.

    Labels outside a random sample may have been picked because the panel errs there, so they do not
    count. None if no panel judged a success.
    """
    judged = [(row, word) for row in successes if (word := said_by(row, PANEL)) is not None]
    if not judged:
        return None
    both = [
        (unit_of(row), people, word)
        for row, word in judged
        if row.sampled and (people := said_by(row, REVIEW)) is not None
    ]

    def agreed(valid: bool) -> dict[str, Any]:
        return rate(
            (unit, word is valid) for unit, people, word in both if people is valid
        ).as_json()

    return {"n_labels": len(both), "sensitivity": agreed(True), "specificity": agreed(False)}
