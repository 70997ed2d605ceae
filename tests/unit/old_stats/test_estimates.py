"""Intervals of shares."""

from __future__ import annotations

from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from medstress.metrics import rate, wilson
from medstress.metrics.old_stats.estimates import unknown

Z = NormalDist().inv_cdf(0.975)


@given(data=st.data(), n=st.integers(1, 500))
def test_wilson_agrees_with_scipy(data: st.DataObject, n: int) -> None:
    k = data.draw(st.integers(0, n))
    found = wilson(k, n)
    ends = binomtest(k, n).proportion_ci(confidence_level=0.95, method="wilson")
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), abs=1e-12)
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
