"""Training seeds are drawn with the items: intervals know that another training would differ."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import t as student

from medstress.metrics.sentences.entity_scores import measured
from medstress.metrics.sentences.recovery import Four, recovery
from medstress.metrics.sentences.training_seeds import Measured, estimated, minus, over_seeds


def constant(*values: float) -> list[Measured]:
    """Scores of trainings whose items all agree."""
    return [Measured(value=value, drawn=np.full(2_000, value)) for value in values]


def test_without_noise_of_items_the_interval_is_students() -> None:
    values = [0.901, 0.85, 0.85]
    found = estimated(over_seeds(constant(*values)), 1, "")
    half = student.ppf(0.975, 2) * np.std(values, ddof=1) / np.sqrt(3)
    assert found.value == pytest.approx(np.mean(values))
    assert found.high - found.value == pytest.approx(half, rel=0.06)
    assert found.value - found.low == pytest.approx(half, rel=0.06)
    # The seed of the earlier edition, .901 [.879, .926], was told without the others.
    assert found.low < 0.85 < 0.901 < found.high


def test_what_makes_a_seed_good_on_both_scores_cancels_in_their_difference() -> None:
    first, second = constant(0.9, 0.8, 0.7), constant(0.8, 0.7, 0.6)
    gap = minus(over_seeds(first), over_seeds(second))
    assert np.ptp(gap.drawn) < 1e-9
    assert gap.value == pytest.approx(0.1)


def test_below_three_seeds_nothing_is_drawn() -> None:
    assert np.ptp(over_seeds(constant(0.2, 0.8)).drawn) == 0
    assert over_seeds([*constant(0.2, 0.8), Measured(value=None, drawn=np.zeros(0))]).value is None


@pytest.mark.release
@pytest.mark.parametrize("spread", [0.0, 0.02, 0.08])
def test_the_interval_covers_the_mean_of_all_trainings(spread: float) -> None:
    """Planted: each training finds an entity with a chance of its own, in 60 documents of 5."""
    rng, covered, narrow, n = np.random.default_rng(3), 0, 0, 400
    for _ in range(n):
        chances = 0.7 + spread * rng.standard_normal(3)
        document = 0.05 * rng.standard_normal(60)  # hard for every training alike
        scores = []
        for chance in chances:
            right = rng.binomial(5, np.clip(chance + document, 0, 1))
            sums = np.stack([right, np.full(60, 5), np.full(60, 5)], axis=1).astype(float)
            value, drawn = measured(sums, "precision")
            scores.append(Measured(value=value, drawn=drawn))
        found = estimated(over_seeds(scores), 60, "")
        covered += found.low <= 0.7 <= found.high
        items = np.mean([score.drawn for score in scores], axis=0)
        low, high = np.quantile(items, [0.025, 0.975])
        narrow += low <= 0.7 <= high
    assert covered / n > 0.95 - 3 * np.sqrt(0.95 * 0.05 / n)
    if spread > 0.05:  # what the earlier edition told
        assert narrow / n < 0.7


def test_recovery_says_how_many_seeds_it_stands_on() -> None:
    three = Four(
        clean=over_seeds(constant(0.9, 0.88, 0.92)),
        attacked=over_seeds(constant(0.5, 0.48, 0.52)),
        trained_clean=over_seeds(constant(0.9, 0.9, 0.9)),
        trained_attacked=over_seeds(constant(0.86, 0.7, 0.82)),
    )
    found = recovery(three, 40, 3)
    assert found["n_seeds"] == 3
    assert "3 training seeds" in found["gain"]["method"]
    assert found["gain"]["low"] < 0.2 < 0.36 < found["gain"]["high"]
    assert "nothing of other seeds" in recovery(three, 40, 1)["gain"]["method"]
