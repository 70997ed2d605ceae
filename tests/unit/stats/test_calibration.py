"""Calibration error and risk against coverage: planted victims, exact areas, coverage."""

from itertools import permutations

import numpy as np
import pytest

from medstress.stats.calibration import Answer, brier, calibration, risk_coverage


def answers(confidences: object, right: object) -> list[Answer]:
    pairs = zip(confidences, right, strict=True)  # type: ignore[call-overload]
    return [((f"q{i:04}",), float(c), bool(r)) for i, (c, r) in enumerate(pairs)]


def test_an_overconfident_victim_has_the_error_that_was_planted() -> None:
    right = [i % 10 < 6 for i in range(400)]  # .6 of the answers, always .95 sure
    found = calibration(answers([0.95] * 400, right))
    assert found.error.value == pytest.approx(0.35)
    assert 0.25 < (found.error.low or 0) < 0.35 < (found.error.high or 0) < 0.45
    assert (found.by_chance or 1) < 0.05


def test_overconfidence_in_one_bin_is_not_paid_for_by_diffidence_in_another() -> None:
    low, high = [0.55] * 100, [0.95] * 100
    right = [True] * 80 + [False] * 20 + [True] * 70 + [False] * 30
    found = calibration(answers(low + high, right))
    assert found.error.value == pytest.approx(0.25)  # the plain mean of both gaps would be 0


def test_the_interval_of_a_calibrated_victim_holds_0_and_says_what_chance_gives() -> None:
    rng = np.random.default_rng(3)
    missed, errors, by_chance = 0, [], []
    for _ in range(60):
        confidences = rng.uniform(0.3, 1, 200)
        found = calibration(answers(confidences, rng.random(200) < confidences))
        missed += found.error.low != 0
        errors.append(found.error.value)
        by_chance.append(found.by_chance)
    assert missed <= 9  # 5 % nominal; P(more than 9 of 60) < .002
    assert np.mean(errors) == pytest.approx(np.mean(by_chance), rel=0.15)
    assert np.mean(errors) > 0.05


def test_answers_of_one_item_are_resampled_together() -> None:
    right = [i % 2 == 0 for i in range(40)]
    once = answers([0.7] * 40, right)
    again = [each for each in once for _ in range(5)]
    single, repeated = calibration(once).error, calibration(again).error
    assert repeated.n == 5 * single.n
    assert repeated.low == pytest.approx(single.low or 0)


def test_without_answers_nothing_is_estimated_and_one_item_has_no_interval() -> None:
    assert calibration([]).error.value is None
    assert brier([]).value is None
    assert risk_coverage([]).area.value is None
    alone = calibration(answers([0.9], [True])).error
    assert (alone.value, alone.low) == (pytest.approx(0.1), None)


def test_the_area_is_the_mean_error_over_all_orders_of_equal_confidences() -> None:
    confidences, right = [0.9, 0.9, 0.9, 0.5, 0.5], [1, 0, 1, 0, 1]
    areas = []
    for first in permutations(range(3)):
        for last in permutations((3, 4)):
            wrong = 1 - np.array(right)[[*first, *last]]
            areas.append((np.cumsum(wrong) / np.arange(1, 6)).mean())
    found = risk_coverage(answers(confidences, right))
    assert found.area.value == pytest.approx(np.mean(areas))
    assert [each.coverage for each in found.points] == [0.6, 1.0]
    assert [each.error.hits for each in found.points] == [1, 2]


def test_a_confidence_that_tells_errors_has_less_area_than_one_that_says_nothing() -> None:
    right = [i % 4 != 0 for i in range(400)]
    knows = risk_coverage(answers([0.9 if each else 0.4 for each in right], right))
    silent = risk_coverage(answers([0.7] * 400, right))
    backwards = risk_coverage(answers([0.4 if each else 0.9 for each in right], right))
    assert silent.area.value == pytest.approx(0.25, abs=0.003)
    assert knows.area.value < 0.05 < 0.25 < 0.5 < backwards.area.value  # type: ignore[operator]
    assert knows.points[0].error.value == 0
    assert all(each.points[-1].error.value == 0.25 for each in (knows, silent, backwards))


def test_the_rounding_of_a_softmax_makes_no_difference_in_confidence() -> None:
    noisy = [0.9 + (1e-16, -1e-16, 3e-16)[i % 3] for i in range(30)]
    right = [i % 3 == 0 for i in range(30)]
    exact, found = answers([0.9] * 30, right), answers(noisy, right)
    assert calibration(found) == calibration(exact)
    assert risk_coverage(found) == risk_coverage(exact)
    assert len(risk_coverage(found).points) == 1


def test_many_answers_are_grouped_without_moving_the_area_far() -> None:
    rng = np.random.default_rng(5)
    confidences = rng.uniform(0.3, 1, 3000)
    right = rng.random(3000) < confidences
    order = np.argsort(-confidences)
    exact = (np.cumsum(~right[order]) / np.arange(1, 3001)).mean()
    found = risk_coverage(answers(confidences, right))
    assert found.area.value == pytest.approx(exact, abs=0.002)
    assert len(found.points) == 20
    assert (found.area.low or 1) < exact < (found.area.high or 0)
