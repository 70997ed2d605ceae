"""p-values, the statistic and the family, by hand."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm

from medstress.core.outcomes import Outcome, Prediction
from medstress.metrics.old_stats.monte_carlo import ControlPlan, is_as_hard, p_values
from medstress.metrics.significance.control_costs import cost_of
from medstress.metrics.significance.families import (
    Adjust,
    Attainable,
    Null,
    adjust,
    histogram,
    shortfall,
)
from medstress.metrics.significance.hardness import (
    Sampled,
    Statistic,
    effect,
    hardness,
    sampled,
    usable,
)

RIGHT = Sampled(outcome=Outcome.RIGHT)
WRONG = Sampled(outcome=Outcome.WRONG)
UNREADABLE = Sampled(outcome=Outcome.UNREADABLE)


@pytest.mark.parametrize(
    ("count", "paper", "text"),
    [
        (0, 0.0, "< 1/30"),
        (3, 0.1, "0.1"),
        (5, 5 / 30, "0.167"),
        (15, 0.5, "0.5"),
        (19, 19 / 30, "0.633"),
    ],
)
def test_the_papers_p_is_count_over_thirty_and_ours_adds_one(
    count: int, paper: float, text: str
) -> None:
    found = p_values([True] * count + [False] * (30 - count), ControlPlan(fixed=30))
    assert found.p_paper == paper
    assert found.paper_text == text
    assert found.p == found.p_plus1 == (1 + count) / 31


def test_an_adaptive_test_stops_at_the_tenth_control_as_hard() -> None:
    as_hard = [False] * 40 + [True] * 10
    plan = ControlPlan(stop_at=10)
    assert not plan.is_done(as_hard[:-1])
    assert plan.is_done(as_hard)
    found = p_values(as_hard, plan)
    assert found.p == 10 / 50
    # Both other p-values are of the first thirty: their number was not chosen by what came.
    assert (found.p_paper, found.p_plus1, found.n_counted) == (0.0, 1 / 31, 30)


def test_an_adaptive_test_without_hard_controls_ends_at_999() -> None:
    plan = ControlPlan()
    assert not plan.is_done([False] * 998)
    assert p_values([False] * 990 + [True] * 9, plan).p == 10 / 1000


def test_controls_drawn_after_the_stop_change_nothing() -> None:
    first = [True] * 10 + [False] * 20
    assert p_values(first, ControlPlan()).p == p_values([*first, True, True], ControlPlan()).p == 1


def test_too_few_controls_are_no_test() -> None:
    with pytest.raises(ValueError, match="fewer"):
        p_values([True] * 29, ControlPlan(fixed=30))


@pytest.mark.release
@given(st.lists(st.booleans(), min_size=999, max_size=999), st.integers(1, 20))
def test_a_p_value_lies_between_its_minimum_and_one(as_hard: list[bool], stop_at: int) -> None:
    found = p_values(as_hard, ControlPlan(stop_at=stop_at))
    assert ControlPlan().p_min <= found.p <= 1


def test_ties_count_against_significance_even_where_rounding_parts_them() -> None:
    assert is_as_hard(0.1 + 0.2, 0.3)
    assert is_as_hard(0.3, 0.1 + 0.2)
    assert not is_as_hard(0.31, 0.3)


def test_the_probability_of_the_key_is_of_the_softmax_over_options() -> None:
    prediction = Prediction(
        outcome=Outcome.RIGHT, answer="B", scores=(math.log(0.25), math.log(0.75))
    )
    assert sampled(prediction, key=1).probability == pytest.approx(0.75)


def test_without_scores_the_statistic_is_the_share_of_right_answers() -> None:
    assert usable([RIGHT, WRONG]) is Statistic.SHARE_CORRECT
    assert Statistic.SHARE_CORRECT.n_samples == 20
    assert Statistic.KEY_PROBABILITY.n_samples == 5


def test_unreadable_answers_count_on_neither_side() -> None:
    assert hardness([RIGHT, UNREADABLE, WRONG], Statistic.SHARE_CORRECT) == 0.5
    assert hardness([UNREADABLE], Statistic.SHARE_CORRECT) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=9))
def test_the_order_of_samples_makes_no_difference(values: list[float]) -> None:
    samples = [Sampled(outcome=Outcome.RIGHT, probability=value) for value in values]
    forth = hardness(samples, Statistic.KEY_PROBABILITY)
    assert forth == hardness(samples[::-1], Statistic.KEY_PROBABILITY)


def test_the_effect_has_an_interval_around_it() -> None:
    found = effect([0.9, 0.8, 0.95, 0.85, 0.9], [0.3, 0.5, 0.2, 0.4, 0.35])
    assert found.value == pytest.approx(0.88 - 0.35)
    assert found.low is not None
    assert found.high is not None
    assert -0.1 < found.low < found.value < found.high < 0.9


@pytest.mark.parametrize("samples", [[1.0] * 5, [0.4] * 5])
def test_samples_that_are_all_alike_leave_a_width(samples) -> None:
    """A bootstrap of them has none."""
    found = effect(samples, [0.0] * 5)
    assert found.value == pytest.approx(samples[0])
    assert found.low < found.value - 0.2
    assert "bootstrap" not in found.method


def test_benjamini_hochberg_over_attacked_items_counts_those_that_held() -> None:
    assert adjust([0.01, 0.04], 2) == pytest.approx([0.02, 0.04])
    assert adjust([0.01, 0.04], 10) == pytest.approx([0.1, 0.2])


def test_thirty_controls_need_a_third_of_the_family_at_the_minimum() -> None:
    best = Attainable(n_tested=100, n_family=100, p_min=1 / 31)
    assert best.adjusted == 1 / 31
    assert best.n_needed == 33
    assert shortfall(best) is None


def test_a_family_in_which_nothing_can_be_found_is_told_the_controls_it_needs() -> None:
    best = Attainable(n_tested=10, n_family=60, p_min=1 / 31)
    assert best.adjusted == pytest.approx(6 / 31)
    said = shortfall(best)
    assert said is not None
    assert "--controls 59 or more" in said
    assert shortfall(replace(best, p_min=1 / 60)) is None
    assert shortfall(replace(best, p_min=1 / 59)) is not None
    assert shortfall(replace(best, p_min=ControlPlan().p_min)) is None


def test_a_family_is_all_successes_whichever_are_tested() -> None:
    best = Attainable(n_tested=1, n_family=4, p_min=1 / 31)
    assert (best.adjusted, best.controls_needed) == (4 / 31, 39)
    said = shortfall(best)
    assert said is not None
    assert "(1 successes in a family of 4)" in said
    assert replace(best, n_tested=2, n_family=60).adjusted == pytest.approx(30 / 31)


def test_bins_of_the_histogram_are_closed_on_the_right() -> None:
    assert histogram([0.05, 0.0500001, 0.1])[:3] == [1, 2, 0]
    assert sum(histogram([0.001, 0.3, 0.999, 1.0])) == 4


def test_two_thousand_calls_buy_sixty_six_controls() -> None:
    """66 with the lexicon, 56 where a role writes a text an attempt, 25 with 20 answers a T."""
    matched, mean, share = Null.MATCHED, Statistic.KEY_PROBABILITY, Statistic.SHARE_CORRECT
    assert cost_of(matched, 5, mean).bought(2_000) == 66
    assert cost_of(matched, 5, mean, written=True).bought(2_000) == 56
    assert cost_of(matched, 5, share).bought(2_000) == 25
    # One call too few is one control too few, and too few for any is none.
    cost = cost_of(matched, 5, mean)
    assert cost.bought(cost.needed(66)) == 66
    assert cost.bought(cost.needed(66) - 1) == 65
    assert cost.bought(10) == 0
    # One text a control: no loop.
    assert cost_of(Null.NEUTRAL, 5, mean, written=True).n_calls == 16


@pytest.mark.parametrize("shared", [0.0, 0.9])
def test_holm_keeps_the_probability_of_any_false_finding(shared: float) -> None:
    """Twenty p-values without an effect, independent or nearly the same one, beside five with."""
    rng = np.random.default_rng(11)
    n, any_false = 2_000, 0
    for _ in range(n):
        common, own = rng.standard_normal(), rng.standard_normal(20)
        null = norm.sf(np.sqrt(shared) * common + np.sqrt(1 - shared) * own)
        ps = [*(float(p) for p in null), *([1e-6] * 5)]
        any_false += min(adjust(ps, 25, Adjust.HOLM)[:20]) <= 0.05
    assert any_false / n <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / n)
    assert shared or any_false / n > 0.03


def test_holm_is_stricter_than_benjamini_and_hochberg_and_needs_no_crowd() -> None:
    ps = [0.01, 0.02, 0.03]
    assert adjust(ps, 5, Adjust.HOLM) == pytest.approx([0.05, 0.08, 0.09])
    assert adjust(ps, 5, Adjust.NONE) == ps
    assert all(a >= b for a, b in zip(adjust(ps, 5, Adjust.HOLM), adjust(ps, 5), strict=True))
    best = Attainable(n_tested=40, n_family=40, p_min=1 / 31, method=Adjust.HOLM)
    assert (best.adjusted, best.n_needed, best.controls_needed) == (1.0, 1, 799)
    assert shortfall(replace(best, method=Adjust.NONE)) is None


@given(st.lists(st.floats(0, 1), min_size=1, max_size=8), st.integers(0, 8))
def test_adjusted_p_values_keep_their_order_and_never_fall(ps: list[float], n_more: int) -> None:
    for method in Adjust:
        found = adjust(ps, len(ps) + n_more, method)
        assert all(p - 1e-12 <= q <= 1 for p, q in zip(ps, found, strict=True))
        assert [found[i] for i in sorted(range(len(ps)), key=ps.__getitem__)] == sorted(found)
