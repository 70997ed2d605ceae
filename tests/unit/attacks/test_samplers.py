from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.random import Generator, Philox

from medstress.attacks.samplers import SAMPLERS, SUMMARIES, draw, gumbel_top_k, log_weights

H = np.array([0.3, 0.1, 0.4, 0.1, 0.2])
ALL = np.arange(5)
STOCHASTIC = [("random", None), ("pdws", -20.0), ("pdws", 0.0), ("pdws", 3.0)]
EVERY = [*STOCHASTIC, ("nearest", None), ("farthest", None)]

distances = st.lists(st.floats(0, 2), min_size=1, max_size=30).map(np.array)


def rng(seed: int = 0) -> Generator:
    return Generator(Philox(key=seed))


@pytest.mark.parametrize(("sampler", "n"), EVERY)
@given(h=distances, seed=st.integers(0, 2**32), k=st.integers(1, 40), data=st.data())
def test_draws_are_distinct_allowed_and_as_many_as_there_are(
    sampler: str, n: float | None, h: np.ndarray, seed: int, k: int, data: st.DataObject
) -> None:
    kept = data.draw(st.lists(st.sampled_from(range(len(h))), unique=True, min_size=1))
    allowed = np.array(sorted(kept))
    drawn = draw(sampler, h, allowed, rng(seed), k, n).tolist()
    assert len(drawn) == len(set(drawn)) == min(k, len(allowed))
    assert set(drawn) <= set(allowed.tolist())


@pytest.mark.parametrize(("sampler", "n"), EVERY)
@given(h=distances, seed=st.integers(0, 2**32), k=st.integers(1, 40))
def test_a_smaller_k_gives_a_prefix(
    sampler: str, n: float | None, h: np.ndarray, seed: int, k: int
) -> None:
    allowed = np.arange(len(h))
    longer = draw(sampler, h, allowed, rng(seed), k + 1, n)
    assert draw(sampler, h, allowed, rng(seed), k, n).tolist() == longer[:k].tolist()


@given(h=distances, seed=st.integers(0, 2**32), k=st.integers(1, 40))
def test_random_is_pdws_with_exponent_0(h: np.ndarray, seed: int, k: int) -> None:
    allowed = np.arange(len(h))
    uniform = draw("random", h, allowed, rng(seed), k, None)
    assert uniform.tolist() == draw("pdws", h, allowed, rng(seed), k, 0.0).tolist()


@given(h=distances, seed=st.integers(0, 2**32))
def test_names_that_are_kept_keep_their_order_where_others_are_excluded(
    h: np.ndarray, seed: int
) -> None:
    everything = draw("pdws", h, np.arange(len(h)), rng(seed), len(h), -3.0)
    allowed = np.arange(0, len(h), 2)
    fewer = draw("pdws", h, allowed, rng(seed), len(h), -3.0)
    assert fewer.tolist() == [i for i in everything.tolist() if i % 2 == 0]


@given(h=distances, n=st.floats(-200, 200))
def test_log_weights_are_finite_and_follow_the_sign_of_n(h: np.ndarray, n: float) -> None:
    weights = log_weights(h, n)
    assert np.isfinite(weights).all()
    order = np.argsort(h, kind="stable")
    steps = np.diff(weights[order])
    assert (steps * np.sign(n) >= 0).all()


@given(h=distances)
def test_nearest_and_farthest_sort_and_ties_stand_in_the_order_of_the_names(
    h: np.ndarray,
) -> None:
    allowed, names = np.arange(len(h)), range(len(h))
    near = draw("nearest", h, allowed, rng(), len(h), None).tolist()
    far = draw("farthest", h, allowed, rng(), len(h), None).tolist()
    assert near == sorted(names, key=lambda i: (h[i], i))
    assert far == sorted(names, key=lambda i: (-h[i], i))


def test_nearest_and_farthest_on_a_table_with_a_tie() -> None:
    assert draw("nearest", H, ALL, rng(), 5, None).tolist() == [1, 3, 4, 0, 2]
    assert draw("farthest", H, ALL, rng(), 5, None).tolist() == [2, 0, 4, 1, 3]
    assert draw("nearest", H, np.array([0, 2, 3]), rng(), 2, None).tolist() == [3, 0]


def test_the_largest_noisy_weights_are_drawn_in_descending_order() -> None:
    weights, noise = np.array([0.0, 1.0, 2.0, 3.0]), np.array([9.0, 0.0, 0.5, 0.0])
    assert gumbel_top_k(weights, noise, 3).tolist() == [0, 3, 2]
    assert gumbel_top_k(weights, noise, 9).tolist() == [0, 3, 2, 1]


def test_a_distance_of_0_is_a_very_small_one() -> None:
    weights = log_weights(np.array([0.0, 1e-12, 1.0]), -200.0)
    assert weights[0] == weights[1] == pytest.approx(200 * 12 * np.log(10))
    assert weights[2] == 0


def test_every_sampler_has_a_line_for_people() -> None:
    assert SUMMARIES.keys() == SAMPLERS.keys()
