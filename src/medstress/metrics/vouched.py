"""The rate of valid successes, where a random labelled subsample of the successes gives one.

What an attack excluded by a table cannot be corrected by the same table: among its successes the
table flags nothing, whatever the truth. So an estimate rests on people's labels alone; a panel of
judges is shown as what it said, and corrects nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import hypot
from typing import Any, TypeAlias

from medstress.core.evidence import JUDGES, PEOPLE, word_of
from medstress.core.rows import TrialRow
from medstress.core.validity import PANEL, REVIEW
from medstress.metrics.counts import is_eligible, is_flipped, unit_of
from medstress.metrics.old_stats.estimates import Estimate
from medstress.metrics.old_stats.shares import rate

Label: TypeAlias = tuple[TrialRow, bool]
"""A success, and what is said of it."""
LEAST_LABELS = 10
"""Fewer labels give bounds and no number."""
_BOTH = (False, True)
_KIND_OF = {REVIEW: PEOPLE, PANEL: JUDGES}
"""Who says something -> the kind of evidence in which their word is kept."""

NOTHING_VOUCHES = "nothing vouches for the validity of successes yet"
FIRST = "the first success is valid"
UNREFUTED = "the first success that nothing refuted during the search is valid"
"""What is estimated. That a valid success exists within B has bounds alone, because only one
success of a search is labelled."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Vouched:
    """A rate of valid successes, and the labels behind it."""

    estimate: Estimate
    """The rate."""
    truth: str
    """What the rate is of: `FIRST` or `UNREFUTED`."""
    n_labels: int
    """Number of successes that people labelled."""
    n_disputed: int
    """Number of sampled successes on which people disagree, or cannot say, and nobody decided."""
    n_unlabelled: int
    """Number of sampled successes of which nobody said anything."""
    settled_ends: tuple[float | None, float | None]
    """The lower end if all disputed and unlabelled ones were invalid, and the upper end if all were
    valid."""

    def as_json(self) -> dict[str, Any]:
        """Return the estimate's fields, then the others."""
        return {
            **self.estimate.as_json(),
            "truth": self.truth,
            "n_labels": self.n_labels,
            "n_disputed": self.n_disputed,
            "n_unlabelled": self.n_unlabelled,
            "settled_ends": list(self.settled_ends),
        }


def asr_valid(trials: Sequence[TrialRow]) -> Vouched | None:
    """Estimate the share of eligible trials whose pick is a success after which the key holds.

    People's labels count if they are of a random sample of the successes (`sampled`), or of all
    of them. With v the valid share among the labels, asr_valid = asr v, and with the ends of both
    low = asr_valid - sqrt(((asr - asr_low) v)^2 + ((v - v_low) asr)^2); high likewise. Successes
    that a rule refuted are a stratum of their own: without labels there, none of them is valid.
    If people labelled every success, nothing is left to guess, and the rate is a plain share.

    Sampled successes on which people disagree, cannot say or said nothing are no random part of
    the sample: left out, they may flatter either way. So the ends are also given for when all of
    them turn out invalid, or valid (`Vouched.settled_ends`).

    Args:
        trials: of one row.

    Returns:
        None if nobody vouches for the successes (`vouched_or_why`); then only `asr_valid_bounds`
        is known.

    References:
        Zou and Donner, "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 2008.
    """
    found = vouched_or_why(trials)
    return found if isinstance(found, Vouched) else None


def vouched_or_why(trials: Sequence[TrialRow]) -> Vouched | str:
    """Return the rate of `asr_valid`, or why there is none."""
    if not any(is_flipped(row) and said_by(row, REVIEW) is not None for row in trials):
        return NOTHING_VOUCHES
    found = _Labels(trials)
    if found.is_census:
        return found.counted()
    return found.too_few() if len(found.labels) < LEAST_LABELS else found.estimated()


def said_by(row: TrialRow, source: str) -> bool | None:
    """Return what people or a panel say of a success, whoever else was believed; None: nothing."""
    if row.validity_reason == source and row.valid is not None:
        return row.valid
    return word_of(row.evidence, _KIND_OF[source])[1]


def is_rule_refuted(row: TrialRow) -> bool:
    """Return True if rules refuted all successes of a search; a panel's refutation is a label."""
    return row.first_unrefuted_success is None and said_by(row, PANEL) is None


