"""Correlations against scipy's, resampled and swapped by clusters."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import pearsonr, spearmanr

from medstress.analyses.scores import Sample
from medstress.stats.resampling import unit_weights
from samples import of_pairs

NAMES = ("pearson", "spearman")

SCIPY = {"pearson": pearsonr, "spearman": spearmanr}
GOLD = np.array([0.0, 1.0, 1.0, 2.0, 3.0, 3.5, 4.0, 2.5])
SCORES = np.array(
    [[0.1, 0.3, 0.2, 0.6, 0.7, 0.6, 0.9, 0.5], [0.0, 0.2, 0.3, 0.5, 0.6, 0.9, 0.8, 0.1]]
)
OTHERS = np.array(
    [[0.9, 0.3, 0.3, 0.1, 0.2, 0.6, 0.4, 0.5], [0.5, 0.5, 0.3, 0.5, 0.1, 0.9, 0.2, 0.1]]
)
PLACES = np.array([0, 0, 1, 2, 3, 3, 4, 5])


def sample(scores: np.ndarray = SCORES, gold: np.ndarray = GOLD) -> Sample:
    return of_pairs(gold, scores, PLACES[: len(gold)])


def scipy_mean(name: str, gold: np.ndarray, scores: np.ndarray) -> float:
    return float(np.mean([SCIPY[name](gold, row).statistic for row in scores]))


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=3, max_size=8))
def test_ties_have_mean_ranks(rows):
    gold, scores = np.array(rows, dtype=float).T
    value = sample(scores[None], gold).value("spearman")
    if len({*gold}) == 1 or len({*scores}) == 1:
        assert value is None
    else:
        assert value == pytest.approx(scipy_mean("spearman", gold, scores[None]), abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_resamples_draw_whole_clusters(name):
    draws = sample().draws[name]
    weights = unit_weights(6)[:, PLACES]
    for number in (0, 7, 1999):
        repeated = np.repeat(np.arange(8), weights[number])
        expected = scipy_mean(name, GOLD[repeated], SCORES[:, repeated])
        assert draws[number] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("name", NAMES)
def test_swaps_exchange_whole_clusters(name):
    swaps = np.random.default_rng(0).integers(0, 2, size=(20, 6)).astype(bool)
    differences = sample().swapped(sample(OTHERS), swaps)[name]
    ours, others = ((x - x.mean(1)[:, None]) / x.std(1)[:, None] for x in (SCORES, OTHERS))
    for swap, difference in zip(swaps[:, PLACES], differences, strict=True):
        one, other = np.where(swap, others, ours), np.where(swap, ours, others)
        expected = scipy_mean(name, GOLD, one) - scipy_mean(name, GOLD, other)
        assert difference == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize(
    ("similarity", "expected"),
    [
        (lambda gold: 2 * gold - 7, (1, 1)),
        (lambda gold: 1e-12 * gold, (1, 1)),
        (lambda gold: -np.exp(gold), (None, -1)),
        (lambda gold: np.abs(gold - 2), (None, None)),
        (lambda gold: 0.9 + 1e-8 * gold, None),
        (lambda gold: 0 * gold, None),
    ],
)
def test_planted_similarities_have_the_correlation_that_they_were_made_with(similarity, expected):
    scores = similarity(GOLD)
    for name, value in zip(NAMES, expected or (None, None), strict=True):
        measured = sample(scores[None]).value(name)
        if expected is None:
            assert measured is None
        elif value is None:
            assert measured == pytest.approx(scipy_mean(name, GOLD, scores[None]))
        else:
            assert measured == pytest.approx(value)
