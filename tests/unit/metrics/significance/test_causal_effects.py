"""What insertions did against what reasonings say, with numbers worked out by hand."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.outcomes import Outcome, Prediction
from medstress.metrics.significance.causal_effects import (
    FLOOR,
    Clause,
    answer_shares,
    divergence,
    faithfulness_slope,
)


def answered(letter: str | None, scores: tuple[float, ...] | None = None) -> Prediction:
    outcome = Outcome.UNREADABLE if letter is None else Outcome.RIGHT
    return Prediction(outcome=outcome, answer=letter, scores=scores)


def clause(item: str, causal: float, implied: float) -> Clause:
    return Clause(item_id=item, causal=causal, implied=implied)


def test_counted_answers_get_half_an_answer_more_for_every_option() -> None:
    replies = [answered("A")] * 3 + [answered("B")]
    assert answer_shares(replies, "ABC") == [3.5 / 5.5, 1.5 / 5.5, 0.5 / 5.5]


def test_unreadable_answers_count_for_no_option() -> None:
    assert answer_shares([answered(None), answered("B")], "AB") == [0.25, 0.75]
    assert answer_shares([answered(None)], "AB") is None


def test_known_probabilities_are_averaged_over_reasonings() -> None:
    replies = [
        answered("A", (math.log(0.9), math.log(0.1))),
        answered("B", (math.log(0.3), math.log(0.7))),
    ]
    assert answer_shares(replies, "AB") == pytest.approx([0.6, 0.4])


def test_a_probability_of_nothing_leaves_the_divergence_finite() -> None:
    sure = answer_shares([answered("A", (0.0, -math.inf))], "AB")
    other = answer_shares([answered("B", (-math.inf, 0.0))], "AB")
    assert sure is not None
    assert other is not None
    assert divergence(sure, other) == pytest.approx(math.log(1 / FLOOR), rel=1e-6)


def test_the_divergence_of_two_worked_distributions() -> None:
    found = divergence([0.5, 0.5], [0.25, 0.75])
    assert found == pytest.approx(0.5 * math.log(2) + 0.5 * math.log(2 / 3))


def test_slope_and_correlation_of_three_clauses_by_hand() -> None:
    # Sums about the means: xx = 2/3, yy = 2/3, xy = 1 - 2 * 1 / 3 = 1/3.
    held = [clause("a", 1.0, 1.0), clause("b", 1.0, 0.0), clause("c", 0.0, 0.0)]
    slope, r = faithfulness_slope(held)
    assert slope.value == pytest.approx(0.5)
    assert r.value == pytest.approx(0.5)
    assert (slope.n, r.n) == (3, 3)
    assert "cluster bootstrap over 3 items" in slope.method


def test_reasonings_that_say_exactly_what_mattered_have_a_slope_of_one_and_no_width() -> None:
    held = [clause(f"q{i}", i / 10, i / 20) for i in range(10)]
    slope, r = faithfulness_slope(held)
    assert slope.value == pytest.approx(1.0)
    assert r.value == pytest.approx(1.0)
    assert (slope.low, slope.high, r.low, r.high) == (None,) * 4
    assert slope.method.endswith("no interval, as all resamples agree")


def test_reasonings_that_deny_what_mattered_have_a_negative_slope() -> None:
    slope, _ = faithfulness_slope([clause(f"q{i}", i / 10, 1 - i / 10) for i in range(6)])
    assert slope.value == pytest.approx(-1.0)


def test_a_single_item_has_a_value_and_no_interval() -> None:
    slope, r = faithfulness_slope([clause("a", i / 4, (i * 3 % 5) / 5) for i in range(5)])
    assert slope.value == r.value is not None
    assert (slope.low, slope.high, r.low, r.high) == (None,) * 4
    assert slope.method == "one item alone"


def test_clauses_of_one_item_are_drawn_together() -> None:
    # Each item alone lies on a falling line, both together on a rising one.
    held = [clause("a", 0.0, 0.1), clause("a", 0.1, 0.0)]
    held += [clause("b", 1.0, 1.0), clause("b", 1.1, 0.9)]
    _, r = faithfulness_slope(held)
    assert r.value is not None
    assert r.value > 0.9
    assert r.low == pytest.approx(-1.0)


@pytest.mark.parametrize(
    ("held", "said"),
    [
        ([clause("a", 1.0, 1.0)] * 2, "fewer than 3 clauses"),
        ([clause("a", 0.1, i / 3) for i in range(3)], "the causal effect does not vary"),
        ([clause("a", i / 3, 0.1) for i in range(3)], "the implied effect does not vary"),
    ],
)
def test_where_there_is_no_line_the_reason_is_told(held: list[Clause], said: str) -> None:
    slope, r = faithfulness_slope(held)
    assert slope.value is None
    assert r.value is None
    assert slope.method.startswith(said)


@given(
    st.lists(
        st.tuples(st.sampled_from("abcd"), st.floats(0, 5), st.floats(0, 1)),
        min_size=3,
        max_size=12,
    )
)
def test_a_correlation_stays_within_its_bounds(points: list[tuple[str, float, float]]) -> None:
    slope, r = faithfulness_slope([clause(*point) for point in points])
    if r.value is not None:
        assert -1 - 1e-9 <= r.value <= 1 + 1e-9
        assert slope.value == r.value
        if r.low is not None and r.high is not None:
            assert -1 - 1e-6 <= r.low <= r.high <= 1 + 1e-6
