"""Tango's interval and test of a paired difference, against an implementation by brute force."""

from __future__ import annotations

from math import log, sqrt

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import norm
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from medstress.metrics import paired_difference
from medstress.metrics.old_stats.paired import mcnemar_exact, unite

Z = norm.ppf(0.975)


def once(b: int, c: int, n: int) -> tuple[list[int], list[int], list[int]]:
    """n items that occur once, b and c of them discordant."""
    return [1] * b + [0] * (n - b), [0] * (n - c) + [1] * c, [1] * n


def statistic(x: float, b: int, c: int, n: int) -> float:
    """The score statistic of "the difference is x", its likelihood maximised numerically."""

    def minus_log_likelihood(q: float) -> float:
        cells = ((b, q + x), (c, q), (n - b - c, 1 - 2 * q - x))
        return -sum(k * log(max(p, 1e-300)) for k, p in cells if k)

    low, high = max(0.0, -x), (1 - x) / 2
    options = {"xatol": 1e-12}
    q = minimize_scalar(minus_log_likelihood, bounds=(low, high), method="bounded", options=options)
    return float((b - c - n * x) / sqrt(max(n * (2 * q.x + x - x * x), 1e-12)))


@pytest.mark.parametrize(("b", "c", "n"), [(12, 2, 50), (1, 0, 44), (7, 7, 30), (40, 3, 45)])
def test_the_interval_inverts_the_score_statistic(b: int, c: int, n: int) -> None:
    found = paired_difference(*once(b, c, n))
    d = (b - c) / n
    low = brentq(lambda x: statistic(x, b, c, n) - Z, -0.9999, d)
    high = brentq(lambda x: statistic(x, b, c, n) + Z, d, 0.9999)
    assert found.estimate.value == d
    assert (found.estimate.low, found.estimate.high) == pytest.approx((low, high), abs=2e-4)
    assert found.p == pytest.approx(2 * norm.sf(abs(b - c) / sqrt(b + c)))
    assert (found.only_first, found.only_second) == (b, c)


@pytest.mark.parametrize("level", [0.8, 0.9, 0.99])
def test_other_levels_invert_the_same_statistic(level: float) -> None:
    found = paired_difference(*once(12, 2, 50), level=level)
    z = norm.ppf((1 + level) / 2)
    low = brentq(lambda x: statistic(x, 12, 2, 50) - z, -0.9999, 0.2)
    high = brentq(lambda x: statistic(x, 12, 2, 50) + z, 0.2, 0.9999)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((low, high), abs=2e-4)
    assert f"{100 * level:g} %" in found.estimate.method
    assert found.p == paired_difference(*once(12, 2, 50)).p  # the level is the interval's alone


@pytest.mark.parametrize("level", [0, 1, 95])
def test_a_level_outside_0_to_1_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level between 0 and 1"):
        unite([("q1", True, False)], level=level)


@settings(max_examples=60)
@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 100))
def test_p_is_mcnemars_of_statsmodels_where_items_occur_once(b: int, c: int, rest: int) -> None:
    table = [[rest, b], [c, 0]]
    found = paired_difference(*once(b, c, b + c + rest))
    if b + c:
        expected = mcnemar(table, exact=False, correction=False).pvalue
        assert found.p == pytest.approx(expected, abs=1e-12)
    assert mcnemar_exact(b, c) == pytest.approx(mcnemar(table, exact=True).pvalue, abs=1e-9)


def test_without_a_discordant_pair_the_interval_is_wide_and_p_is_1() -> None:
    found = paired_difference(*once(0, 0, 40))
    end = Z**2 / (40 + Z**2)
    assert (found.estimate.low, found.estimate.high) == pytest.approx((-end, end))
    assert (found.estimate.value, found.p) == (0, 1)
    fivefold = paired_difference([0] * 8, [0] * 8, [5] * 8)  # 40 pairs of 8 items
    assert fivefold.estimate.high == pytest.approx(Z**2 / (8 + Z**2))


def test_all_pairs_discordant_alike_still_leave_a_width() -> None:
    found = paired_difference(*once(20, 0, 20)).estimate
    assert found.high == 1
    assert 0 < (found.low or 0) < 1
    assert paired_difference([], [], []).p is None


def test_pairs_of_one_item_are_worth_one_pair_where_they_agree() -> None:
    alone = paired_difference(*once(9, 2, 30))
    fivefold = paired_difference([5] * 9 + [0] * 21, [0] * 28 + [5] * 2, [5] * 30)
    assert fivefold.estimate.low == pytest.approx(alone.estimate.low, abs=1e-9)
    assert fivefold.p == pytest.approx(alone.p)
    assert (alone.effect, fivefold.effect) == pytest.approx((30 / 29, 5 * 30 / 29), rel=0.05)


def test_three_sentences_of_four_entities_are_three_items() -> None:
    """By entity the exact test says p = .0005; three of three sentences say next to nothing."""
    found = unite([(f"s{i}", True, False) for i in range(3) for _ in range(4)])
    assert found.estimate.n == 12
    assert found.p == pytest.approx(2 * norm.sf(sqrt(3)))  # .083
    assert (found.estimate.low or 0) < 0.01


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=12
    )
)
def test_the_test_rejects_where_the_interval_leaves_out_0_and_sides_may_be_exchanged(
    units: list[tuple[int, int, int]],
) -> None:
    first, second = [b for b, _, _ in units], [c for _, c, _ in units]
    counts = [b + c + rest for b, c, rest in units]
    found, back = paired_difference(first, second, counts), paired_difference(second, first, counts)
    if found.p is None:
        return
    low, value, high = found.estimate.low, found.estimate.value, found.estimate.high
    assert low is not None
    assert value is not None
    assert high is not None
    assert -1 <= low <= value <= high <= 1
    assert low < high
    assert (back.estimate.low, back.estimate.high) == pytest.approx((-high, -low), abs=1e-12)
    if abs(found.p - 0.05) > 1e-6:
        assert (found.p < 0.05) == (low > 0 or high < 0)


def newcombe(b: int, c: int, both: int, neither: int) -> tuple[float, float]:
    """Newcombe's interval of a paired difference (1998, method 10), as other tools give it."""
    n = b + c + both + neither
    p1, p2 = (both + b) / n, (both + c) / n
    l1, u1 = proportion_confint(both + b, n, method="wilson")
    l2, u2 = proportion_confint(both + c, n, method="wilson")
    cross = both * neither - b * c
    if cross > 0:
        cross = max(cross - n / 2, 0)
    margins = (both + b) * (neither + c) * (both + c) * (neither + b)
    phi = cross / sqrt(margins) if margins else 0.0
    d = p1 - p2
    low = d - sqrt((p1 - l1) ** 2 - 2 * phi * (p1 - l1) * (u2 - p2) + (u2 - p2) ** 2)
    high = d + sqrt((u1 - p1) ** 2 - 2 * phi * (u1 - p1) * (p2 - l2) + (p2 - l2) ** 2)
    return low, high


@pytest.mark.parametrize(
    ("b", "c", "both"), [(12, 2, 100), (20, 20, 60), (5, 1, 150), (40, 8, 40), (0, 3, 90)]
)
def test_the_interval_is_close_to_newcombes(b: int, c: int, both: int) -> None:
    n = 200
    found = paired_difference(*once(b, c, n)).estimate
    expected = newcombe(b, c, both, n - b - c - both)
    assert (found.low, found.high) == pytest.approx(expected, abs=0.01)
