"""Corrections for an imperfect test, against closed forms and simulated coverage."""

from __future__ import annotations

from math import hypot

import numpy as np
import pytest

from medstress.stats.estimates import wilson_ends
from medstress.stats.prevalence import Errors, Screened, corrected_share


def errors(se: int, sp: int, n: int) -> Errors:
    return Errors(n_true=n, n_true_found=se, n_false=n, n_false_found=sp)


def screened(share: float, n: float, known: Errors, *weights: float) -> Screened:
    return Screened(weight=sum(weights) or 1.0, share=share, n=n, errors=known)


def test_the_point_is_rogans_and_gladens_cut_to_shares() -> None:
    known = errors(90, 80, 100)
    for found, truth in ((0.55, 0.5), (0.2, 0.0), (0.1, 0.0), (0.9, 1.0), (0.95, 1.0)):
        estimate = corrected_share([screened(found, 200, known)])
        assert estimate.value == pytest.approx(truth)
        assert estimate.low <= estimate.value <= estimate.high  # type: ignore[operator]


def test_a_test_without_errors_that_is_well_measured_leaves_wilsons_interval() -> None:
    estimate = corrected_share([screened(0.3, 200, errors(10**6, 10**6, 10**6))])
    assert (estimate.low, estimate.high) == pytest.approx(wilson_ends(60, 200), abs=0.004)


def test_strata_are_added_up_by_weight() -> None:
    parts = [
        screened(0.55, 100, errors(90, 80, 100), 0.75),
        screened(0.34, 60, errors(70, 90, 100), 0.25),
    ]
    found = corrected_share(parts)
    assert found.value == pytest.approx(0.75 * 0.5 + 0.25 * 0.4)
    alone = [corrected_share([each]) for each in parts]
    below = [each.value - each.low for each in alone]  # type: ignore[operator]
    assert found.low == pytest.approx(found.value - hypot(*below))  # type: ignore[operator]


@pytest.mark.parametrize(("se", "sp", "informs"), [(9, 1, False), (9, 2, True), (5, 5, False)])
def test_sensitivity_and_specificity_have_to_exceed_one(se: int, sp: int, informs: bool) -> None:
    assert errors(se, sp, 10).informs is informs
    assert not Errors(n_true=10, n_true_found=10, n_false=0, n_false_found=0).informs


@pytest.mark.parametrize(
    ("truth", "se", "sp"), [(0.1, 0.9, 0.9), (0.5, 0.95, 0.7), (0.9, 0.8, 0.9)]
)
def test_the_interval_covers_the_true_share(truth: float, se: float, sp: float) -> None:
    rng, n, m, runs = np.random.default_rng(5), 150, 60, 400
    found = rng.binomial(n, truth * se + (1 - truth) * (1 - sp), runs)
    right = rng.binomial(m, [[se], [sp]], (2, runs))
    covered = 0
    for k, a, b in zip(found, *right, strict=True):
        estimate = corrected_share([screened(k / n, n, errors(int(a), int(b), m))])
        covered += estimate.low <= truth <= estimate.high  # type: ignore[operator]
    assert covered / runs >= 0.93