class _Labels:
    """What people say of the successes of a row."""

    def __init__(self, trials: Sequence[TrialRow]) -> None:
        self._trials = trials
        self._successes = [row for row in trials if is_flipped(row)]
        said = [(row, said_by(row, REVIEW)) for row in self._successes]
        of_all = [(row, word) for row, word in said if word is not None]
        self.is_census = self._is_census({id(row) for row, _ in of_all})
        is_counted = _is_any if self.is_census else _is_sampled
        self.labels: list[Label] = [(row, word) for row, word in of_all if is_counted(row)]
        open_ = [row for row, word in said if word is None and is_counted(row)]
        self._disputed = [row for row in open_ if is_disputed(row)]
        # What a rule refuted stays so until people say otherwise.
        self._blank = [row for row in open_ if not (is_disputed(row) or is_rule_refuted(row))]
        self._n_outside = len(of_all) - len(self.labels)

    def _is_census(self, labelled: set[int]) -> bool:
        """Whether every success is labelled that could be valid by what else is known."""
        by_stratum = {
            refuted: [id(row) in labelled for row in self._of(refuted)] for refuted in _BOTH
        }
        refuted = by_stratum[True]
        return all(by_stratum[False]) and (all(refuted) or not any(refuted))

    def _of(self, refuted: bool) -> list[TrialRow]:
        return [row for row in self._successes if is_rule_refuted(row) is refuted]

    def too_few(self) -> str:
        """Say why the labels give no number."""
        n, out = len(self.labels), self._n_outside
        verb = "is" if out == 1 else "are"
        if not n and out:
            return f"{_labels_of(out)} {verb} not of a random sample of the successes"
        outside = f"; {out} more {verb} not of a random sample of the successes" if out else ""
        return f"{_labels_of(n)}, and an estimate needs {LEAST_LABELS}{outside}"

    def counted(self) -> Vouched:
        """Return the share of valid successes where people labelled all of them."""
        valid = {id(row) for row, word in self.labels if word}
        estimate = rate(
            (unit_of(row), id(row) in valid) for row in self._trials if is_eligible(row)
        )
        return self._vouched(
            replace(estimate, method=f"{estimate.method}; every success was judged", hits=None)
        )

    def estimated(self) -> Vouched | str:
        """Return the rate, ASR times the valid share of the labels."""
        estimate = self._estimate(self.labels)
        return estimate if isinstance(estimate, str) else self._vouched(estimate)

    def _estimate(self, labels: Sequence[Label]) -> Estimate | str:
        valid = self._valid_shares(labels)
        if isinstance(valid, str):
            return valid
        parts = [_product(self._share(refuted), share) for refuted, share in valid.items()]
        values, below, above = zip(*parts, strict=True)
        return Estimate(
            value=sum(values),
            n=sum(map(is_eligible, self._trials)),
            low=max(0.0, sum(values) - hypot(*below)),
            high=min(1.0, sum(values) + hypot(*above)),
            method=f"ASR times the valid share of {len(labels)} labelled successes, the ends of "
            "both 95 % intervals combined (Zou and Donner)",
        )

    def _valid_shares(self, labels: Sequence[Label]) -> dict[bool, Estimate] | str:
        """Return the valid share of labels: of what no rule refuted, of what one did; or why not.

        A stratum without labels is left out: none of what a rule refuted is then valid.
        """
        found: dict[bool, Estimate] = {}
        for refuted in _BOTH:
            there = [each for each in labels if is_rule_refuted(each[0]) is refuted]
            if there:
                found[refuted] = rate((unit_of(row), word) for row, word in there)
            elif not refuted and self._of(refuted):
                return "only successes that a rule refuted are labelled"
        return found

    def _share(self, refuted: bool) -> Estimate:
        """Return the share of eligible trials with a success in one stratum."""
        return rate(
            (unit_of(row), is_flipped(row) and is_rule_refuted(row) is refuted)
            for row in self._trials
            if is_eligible(row)
        )

    def _vouched(self, estimate: Estimate) -> Vouched:
        return Vouched(
            estimate=estimate,
            truth=truth_of(self._successes),
            n_labels=len(self.labels),
            n_disputed=len(self._disputed),
            n_unlabelled=len(self._blank),
            settled_ends=self._settled_ends(estimate),
        )

    def _settled_ends(self, estimate: Estimate) -> tuple[float | None, float | None]:
        """Return the ends if every open sampled success were invalid, and if all were valid."""
        open_ = [*self._disputed, *self._blank]
        if not open_:
            return estimate.low, estimate.high
        worst, best = (
            self._estimate([*self.labels, *((row, valid) for row in open_)])
            for valid in (False, True)
        )
        if isinstance(worst, str) or isinstance(best, str):
            raise ValueError("there are labels, so there is an estimate")
        return worst.low, best.high


def _labels_of(n: int) -> str:
    return f"{n} label{'' if n == 1 else 's'} of reviewers"


def _product(share: Estimate, part: Estimate) -> tuple[float, float, float]:
    """Multiply two shares, the second within the first; see `asr_valid`.

    Returns:
        The rate, and how far its interval reaches below and above it.

    >>> from medstress.metrics.old_stats.estimates import wilson
    >>> [round(number, 3) for number in _product(wilson(40, 100), wilson(15, 20))]
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


def truth_of(successes: Iterable[TrialRow]) -> str:
    """Return what a rate of valid successes is of: `FIRST`, or `UNREFUTED` if a search went on."""
    goes_on = any(row.first_unrefuted_success not in (None, row.first_success) for row in successes)
    return UNREFUTED if goes_on else FIRST


def _is_any(_: TrialRow) -> bool:
    return True


def _is_sampled(row: TrialRow) -> bool:
    return row.sampled is True


def is_disputed(row: TrialRow) -> bool:
    """Return whether people looked at a success and nothing came of it."""
    looked, word = word_of(row.evidence, PEOPLE)
    return (row.validity_reason == REVIEW and row.valid is None) or (looked and word is None)
