"""The fields of a summary row about valid successes: rate, bounds, labels and corrections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.measured import Measured, Stratum, said_by, stratum_of
from medstress.metrics.valid_bounds import asr_valid_bounds, n_censored, n_validity_unknown
from medstress.metrics.vouched import Vouched, product, truth_of, vouched_or_why
from medstress.stats.estimates import Estimate
from medstress.stats.prevalence import Errors, Screened, corrected_share
from medstress.stats.shares import design_effect_of, rate

ASSUMES = "that it errs on these successes as on those that people labelled"


def validity_fields(trials: Sequence[TrialRow], sources: Mapping[str, Measured]) -> dict[str, Any]:
    """Return `asr_valid`, its bounds, the counts of what is unknown, and `validity`.

    `validity` says what the rate is of (`truth`), why there is none (`why`), how many successes
    are in a random sample (`n_sampled`), and has a row for each source that was measured on
    people's labels (`checkers`), with the rate corrected by its errors.

    Args:
        trials: of one row.
        sources: from `medstress.metrics.measured.measured`, over the whole run.
    """
    found = vouched_or_why(trials, sources)
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
            "checkers": [
                {**known.as_json(), **_corrected(trials, known)}
                for source, known in sources.items()
                if any(said_by(row, source) is not None for row in successes)
            ],
        },
    }


def _corrected(trials: Sequence[TrialRow], known: Measured) -> dict[str, Any]:
    """Return the rate of valid successes by a source's words and its errors, and what it assumes.

    By stratum where each is measured well enough, else by its errors over all.
    """
    why = known.why_not
    if why is not None:
        return {"asr_valid_corrected": None, "assumes": None, "why": why}
    source = known.source
    met = [row for row in trials if is_flipped(row) and said_by(row, source) is not None]
    names = {id(row) for row in met}
    share = rate((unit_of(row), id(row) in names) for row in trials if is_eligible(row))
    by_stratum: dict[Stratum, list[TrialRow]] = defaultdict(list)
    for row in met:
        by_stratum[stratum_of(row)].append(row)
    errors = known.of(by_stratum)
    if errors is None:
        screened = [_screened(met, source, 1.0, known.errors)]
    else:
        screened = [
            _screened(rows, source, len(rows) / len(met), errors[stratum])
            for stratum, rows in by_stratum.items()
        ]
    valid = corrected_share(screened)
    value, below, above = product(share, valid)
    estimate = Estimate(
        value=value,
        n=share.n,
        low=max(0.0, value - below),
        high=min(1.0, value + above),
        method=f"ASR times the share of valid successes by the {source}, corrected for its errors "
        f"({valid.method}); the ends of both intervals combined (Zou and Donner)",
    )
    return {"asr_valid_corrected": estimate.as_json(), "assumes": ASSUMES, "why": None}


def _screened(rows: Sequence[TrialRow], source: str, weight: float, errors: Errors) -> Screened:
    words = [(unit_of(row), said_by(row, source) is True) for row in rows]
    found = rate(words)
    return Screened(
        weight=weight,
        share=found.value or 0.0,
        n=found.n / design_effect_of(words),
        errors=errors,
    )
