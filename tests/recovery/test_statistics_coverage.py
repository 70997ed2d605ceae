"""Intervals and tests against simulations of known truth."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.metrics import gini_simpson, mcnemar, name_diversity, rate

RUNS = 300
"""Simulated runs a case: a coverage of .95 has a standard error of .013."""


def test_the_cluster_bootstrap_covers_the_truth_where_seeds_of_an_item_agree() -> None:
    """Nominal 95 %; asked for: at least 90 %, which an interval over trials misses by far."""
    rng = np.random.default_rng(1)
    covered = naive = 0
    for _ in range(RUNS):
        by_item = rng.beta(0.6, 1.4, size=50)  # mean .3, items differ strongly
        flips = rng.random((50, 5)) < by_item[:, None]
        found = rate((str(i), bool(flip)) for i, row in enumerate(flips) for flip in row)
        apart = rate((str(j), bool(flip)) for j, flip in enumerate(flips.flat))
        covered += (found.low or 0) <= 0.3 <= (found.high or 0)
        naive += (apart.low or 0) <= 0.3 <= (apart.high or 0)
    assert 0.90 <= covered / RUNS <= 0.99
    assert naive / RUNS < 0.85


@pytest.mark.parametrize("share", [0.02, 0.5])
def test_wilson_covers_the_truth_where_items_occur_once(share: float) -> None:
    """Nominal 95 %, within .03 from below; discreteness makes it conservative at .02."""
    rng = np.random.default_rng(2)
    hits = rng.random((RUNS, 80)) < share
    found = [rate((str(i), bool(hit)) for i, hit in enumerate(row)) for row in hits]
    covered = sum((e.low or 0) <= share <= (e.high or 0) for e in found)
    assert covered / RUNS >= 0.92


@pytest.mark.parametrize(
    ("shares", "n"),
    [
        (np.full(20, 1 / 20), 15),
        (1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum(), 40),
        (np.array([0.7, 0.3]), 30),
    ],
    ids=["20 names alike", "50 names by Zipf", "2 names"],
)
def test_the_diversity_interval_covers_the_index_of_the_population(
    shares: np.ndarray, n: int
) -> None:
    """Nominal 95 %; asked for: at least 90 %, where unshifted quantiles fall to 30 %."""
    rng = np.random.default_rng(3)
    truth = 1 - float((shares**2).sum())
    covered = 0
    values = []
    for _ in range(RUNS):
        names = rng.choice(len(shares), size=n, p=shares)
        found = name_diversity(((str(i), str(j)) for i, j in enumerate(names)), unbiased=True)
        covered += (found.low or 0) <= truth <= (found.high or 0)
        values.append(found.value)
    assert covered / RUNS >= 0.90
    assert np.mean(np.array(values, dtype=float)) == pytest.approx(truth, abs=0.01)


def test_the_unbiased_index_is_right_on_average_and_the_plain_one_is_low() -> None:
    """2,000 draws of 5 of 10 names: standard error of the mean below .004."""
    rng = np.random.default_rng(4)
    counts = rng.multinomial(5, np.full(10, 0.1), size=2_000)
    assert gini_simpson(counts, unbiased=True).mean() == pytest.approx(0.9, abs=0.012)
    assert gini_simpson(counts).mean() == pytest.approx(0.9 * 4 / 5, abs=0.012)


def test_mcnemar_rejects_equal_arms_no_more_often_than_its_level() -> None:
    """The exact test is conservative: at most .05, plus three standard errors of 2,000 runs."""
    rng = np.random.default_rng(5)
    arms = rng.random((2_000, 60, 2)) < 0.4
    ps = [mcnemar(map(tuple, run.tolist())).p for run in arms]
    assert np.mean(np.array(ps, dtype=float) <= 0.05) <= 0.05 + 0.015
