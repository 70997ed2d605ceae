"""Intervals and tests against simulations of known truth."""

import numpy as np
import pytest
from scipy.stats import binom

from medstress.analyses.success import both_forms
from medstress.stats.paired import difference, difference_of_few
from medstress.stats.shares import rate

RUNS = 100
"""Simulated runs a case: a coverage of .95 has a standard error of .022."""

Rng = np.random.Generator
Sizes = int | tuple[int, int]


def at_least(coverage, runs=RUNS):
    """The least coverage to see of `runs` where it is `coverage`: less has P < .001."""
    return float(binom.ppf(0.001, runs, coverage) - 0.5) / runs


def sizes_of(sizes, n, rng):
    return np.full(n, sizes) if isinstance(sizes, int) else rng.integers(*sizes, n, endpoint=True)


def answers(counts, *hits):
    """Write out which answers of each unit are hits, kind after kind."""
    taken, kinds = np.zeros_like(counts), []
    number = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
    for some in hits:
        low, high = np.repeat(taken, counts), np.repeat(taken + some, counts)
        kinds.append((number >= low) & (number < high))
        taken = taken + some
    return kinds


def units_of(counts):
    return np.repeat(np.arange(len(counts)), counts)[None]


def share(hits, counts):
    (mask,) = answers(counts, hits)
    return rate(mask, units_of(counts))


@pytest.mark.parametrize("p", [0.02, 0.3])
@pytest.mark.parametrize(("correlation", "sizes"), [(0.1, 5), (0.6, (1, 20))], ids=str)
def test_a_share_of_clustered_answers_covers_the_truth(correlation, sizes, p):
    """METHODS 1.5: coverage .927 or more, tails of .056 or less, of 200 items."""
    rng = np.random.default_rng(29)
    scale = 1 / correlation - 1
    below = above = 0
    for _ in range(RUNS):
        counts = sizes_of(sizes, 200, rng)
        found = share(rng.binomial(counts, rng.beta(p * scale, (1 - p) * scale, 200)), counts)
        below += (found.high or 0) < p
        above += (found.low or 0) > p
    assert 1 - (below + above) / RUNS >= at_least(0.927)
    assert max(below, above) / RUNS <= 1 - at_least(1 - 0.056)


@pytest.mark.parametrize("sizes", [1, (1, 20)], ids=str)
@pytest.mark.parametrize(("first", "second"), [(0.1, 0.1), (0.3, 0.05)], ids=str)
def test_a_paired_difference_covers_the_truth_and_its_test_keeps_its_level(sizes, first, second):
    """METHODS 1.5: coverage .938 or more, tails .044, size .053 and .011; 100 items, ICC .3."""
    rng = np.random.default_rng(31)
    shares = np.array([first, second, 1 - first - second])
    truth, missed, rejected = first - second, np.zeros(2), np.zeros(2)
    for _ in range(RUNS):
        counts = sizes_of(sizes, 100, rng)
        shape = np.maximum(shares * (1 / 0.3 - 1), 1e-9)
        cells = rng.multinomial(counts, rng.dirichlet(shape, 100))
        found = difference(*answers(counts, cells[:, 0], cells[:, 1]), units_of(counts))
        missed += (
            (found.estimate.low or 0) > truth + 1e-12,
            (found.estimate.high or 0) < truth - 1e-12,
        )
        rejected += ((found.p or 0) < 0.05, (found.p or 0) < 0.01)
    assert 1 - missed.sum() / RUNS >= at_least(0.938)
    assert missed.max() / RUNS <= 1 - at_least(1 - 0.044)
    if truth == 0:
        assert rejected[0] / RUNS <= 1 - at_least(1 - 0.053)
        assert rejected[1] / RUNS <= 1 - at_least(1 - 0.011)


@pytest.mark.parametrize(
    "draw",
    [
        lambda rng, n: (rng.beta(2, 2, n), 0.5),
        lambda rng, n: (rng.beta(0.5, 0.1, n), 0.5 / 0.6),
        lambda rng, n: ((rng.random(n) < 0.9).astype(float), 0.9),
    ],
    ids=["bell", "near the ends", "0 or 1"],
)
def test_the_effect_of_a_fuzz_covers_the_truth_with_five_samples(draw):
    """A percentile bootstrap of five samples a side covers .855."""
    rng, n, covered = np.random.default_rng(33), 5, 0
    for _ in range(RUNS):
        (first, mean), second = draw(rng, n), (rng.random(n) < 0.4).astype(float)
        found = difference_of_few(first.tolist(), second.tolist())
        covered += (found.low or 0) <= mean - 0.4 <= (found.high or 0)
        assert (found.high or 0) - (found.low or 0) > 0.1
    assert covered / RUNS >= at_least(0.95)


@pytest.mark.parametrize(
    ("shares", "n", "coverage"),
    [
        (np.full(20, 1 / 20), 15, 0.99),
        (1 / np.arange(1, 51) / (1 / np.arange(1, 51)).sum(), 40, 0.93),
        (np.array([0.7, 0.3]), 30, 0.887),
    ],
    ids=["20 names alike", "50 names by Zipf", "2 names"],
)
def test_the_diversity_interval_covers_the_index_of_the_population(shares, n, coverage):
    """Nominal 95 %; as simulated with other seeds, 3,000 samples each. Unshifted quantiles fall to
    30 %."""
    rng = np.random.default_rng(3)
    truth = 1 - float((shares**2).sum())
    covered = 0
    values = []
    for _ in range(RUNS):
        names = rng.choice(len(shares), size=n, p=shares)
        _, found = both_forms([{str(i): [str(j)] for i, j in enumerate(names)}])
        covered += (found.low or 0) <= truth <= (found.high or 0)
        values.append(found.value)
    assert covered / RUNS >= at_least(coverage)
    error = np.std(np.array(values, dtype=float)) / np.sqrt(RUNS)
    assert np.mean(np.array(values, dtype=float)) == pytest.approx(truth, abs=3 * error)
