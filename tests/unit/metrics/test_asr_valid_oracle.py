"""`asr_valid` against a few lines of its own: the product of two shares, stratum by stratum.

The oracle reads plain facts and nothing of the package, so whatever computes the rate is held
to it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from math import hypot, sqrt
from typing import NamedTuple

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import asr_valid

Z = 1.959963984540054


class Success(NamedTuple):
    """One success, about an item of its own."""

    refuted: bool
    """Whether a rule refuted it."""
    sampled: bool
    """Whether people were to look at it, drawn at random."""
    label: bool | None
    """Whether people call the right answer still right; None: nobody said."""


def wilson(k: int, n: int) -> tuple[float, float, float]:
    """Value, low and high end."""
    p, d = k / n, 1 + Z * Z / n
    middle, reach = (p + Z * Z / (2 * n)) / d, Z * sqrt(p * (1 - p) / n + Z * Z / (4 * n * n)) / d
    return p, middle - reach, middle + reach


def oracle(successes: list[Success], n_eligible: int) -> tuple[float, float, float]:
    """Sum over strata of (share with such a success) times (share valid of its labels)."""
    value, below, above = 0.0, 0.0, 0.0
    for refuted in (False, True):
        stratum = [each for each in successes if each.refuted is refuted]
        labels = [each.label for each in stratum if each.label is not None]
        if not labels:  # what a rule refuted is invalid until somebody says otherwise
            assert refuted or not stratum
            continue
        p, p_low, p_high = wilson(len(stratum), n_eligible)
        v, v_low, v_high = wilson(sum(labels), len(labels))
        value += p * v
        below = hypot(below, (p - p_low) * v, (v - v_low) * p)
        above = hypot(above, (p_high - p) * v, (v_high - v) * p)
    return value, max(0.0, value - below), min(1.0, value + above)


def filled(successes: list[Success], valid: bool) -> list[Success]:
    """What people were to look at and said nothing of, as if all were valid or none."""
    return [
        each._replace(label=valid)
        if each.sampled and each.label is None and not each.refuted
        else each
        for each in successes
    ]


@pytest.mark.parametrize("seed", range(20))
def test_the_rate_its_ends_and_the_settled_ends_are_the_oracles(
    trial: Callable[..., TrialRow], seed: int
) -> None:
    rng = random.Random(seed)
    unrefuted = [Success(False, False, None) for _ in range(rng.randint(5, 40))]
    for _ in range(rng.randint(10, 40)):
        label = rng.random() < 0.7 if rng.random() < 0.9 else None
        unrefuted.append(Success(False, True, label))
    unrefuted += [Success(False, True, bool(i % 3)) for i in range(10)]
    looked = seed % 2 == 0
    refuted = [
        Success(True, looked and i % 2 == 0, rng.random() < 0.2 if looked and i % 2 == 0 else None)
        for i in range(rng.randint(2, 25))
    ]
    successes, n_held = [*unrefuted, *refuted], rng.randint(0, 120)
    rows = [trial(item_id=f"h{i}") for i in range(n_held)]
    for i, each in enumerate(successes):
        rule = "same_words" if each.refuted else "rule"
        rows.append(
            trial(
                item_id=f"s{i}",
                verdict=Verdict.FLIPPED,
                first_unrefuted_success=None if each.refuted else 1,
                sampled=each.sampled,
                valid=each.label if each.label is not None else False if each.refuted else None,
                validity_reason="review" if each.label is not None else rule,
            )
        )
    found = asr_valid(rows)
    assert found is not None
    assert found.n_labels == sum(each.label is not None for each in successes)
    estimate, n = found.estimate, n_held + len(successes)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(oracle(successes, n))
    _, worst, _ = oracle(filled(successes, False), n)
    *_, best = oracle(filled(successes, True), n)
    assert found.settled_ends == pytest.approx((worst, best))


@pytest.mark.parametrize(("n_valid", "n_invalid", "n_held"), [(3, 2, 45), (1, 0, 9), (0, 4, 6)])
def test_where_people_judged_every_success_the_rate_is_a_plain_share(
    trial: Callable[..., TrialRow], n_valid: int, n_invalid: int, n_held: int
) -> None:
    rows = [trial(item_id=f"h{i}") for i in range(n_held)]
    for i in range(n_valid + n_invalid):
        rows.append(
            trial(
                item_id=f"s{i}",
                verdict=Verdict.FLIPPED,
                first_unrefuted_success=1,
                valid=i < n_valid,
                validity_reason="review",
            )
        )
    found = asr_valid(rows)
    assert found is not None
    estimate = found.estimate
    plain = wilson(n_valid, n_valid + n_invalid + n_held)
    assert (estimate.value, estimate.low, estimate.high) == pytest.approx(plain, abs=1e-9)
