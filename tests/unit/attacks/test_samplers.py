from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator, Philox

from medstress.attacks.samplers import draw, log_weights

STOCHASTIC = [("random", None), ("pdws", -20.0), ("pdws", 0.0), ("pdws", 3.0)]
EVERY = [*STOCHASTIC, ("nearest", None), ("farthest", None)]

distances = st.lists(st.floats(0, 2), min_size=1, max_size=30).map(np.array)


def rng(seed=0):
    return Generator(Philox(key=seed))


@pytest.mark.parametrize(("sampler", "n"), EVERY)
@given(h=distances, seed=st.integers(0, 2**32), k=st.integers(1, 40), data=st.data())
def test_draws_are_distinct_allowed_and_as_many_as_there_are(sampler, n, h, seed, k, data):
    kept = data.draw(st.lists(st.sampled_from(range(len(h))), unique=True, min_size=1))
    allowed = np.array(sorted(kept))
    drawn = draw(sampler, h, allowed, rng(seed), k, n).tolist()
    assert len(drawn) == len(set(drawn)) == min(k, len(allowed))
    assert set(drawn) <= set(allowed.tolist())


@pytest.mark.parametrize(("sampler", "n"), EVERY)
@given(h=distances, seed=st.integers(0, 2**32), k=st.integers(1, 40))
def test_a_smaller_k_gives_a_prefix(sampler, n, h, seed, k):
    allowed = np.arange(len(h))
    longer = draw(sampler, h, allowed, rng(seed), k + 1, n)
    assert draw(sampler, h, allowed, rng(seed), k, n).tolist() == longer[:k].tolist()


@given(h=distances, seed=st.integers(0, 2**32), k=st.integers(1, 40))
def test_random_is_pdws_with_exponent_0(h, seed, k):
    allowed = np.arange(len(h))
    uniform = draw("random", h, allowed, rng(seed), k, None)
    assert uniform.tolist() == draw("pdws", h, allowed, rng(seed), k, 0.0).tolist()


@given(h=distances, seed=st.integers(0, 2**32))
def test_names_that_are_kept_keep_their_order_where_others_are_excluded(h, seed):
    everything = draw("pdws", h, np.arange(len(h)), rng(seed), len(h), -3.0)
    allowed = np.arange(0, len(h), 2)
    fewer = draw("pdws", h, allowed, rng(seed), len(h), -3.0)
    assert fewer.tolist() == [i for i in everything.tolist() if i % 2 == 0]


@given(h=distances, n=st.floats(-200, 200))
def test_log_weights_are_finite_and_follow_the_sign_of_n(h, n):
    weights = log_weights(h, n)
    assert np.isfinite(weights).all()
    order = np.argsort(h, kind="stable")
    steps = np.diff(weights[order])
    assert (steps * np.sign(n) >= 0).all()


@given(h=distances)
def test_nearest_and_farthest_sort_and_ties_stand_in_the_order_of_the_names(h):
    allowed, names = np.arange(len(h)), range(len(h))
    near = draw("nearest", h, allowed, rng(), len(h), None).tolist()
    far = draw("farthest", h, allowed, rng(), len(h), None).tolist()
    assert near == sorted(names, key=lambda i: (h[i], i))
    assert far == sorted(names, key=lambda i: (-h[i], i))


def test_a_distance_of_0_is_a_very_small_one():
    weights = log_weights(np.array([0.0, 1e-12, 1.0]), -200.0)
    assert weights[0] == weights[1] == pytest.approx(200 * 12 * np.log(10))
    assert weights[2] == 0
