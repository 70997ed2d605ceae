"""T of a candidate, from conversations whose answers are known."""

from __future__ import annotations

import pytest

from medstress.analyses.families import Statistic
from medstress.core.outcomes import Outcome
from medstress.experiment.significance.flow import Sampled, hardness, readable_values, usable

RIGHT, WRONG, MUTE = (
    Sampled(outcome=outcome) for outcome in (Outcome.RIGHT, Outcome.WRONG, Outcome.UNREADABLE)
)


def scored(p: float, outcome: Outcome = Outcome.WRONG) -> Sampled:
    return Sampled(outcome=outcome, probability=p)


def test_probabilities_are_used_where_any_sample_has_one() -> None:
    assert usable([RIGHT, scored(0.2)]) is Statistic.KEY_PROBABILITY
    assert usable([RIGHT, MUTE]) is Statistic.SHARE_CORRECT
    assert usable([]) is Statistic.SHARE_CORRECT


def test_what_cannot_be_read_is_left_out_of_the_mean() -> None:
    share, key = Statistic.SHARE_CORRECT, Statistic.KEY_PROBABILITY
    assert hardness([RIGHT, WRONG, MUTE, WRONG], share) == pytest.approx(1 / 3)
    assert hardness([scored(0.25), RIGHT, scored(0.75)], key) == 0.5
    assert readable_values([scored(0.25), RIGHT], key) == [0.25]
    assert hardness([MUTE, MUTE], share) is None
    assert hardness([RIGHT], key) is None


def test_the_order_of_samples_does_not_change_t() -> None:
    samples = [scored(0.1 * i) for i in range(1, 8)]
    values = {hardness(order, Statistic.KEY_PROBABILITY) for order in (samples, samples[::-1])}
    assert len(values) == 1
