"""Adjusted p-values, against statsmodels and scipy."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import false_discovery_control
from statsmodels.stats.multitest import multipletests

from medstress.metrics.old_stats.multiplicity import benjamini_hochberg, holm


@pytest.fixture(autouse=True, scope="module")
def no_collection() -> Iterator[None]:
    """statsmodels collects garbage at every call: a third of a second after many tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gc.collect", lambda: 0)
        yield


FAMILIES = st.lists(st.floats(0, 1), min_size=1, max_size=30)


@given(FAMILIES)
def test_holm_is_that_of_statsmodels(p_values: list[float]) -> None:
    expected = multipletests(p_values, method="holm")[1]
    assert holm(p_values) == pytest.approx(list(expected), abs=1e-12)


@given(FAMILIES)
def test_benjamini_hochberg_is_that_of_statsmodels_and_scipy(p_values: list[float]) -> None:
    found = benjamini_hochberg(p_values)
    assert found == pytest.approx(list(multipletests(p_values, method="fdr_bh")[1]), abs=1e-12)
    assert found == pytest.approx(list(false_discovery_control(p_values)), abs=1e-12)


@given(FAMILIES)
def test_holm_is_never_below_benjamini_hochberg_nor_above_bonferroni(
    p_values: list[float],
) -> None:
    for p, least, found in zip(p_values, benjamini_hochberg(p_values), holm(p_values), strict=True):
        assert least - 1e-12 <= found <= min(1, len(p_values) * p) + 1e-12


def test_ties_and_an_empty_family() -> None:
    assert holm([]) == benjamini_hochberg([]) == []
    assert holm([0.02, 0.02, 0.02]) == pytest.approx([0.06] * 3)


@pytest.mark.parametrize("adjust", [holm, benjamini_hochberg])
@pytest.mark.parametrize("p", [-0.1, 1.1, float("nan")])
def test_what_is_no_p_value_is_refused(adjust, p: float) -> None:
    with pytest.raises(ValueError):
        adjust([0.5, p])
