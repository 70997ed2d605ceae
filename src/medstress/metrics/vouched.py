"""How many successes are valid: bounds always, and an estimate if someone vouches for them.

A success is valid if the key still holds after the edit. Rules refute and never vouch, so what
they let pass is of unknown validity (`medstress.core.validity`). An unknown rate is never reported
as 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Any, TypeAlias

from medstress.core.rows import TrialRow
from medstress.core.validity import PANEL, REVIEW, VOUCHERS
from medstress.metrics.arms import EVERY_BUDGET
from medstress.metrics.counts import (
    is_eligible,
    is_flipped,
    is_unrefuted_success,
    is_valid_success,
    pick_success,
    unit_of,
)
from medstress.metrics.significance.judges import unjudged_items
from medstress.stats.estimates import Estimate
from medstress.stats.shares import rate

Bounds: TypeAlias = list[float]
"""The rate if [no unknown success is valid, all are, and censored searches would succeed too]."""

Part: TypeAlias = tuple[float, float, float]
"""A rate, and how far its interval reaches below and above it."""

Reach: TypeAlias = tuple[int | None, int | None, int | None]
"""The query from which a trial counts in each of the three bounds; None if it never does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """A rate of valid successes, and the source of the labels behind it."""

    estimate: Estimate
    """The rate."""
    vouched_by: str
    """`review`, `panel` or `checker`."""
    n_labels: int
    """Number of successes that the source labelled."""
    n_disputed: int = 0
    """Number of successes on which people disagree and nobody has decided."""
    settled_ends: tuple[float | None, float | None]
    """The lower end if all disputed successes were invalid, and the upper end if all were valid."""

    def as_json(self) -> dict[str, Any]:
        """Return the estimate's fields, then the others."""
        return {
            **self.estimate.as_json(),
            "vouched_by": self.vouched_by,
            "n_labels": self.n_labels,
            "n_disputed": self.n_disputed,
            "settled_ends": list(self.settled_ends),
        }


def asr_valid(trials: Sequence[TrialRow]) -> Vouched | None:
    """Estimate the share of eligible trials whose pick is a success after which the key holds.

    The labels come from the most trusted source that has any: review, panel, checker. They must be
    a random sample of the successes, or of those that no rule refutes, so that v, the valid share
    of the sample, holds for the others. asr_valid = asr v, and with the ends of both
    low = asr_valid - sqrt(((asr - asr_low) v)^2 + ((v - v_low) asr)^2); high likewise. Successes
    that a rule refuted are a stratum of their own: without labels there, none of them is valid.

    If a panel vouches, items whose key no judge picks before any edit are left out, because its
    labels say nothing about them.

    Tuned prediction-powered inference (people's labels beside a checker's on all successes) is not
    implemented: if people have labelled successes, only their labels count.

    Returns:
        None if nobody vouches for the successes; then only `asr_valid_bounds` is known.

    Successes on which people disagree are no random part of the labels: left out, they may flatter
    either way. So the ends are also given for when all of them turn out invalid, or valid.

    References:
        Zou and Donner, "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 2008.
    """
    successes = [row for row in trials if is_flipped(row)]
    source = next((s for s in VOUCHERS if any(_is_label(row, s) for row in successes)), None)
    if source is None:
        return None
    unjudged = unjudged_items(trials) if source == PANEL else set()
    trials = [row for row in trials if row.item_id not in unjudged]
    successes = [row for row in trials if is_flipped(row)]
    apart = f"; items that no judge knows are left out ({len(unjudged)})" if unjudged else ""
    parts: list[Part] = []
    for refuted in (False, True):
        stratum = [row for row in successes if _is_refuted(row, source) is refuted]
        labels = [row for row in stratum if _is_label(row, source)]
        if labels:
            parts.append(_valid_part(trials, source, refuted, labels))
        elif stratum and not refuted:
            return None
    n_labels = sum(_is_label(row, source) for row in successes)
    values, below, above = zip(*parts, strict=True)
    estimate = Estimate(
        value=sum(values),
        n=sum(map(is_eligible, trials)),
        low=max(0.0, sum(values) - hypot(*below)),
        high=min(1.0, sum(values) + hypot(*above)),
        method=f"ASR times the valid share of {n_labels} labelled successes, the ends of both "
        f"95 % intervals combined (Zou and Donner){apart}",
    )
    disputed = [row for row in successes if source == REVIEW and _is_disputed(row)]
    ends: tuple[float | None, float | None] = (estimate.low, estimate.high)
    if disputed:
        worst, best = (_settled(trials, valid) for valid in (False, True))
        ends = (worst.low, best.high)
    return Vouched(
        estimate=estimate,
        vouched_by=source,
        n_labels=n_labels,
        n_disputed=len(disputed),
        settled_ends=ends,
    )


