"""Scores over training seeds against Student's interval, and recovery against numbers by hand."""

import numpy as np
import pytest
from scipy.stats import t as student

from medstress.stats.resampling import resampled_ratio
from medstress.stats.trainings import Measured, estimated, least_gain, minus, over_seeds, recovery


def constant(*values):
    """Scores of trainings whose items all agree."""
    return [Measured(value=value, drawn=np.full(2_000, value)) for value in values]


def scored(right, asked=10):
    """A share over clusters."""
    hits, counts = np.array(right, dtype=float), np.full(len(right), float(asked))
    return Measured(value=hits.sum() / counts.sum(), drawn=resampled_ratio(hits, counts))


def test_without_noise_of_items_the_interval_is_students():
    values = [0.901, 0.85, 0.85]
    found = estimated(over_seeds(constant(*values)), 1, "")
    half = student.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert found.value == pytest.approx(np.mean(values))
    assert found.high - found.value == pytest.approx(half, rel=0.06)
    assert found.value - found.low == pytest.approx(half, rel=0.06)


def test_what_makes_a_seed_good_on_both_scores_cancels_in_their_difference():
    first, second = constant(0.9, 0.8, 0.7), constant(0.8, 0.7, 0.6)
    gap = minus(over_seeds(first), over_seeds(second))
    assert np.ptp(gap.drawn) < 1e-9
    assert gap.value == pytest.approx(0.1)


def test_too_few_clusters_leave_a_value_without_an_interval():
    bare = [Measured(value=x, drawn=np.zeros(0)) for x in (0.2, 0.4, 0.6)]
    found = estimated(over_seeds(bare), 5, "too few documents")
    assert found.value == pytest.approx(0.4)
    assert (found.low, found.high, found.method) == (None, None, "too few documents")


def test_the_interval_covers_the_mean_of_all_trainings():
    """Planted: each training finds an entity with a chance of its own, in 60 documents of 5."""
    rng, covered, n = np.random.default_rng(3), 0, 150
    for _ in range(n):
        document = 0.05 * rng.standard_normal(60)  # hard for every training alike
        scores = []
        for chance in 0.7 + 0.08 * rng.standard_normal(3):
            right = rng.binomial(5, np.clip(chance + document, 0, 1))
            scores.append(scored(right.tolist(), 5))
        found = estimated(over_seeds(scores), 60, "")
        assert found.high is not None
        covered += found.low <= 0.7 <= found.high
    assert covered / n > 0.95 - 3 * np.sqrt(0.95 * 0.05 / n)


def test_the_share_is_the_gain_over_the_loss_and_clusters_are_drawn_together():
    clean = [9, 8, 10, 9, 7, 9]
    losses = (0, 4, 1, 2)
    found = recovery(*(scored([n - loss for n in clean]) for loss in losses), 6, "")
    assert found.clean_loss.value == pytest.approx(0.1)
    assert found.gain.value == pytest.approx(0.2)
    assert found.recovered.value == pytest.approx(0.5)
    # The same difference in every cluster has no width, which is no interval of 95 %.
    for share in (found.clean_loss, found.gain, found.recovered):
        assert (share.low, share.high) == (None, None)
        assert "all resamples agree" in share.method
    assert found.clean.low < 52 / 60


def test_no_share_is_given_of_a_loss_that_is_not_clear_of_zero():
    clean = [9, 8, 10, 9, 7, 9]
    same = scored(clean)
    found = recovery(same, scored([10, 7, 10, 9, 6, 9]), same, same, 6, "")
    assert found.recovered.value is None
    assert "not clear of zero" in found.recovered.method
    assert found.gain.value is not None


def test_a_planted_gain_as_large_as_five_seeds_can_show_is_shown_as_often():
    """Gains of seeds differ by .02; 100 documents differ too, alike for every seed."""
    rng, n, n_shown, n_seeds, shown = np.random.default_rng(5), 150, 0, 5, 0.8
    gain = least_gain(5, 0.02, 0.005)
    for _ in range(n):
        documents = rng.normal(0, 0.05, 100)
        weights = rng.multinomial(100, np.full(100, 0.01), size=500) / 100
        seeds = gain + rng.normal(0, 0.02, n_seeds)
        gains = [Measured(value=x + documents.mean(), drawn=x + weights @ documents) for x in seeds]
        low = estimated(over_seeds(gains), 100, "").low
        n_shown += low is not None and low > 0
    assert n_shown / n == pytest.approx(shown, abs=3 * np.sqrt(shown * (1 - shown) / n) + 0.02)
