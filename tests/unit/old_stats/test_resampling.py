"""One resampler: the same seed and number of draws for all, and draws that are what they claim."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom

from medstress.metrics.diversity import name_diversity
from medstress.metrics.item_means import item_mean
from medstress.metrics.old_stats.resampling import (
    RESAMPLES,
    item_weights,
    percentiles,
    random_stream,
    ratio,
    resample,
    resampled_ratio,
    resampled_sums,
)
from medstress.metrics.sentences.correlations import correlation
from medstress.metrics.sentences.entity_scores import measures
from medstress.metrics.sentences.training_seeds import Measured, over_seeds


def test_every_interval_has_the_same_seed_and_2000_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    item_weights.cache_clear()
    seeds: list[Any] = []
    real = np.random.default_rng

    def noted(seed: Any) -> Any:
        seeds.append(seed)
        return real(seed)

    monkeypatch.setattr(np.random, "default_rng", noted)
    xs = np.linspace(0, 1, 12)
    found = [
        item_mean(xs, 0.0),
        item_mean(xs, 0.0, np.arange(12) // 2),
        correlation(xs, xs[None] ** 3, "pearson"),
        measures(np.stack([np.round(xs), np.ones(12), np.ones(12)], axis=1))["f1"],
        ratio(xs, np.ones(12), "things"),
        name_diversity([(str(i), "abc"[i % 3]) for i in range(12)], unbiased=True),
    ]
    assert set(map(str, seeds)) == {"20250101"}
    assert all("2000 resamples" in each.method for each in found)
    item_weights.cache_clear()


@pytest.mark.parametrize(("m", "k"), [(20, 5), (60, 57), (400, 130)])
def test_resampled_shares_are_binomial(m: int, k: int) -> None:
    """k of m hits: a resample's hits are Binomial(m, k / m), by item and by kind."""
    hits = np.arange(m) < k
    kinds, drawn = resample(Counter(hits.tolist()))
    exact = binom(m, k / m)
    for counts in (resampled_sums(hits.astype(float)), drawn @ np.array(kinds)):
        assert counts.shape == (RESAMPLES,)
        values = np.arange(m + 1)
        observed = np.searchsorted(np.sort(counts), values, side="right") / RESAMPLES
        # Kolmogorov's distance is above this in 1 of 1,000 samples.
        assert np.abs(observed - exact.cdf(values)).max() < 1.95 / np.sqrt(RESAMPLES)
        for end, level in zip(percentiles(counts), (0.025, 0.975), strict=True):
            # What 2,000 draws may miss a level by: 4 standard errors.
            error = 4 * np.sqrt(level * (1 - level) / RESAMPLES)
            assert exact.ppf(level - error) <= end <= exact.ppf(level + error)


def test_intervals_of_a_mean_cover_it() -> None:
    rng = np.random.default_rng(7)
    n, m = 600, 40
    covered = 0
    for _ in range(n):
        values = rng.normal(size=m)
        low, high = percentiles(resampled_ratio(values, np.ones(m)))
        covered += low <= 0 <= high
    # Percentile intervals of 40 values fall a little short of 95 %; 4 standard errors are .04.
    assert 0.90 < covered / n < 0.97


def test_no_count_of_a_resample_is_lost_in_a_byte() -> None:
    for m in (1, 2, 300):
        assert (item_weights(m).sum(axis=1) == m).all()


def test_training_seeds_are_drawn_independently_of_the_items() -> None:
    """The same random numbers for both would make a mean over seeds depend on the items drawn."""
    items = item_weights(6)[:, 0].astype(float)
    apart = [Measured(value=x, drawn=np.full(RESAMPLES, x)) for x in (0.0, 0.5, 1.0)]
    seeds = over_seeds(apart).drawn[:RESAMPLES]
    order = [np.argsort(np.argsort(each)) for each in (items, seeds)]
    assert abs(np.corrcoef(*order)[0, 1]) < 4 / np.sqrt(RESAMPLES)
    assert random_stream().random() != random_stream(1).random()
