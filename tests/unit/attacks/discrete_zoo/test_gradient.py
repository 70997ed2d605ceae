"""The mathematics of DiscreteZOO against closed forms."""

from __future__ import annotations

from math import log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.attacks.discrete_zoo import (
    estimate_gradient,
    hard_log_probs,
    margin_score,
    most_similar,
)

LOG_PROBS = [log(0.6), log(0.3), log(0.1)]


def points(n, d, seed=0):
    """An origin, and n points in isotropic directions at differing distances from it."""
    rng = np.random.default_rng(seed)
    directions = rng.standard_normal((n, d))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    origin = rng.standard_normal(d)
    return origin, origin + directions * rng.uniform(0.2, 2, (n, 1)), rng.standard_normal(d)


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def test_the_score_is_minus_the_margin_of_the_key_over_the_best_other_option():
    assert margin_score(LOG_PROBS, 0) == pytest.approx(-log(2))
    assert margin_score(LOG_PROBS, 0, kappa=0.5) == pytest.approx(-log(2) - 0.5)


@pytest.mark.parametrize(("key", "kappa", "score"), [(1, 0.0, 0.0), (1, 1.0, log(2) - 1)])
def test_the_score_stops_growing_kappa_beyond_the_border(key, kappa, score):
    assert margin_score(LOG_PROBS, key, kappa=kappa) == pytest.approx(score)


def test_a_targeted_score_is_minus_what_the_option_aimed_at_lacks():
    assert margin_score(LOG_PROBS, 0, sought=2) == pytest.approx(-log(6))
    assert margin_score(LOG_PROBS, 1, sought=0) == 0


def test_hard_answers_give_two_scores_and_nothing_between():
    scores = [margin_score(hard_log_probs(4, chosen), 2) for chosen in range(4)]
    assert scores == pytest.approx([0, 0, log(1e-8), 0], abs=1e-7)
    assert log(1e-8) == pytest.approx(-18.42, abs=0.01)


def test_equation_5_by_hand():
    origin, at = np.array([1.0, 0.0]), np.array([[1.0, 2.0], [4.0, 4.0]])
    changes = np.array([6.0, 10.0])
    # Displacements (0, 2) and (3, 4): 6/2 * (0, 1) + 10/5 * (.6, .8).
    np.testing.assert_allclose(estimate_gradient(origin, at, changes), [1.2, 4.6])
    np.testing.assert_allclose(estimate_gradient(origin, at, changes, aggregate="mean"), [0.6, 2.3])


@pytest.mark.parametrize(
    ("displacements", "differences", "expected"),
    [(True, False, [6, 14]), (False, True, [6, 14]), (False, False, [30, 52])],
)
def test_each_normalisation_divides_by_the_distance(displacements, differences, expected):
    found = estimate_gradient(
        np.array([1.0, 0.0]),
        np.array([[1.0, 2.0], [4.0, 4.0]]),
        np.array([6.0, 10.0]),
        normalise_displacements=displacements,
        normalise_differences=differences,
    )
    np.testing.assert_allclose(found, expected)


@given(st.integers(1, 6), st.integers(1, 5), st.integers(0, 99), st.booleans(), st.booleans())
def test_no_change_of_the_score_gives_exactly_zero(n, d, seed, displacements, differences):
    origin, at, _ = points(n, d, seed)
    g = estimate_gradient(
        origin,
        at,
        np.zeros(n),
        normalise_displacements=displacements,
        normalise_differences=differences,
    )
    assert not g.any()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=30), st.integers(0, 35))
def test_the_most_similar_come_in_descending_order(values, k):
    similarities = np.array(values, dtype=np.float32)
    among = np.arange(0, len(values), 2)
    found = most_similar(similarities, among, k)
    expected = sorted(similarities[among], reverse=True)[:k]
    assert similarities[found].tolist() == expected
    assert len(set(found.tolist())) == len(found)
    assert set(found) <= set(among)


def test_the_expected_cosine_is_that_of_the_closed_form():
    """1/sqrt(1 + (d - 1)/M): .71 at M = d; mean of 200 estimates, standard error below .01."""
    d = 32
    for m in (d, 5 * d):
        found = []
        for seed in range(200):
            origin, at, w = points(m, d, seed)
            found.append(cosine(estimate_gradient(origin, at, at @ w - origin @ w), w))
        assert np.mean(found) == pytest.approx(1 / sqrt(1 + (d - 1) / m), abs=0.02)
