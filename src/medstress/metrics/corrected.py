"""The rate of valid successes by the words of a panel or a checker, corrected for its errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from math import hypot
from typing import TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.measured import Source, Stratum, is_rule_refuted, said_by, stratum_of
from medstress.stats.estimates import Estimate
from medstress.stats.prevalence import Errors, Screened, corrected_share
from medstress.stats.shares import design_effect_of, rate

Part: TypeAlias = tuple[float, float, float]
"""A rate, and how far its interval reaches below and above it."""


def corrected(trials: Sequence[TrialRow], known: Source) -> Estimate:
    """Estimate the share of eligible trials with a valid success by an imperfect source.

    With p the share of eligible trials with a success that no rule refuted, and v the share of
    valid ones among those that the source has a word on, corrected by its errors
    (`corrected_share`), it is p v. By stratum where each is measured well enough, else by its
    errors over all. Successes on which the source has no word are no random part: the lower end
    takes all of them as invalid, the upper end as valid.

    Args:
        trials: of one row; the source has a word on one success at least that no rule refuted.
        known: a source that can be believed.
    """
    met, left = worded(trials, known.source)
    valid = _valid_share(met, known)
    value, below, above = product(_share(trials, met), valid)
    low, high, more = value - below, value + above, ""
    if left:
        rest, _, rest_high = _numbers(_share(trials, left))
        high = value + rest + hypot(above, rest_high - rest)
        value += rest * (valid.value or 0.0)
        more = f"; {len(left)} without a word of it are invalid at the low end, valid at the high"
    return Estimate(
        value=value,
        n=sum(map(is_eligible, trials)),
        low=max(0.0, low),
        high=min(1.0, high),
        method=f"ASR times the share of valid successes by the {known.source}, corrected for its "
        f"errors ({valid.method}); the ends of both intervals combined (Zou and Donner){more}",
    )


def worded(trials: Sequence[TrialRow], source: str) -> tuple[list[TrialRow], list[TrialRow]]:
    """Return the successes that no rule refuted, on which a source has a word, and has none."""
    met: list[TrialRow] = []
    left: list[TrialRow] = []
    for row in trials:
        if is_flipped(row) and not is_rule_refuted(row):
            (left if said_by(row, source) is None else met).append(row)
    return met, left


def product(share: Estimate, part: Estimate) -> Part:
    """Multiply two shares, the second within the first; see `medstress.metrics.vouched.asr_valid`.

    >>> from medstress.stats.estimates import wilson
    >>> [round(number, 3) for number in product(wilson(40, 100), wilson(15, 20))]
    [0.3, 0.111, 0.092]
    """
    p, p_low, p_high = _numbers(share)
    v, v_low, v_high = _numbers(part)
    below = hypot((p - p_low) * v, (v - v_low) * p)
    return p * v, below, hypot((p_high - p) * v, (v_high - v) * p)


def _numbers(estimate: Estimate) -> tuple[float, float, float]:
    value, low, high = estimate.value, estimate.low, estimate.high
    if value is None or low is None or high is None:
        raise ValueError("there is nothing to estimate a share from")
    return value, low, high


def _share(trials: Sequence[TrialRow], chosen: Sequence[TrialRow]) -> Estimate:
    """Return the share of eligible trials that are among some."""
    names = {id(row) for row in chosen}
    return rate((unit_of(row), id(row) in names) for row in trials if is_eligible(row))


def _valid_share(met: Sequence[TrialRow], known: Source) -> Estimate:
    by_stratum: dict[Stratum, list[TrialRow]] = defaultdict(list)
    for row in met:
        by_stratum[stratum_of(row)].append(row)
    errors = known.of(by_stratum)
    if errors is None:
        return corrected_share([_screened(met, known.source, 1.0, known.errors)])
    return corrected_share(
        [
            _screened(rows, known.source, len(rows) / len(met), errors[stratum])
            for stratum, rows in by_stratum.items()
        ]
    )


def _screened(rows: Sequence[TrialRow], source: str, weight: float, errors: Errors) -> Screened:
    words = [(unit_of(row), said_by(row, source) is True) for row in rows]
    found = rate(words)
    return Screened(
        weight=weight,
        share=found.value or 0.0,
        n=found.n / design_effect_of(words),
        errors=errors,
    )