def _is_disputed(row: TrialRow) -> bool:
    return row.validity_reason == REVIEW and row.valid is None


def _settled(trials: Sequence[TrialRow], valid: bool) -> Estimate:
    """Estimate the rate as if an adjudicator had decided all disputes in one way."""
    found = asr_valid(
        [
            replace(row, valid=valid) if is_flipped(row) and _is_disputed(row) else row
            for row in trials
        ]
    )
    if found is None:
        raise ValueError("there are labels, so there is an estimate")
    return found.estimate


def _is_label(row: TrialRow, source: str) -> bool:
    return row.validity_reason == source and row.valid is not None


def _is_refuted(row: TrialRow, source: str) -> bool:
    """Return True if something less trusted than the source refuted all successes of a search."""
    if source != REVIEW and _is_label(row, source):
        return False  # the panel's own refutation is a label
    return row.first_unrefuted_success is None


def _valid_part(
    trials: Sequence[TrialRow], source: str, refuted: bool, labels: Sequence[TrialRow]
) -> Part:
    """Return the share of eligible trials with a valid success in one stratum of successes."""
    share = rate(
        (unit_of(row), is_flipped(row) and _is_refuted(row, source) is refuted)
        for row in trials
        if is_eligible(row)
    )
    return product(share, rate((unit_of(row), is_valid_success(row)) for row in labels))


def product(share: Estimate, part: Estimate) -> Part:
    """Multiply two shares, the second within the first; see `asr_valid`.

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


def asr_unrefuted(trials: Sequence[TrialRow]) -> Estimate:
    """Estimate the share of eligible trials with a success that nothing refutes.

    It is the middle of `asr_valid_bounds`: every success of unknown validity counts.
    """
    return rate((unit_of(row), is_unrefuted_success(row)) for row in trials if is_eligible(row))


def n_validity_unknown(trials: Sequence[TrialRow]) -> int:
    """Count successes of unknown validity."""
    return sum(is_flipped(row) and row.valid is None for row in trials)


def n_censored(trials: Sequence[TrialRow]) -> int:
    """Count successes found invalid at which the search ended, so it could not find another."""
    return sum(is_flipped(row) and row.censored is True for row in trials)


def asr_valid_bounds(trials: Sequence[TrialRow]) -> Bounds | None:
    """Bound the share of eligible trials with a valid success, from all that is known of each.

    Returns:
        Three shares, never falling; None if no trial is eligible.
    """
    found = [reach(row) for row in trials if is_eligible(row)]
    return shares(found, max((q for each in found for q in each if q), default=0))


def asr_valid_bounds_at(trials: Sequence[TrialRow], budget: int) -> list[dict[str, Any]]:
    """Read the bounds at every smaller budget off one run, as `asr_at` does for all successes.

    Only the pick is labelled, so valid success within B has bounds and no estimate. A censored
    search could have found a valid success only after its pick.
    """
    found = [reach(row) for row in trials if is_eligible(row)]
    steps = {q for each in found for q in each if q is not None and q <= budget}
    shown = range(1, budget + 1) if budget <= EVERY_BUDGET else sorted({1, budget, *steps})
    return [{"budget": b, "bounds": shares(found, b)} for b in shown]


def reach(trial: TrialRow) -> Reach:
    """Return the query from which a trial counts in each bound (see `Bounds`)."""
    pick = pick_success(trial)
    if pick is None:
        return None, None, None
    valid = trial.first_valid_success if is_valid_success(trial) else None
    if is_unrefuted_success(trial):
        return valid, pick, pick
    return None, None, pick + 1 if trial.censored else None


def shares(found: Sequence[Reach], within: int) -> Bounds | None:
    """Return the share of trials that count in each bound up to a query; None without trials."""
    if not found:
        return None
    counts = [sum(q is not None and q <= within for q in each) for each in zip(*found, strict=True)]
    return [count / len(found) for count in counts]
