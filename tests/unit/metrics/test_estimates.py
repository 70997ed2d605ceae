"""Intervals of shares."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.metrics import rate, wilson
from medstress.metrics.estimates import unknown

Z = NormalDist().inv_cdf(0.975)


def closed_form(k: int, n: int) -> tuple[float, float]:
    p, z2 = k / n, Z * Z
    centre = p + z2 / (2 * n)
    half = Z * sqrt(p * (1 - p) / n + z2 / (4 * n * n))
    return (centre - half) / (1 + z2 / n), (centre + half) / (1 + z2 / n)


@given(data=st.data(), n=st.integers(1, 500))
def test_wilson_agrees_with_its_closed_form(data: st.DataObject, n: int) -> None:
    k = data.draw(st.integers(0, n))
    found = wilson(k, n)
    assert (found.low, found.high) == pytest.approx(closed_form(k, n), abs=1e-12)
    assert found.value == k / n
    assert found.n == n


def test_wilson_of_37_in_82_has_the_published_ends() -> None:
    found = wilson(37, 82)
    assert found.low == pytest.approx(0.348, abs=5e-4)
    assert found.high == pytest.approx(0.559, abs=5e-4)


def test_wilson_reaches_exactly_0_and_1_at_the_edges() -> None:
    assert wilson(0, 7).low == 0
    assert wilson(7, 7).high == 1
    assert wilson(0, 7).high == pytest.approx(Z * Z / (7 + Z * Z))


def test_an_estimate_of_nothing_is_null_but_says_its_method() -> None:
    assert wilson(0, 0).as_json() == {
        "value": None,
        "n": 0,
        "low": None,
        "high": None,
        "method": "Wilson 95 %",
    }
    assert rate([]).value is None
    assert unknown("not computed").as_json()["method"] == "not computed"


def test_estimates_are_not_rounded() -> None:
    assert wilson(1, 3).as_json()["value"] == 1 / 3


def test_items_that_occur_once_get_wilson_and_the_method_says_why() -> None:
    found = rate([("a", True), ("b", False), ("c", False)])
    assert (found.low, found.high) == (wilson(1, 3).low, wilson(1, 3).high)
    assert found.method == "Wilson 95 % (each item occurs once)"


def test_items_that_occur_again_get_a_bootstrap_over_items() -> None:
    observations = [(str(i), i % 3 == 0) for i in range(30) for _ in range(2)]
    found = rate(observations)
    assert found.n == 60
    assert found.value == pytest.approx(1 / 3)
    assert found.method == "cluster bootstrap over 30 items, 2000 resamples, percentile 95 %"


def test_repeating_every_observation_does_not_narrow_the_interval() -> None:
    once = [(str(i), i % 3 == 0) for i in range(60)]
    single, tenfold = rate(once), rate(once * 10)
    assert single.low is not None
    assert single.high is not None
    assert tenfold.low == pytest.approx(single.low, abs=0.03)
    assert tenfold.high == pytest.approx(single.high, abs=0.03)


@pytest.mark.parametrize("hit", [False, True])
def test_at_the_edges_the_interval_is_wilson_over_distinct_items(hit: bool) -> None:
    found = rate([(item, hit) for item in "abcde" for _ in range(3)])
    expected = wilson(5 if hit else 0, 5)
    assert found.n == 15
    assert (found.low, found.high) == (expected.low, expected.high)
    assert found.method == "Wilson 95 % over 5 items (their bootstrap interval has no width)"


def test_a_single_item_with_a_share_between_gets_the_wilson_ends_around_it() -> None:
    found = rate([("a", True), ("a", False)])
    assert (found.value, found.low, found.high) == (0.5, wilson(0, 1).low, wilson(1, 1).high)


@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), min_size=1, max_size=20))
def test_the_value_lies_strictly_inside_an_interval_of_some_width(
    observations: list[tuple[str, bool]],
) -> None:
    found = rate(observations)
    assert found.value is not None
    assert found.low is not None
    assert found.high is not None
    assert 0 <= found.low <= found.value <= found.high <= 1
    assert found.low < found.high


@given(st.permutations([(str(i % 7), i % 3 == 0) for i in range(15)]))
def test_the_interval_does_not_depend_on_the_order_of_trials(
    observations: list[tuple[str, bool]],
) -> None:
    assert rate(observations) == rate(sorted(observations))
