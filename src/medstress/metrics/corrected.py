"""The rate of valid successes by the words of a panel or a checker, corrected for its errors."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot
from typing import TypeAlias

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.measured import (
    Known,
    Source,
    Stratum,
    is_rule_refuted,
    said_by,
    stratum_of,
)
from medstress.stats.estimates import Estimate
from medstress.stats.prevalence import Errors, Screened, corrected_share, uncut_share
from medstress.stats.shares import design_effect_of, rate

Part: TypeAlias = tuple[float, float, float]
"""A rate, and how far its interval reaches below and above it."""
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A rate, and what corrected it."""

    estimate: Estimate
    by: str
    """The error rates that corrected it, and whether the corrected share was cut to 0 or 1."""


def known_of(trials: Sequence[TrialRow], source: Source) -> Known:
    """Return how right a source is where the successes of a row are on which it has a word."""
    met, _ = worded(trials, source.source)
    return source.of({stratum_of(row) for row in met or trials})


def corrected(trials: Sequence[TrialRow], known: Known) -> Corrected:
    """Estimate the share of eligible trials with a valid success by an imperfect source.

    With p the share of eligible trials with a success that no rule refuted, and v the share of
    valid ones among those that the source has a word on, corrected by its errors
    (`corrected_share`), it is p v. By stratum where each is measured well enough, else by its
    errors in the group. Successes on which the source has no word are no random part: the lower end
    takes all of them as invalid, the upper end as valid.

    Args:
        trials: of one row; the source has a word on one success at least that no rule refuted.
        known: a source that can be believed.
    """
    met, left = worded(trials, known.source)
    screened = _screened_by_stratum(met, known)
    valid = corrected_share(screened)
    value, below, above = product(_share(trials, met), valid)
    low, high, more = value - below, value + above, ""
    if left:
        rest, _, rest_high = _numbers(_share(trials, left))
        high = value + rest + hypot(above, rest_high - rest)
        value += rest * (valid.value or 0.0)
        more = f"; {len(left)} without a word of it are invalid at the low end, valid at the high"
    estimate = Estimate(
        value=value,
        n=sum(map(is_eligible, trials)),
        low=max(0.0, low),
        high=min(1.0, high),
        method=f"ASR times the share of valid successes by the {known.source}, corrected for its "
        f"errors ({valid.method}); the ends of both intervals combined (Zou and Donner){more}",
    )
    return Corrected(estimate=estimate, by="; ".join(map(_corrected_by, screened)))


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


def _screened_by_stratum(met: Sequence[TrialRow], known: Known) -> list[Screened]:
    if not known.by_stratum:
        return [_screened(met, known.source, 1.0, known.errors)]
    by_stratum: dict[Stratum, list[TrialRow]] = defaultdict(list)
    for row in met:
        by_stratum[stratum_of(row)].append(row)
    return [
        _screened(rows, known.source, len(rows) / len(met), known.by_stratum[stratum])
        for stratum, rows in by_stratum.items()
    ]


def _corrected_by(given: Screened) -> str:
    """Say the error rates that corrected a share, and whether it was cut.

    >>> errors = Errors(n_true=20, n_true_found=17, n_false=14, n_false_found=8)
    >>> _corrected_by(Screened(weight=1.0, share=0.643, n=42, errors=errors))
    'sensitivity .850 of 20, specificity .571 of 14'
    >>> _corrected_by(Screened(weight=1.0, share=0.98, n=42, errors=errors))
    'sensitivity .850 of 20, specificity .571 of 14, which make more than all valid: cut to 1'
    """
    errors, share = given.errors, uncut_share(given)
    cut = (
        ", which make more than all valid: cut to 1"
        if share > 1 + _ROUNDING
        else ", which make fewer than none valid: cut to 0"
        if share < -_ROUNDING
        else ""
    )
    right = errors.n_true_found / errors.n_true, errors.n_false_found / errors.n_false
    sensitivity, specificity = (f"{each:.3f}".removeprefix("0") for each in right)
    return (
        f"sensitivity {sensitivity} of {errors.n_true}, specificity {specificity} of "
        f"{errors.n_false}{cut}"
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
