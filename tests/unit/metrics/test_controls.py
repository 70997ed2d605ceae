"""An attack beside its control: counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.controls import (
    beside,
    control_fields,
    loss_bounds,
    repaired,
    with_controls,
)
from medstress.metrics.old_stats.estimates import unknown
from medstress.metrics.old_stats.paired import unite
from medstress.metrics.old_stats.shares import rate
from medstress.metrics.success import asr_at

Make = Callable[..., TrialRow]
HELD, FLIPPED = Verdict.HELD, Verdict.FLIPPED


def arm(trial: Make, firsts: dict[str, int | None], **given: Any) -> list[TrialRow]:
    """Trials by item: the query of the first success, or None if it held."""
    return [
        trial(item_id=item, verdict=HELD, **given)
        if first is None
        else trial(item_id=item, verdict=FLIPPED, first_success=first, **given)
        for item, first in firsts.items()
    ]


def both(trial: Make) -> tuple[list[TrialRow], list[TrialRow]]:
    attack = arm(trial, {"a": 1, "b": 3, "c": 8, "d": None, "e": None, "f": 2})
    control = arm(trial, {"a": 4, "b": None, "c": None, "d": 1, "e": None, "f": None}, arm="no_op")
    return attack, control


def test_the_table_of_pairs_is_that_of_the_budget(trial: Make) -> None:
    attack, control = both(trial)
    at_8 = beside(attack, control, 8)
    assert at_8["control_table"] == [1, 3, 1, 1]
    assert at_8["control"]["value"] == pytest.approx(2 / 6)
    assert at_8["asr_net"]["value"] == pytest.approx(2 / 6)
    at_1 = beside(attack, control, 1)
    assert at_1["control_table"] == [0, 1, 1, 4]
    assert at_1["asr_net"]["value"] == 0.0
    low, high = at_8["loss_bounds"]
    assert low == max(0.0, at_8["asr_net"]["low"])
    assert high > 4 / 6


def test_every_point_of_the_curve_has_the_numbers_of_its_budget(trial: Make) -> None:
    attack, control = both(trial)
    points = with_controls(asr_at(attack, 8), attack, {"no_op": control})
    for point in points:
        own = beside(attack, control, point["budget"])
        assert point["asr_net"]["no_op"] == own["asr_net"]
        assert point["loss_bounds"]["no_op"] == own["loss_bounds"]
        assert "control_table" not in point


def test_open_answers_count_at_their_worst_in_either_direction(trial: Make) -> None:
    attack, control = both(trial)
    sure = beside(attack, control, 8)
    assert sure["asr_net_bounds"] == [sure["asr_net"]["low"], sure["asr_net"]["high"]]
    attack[3] = trial(item_id="d", verdict=Verdict.FAILED, at="attack")
    unread = trial(item_id="g", verdict=Verdict.UNREADABLE)
    found = beside([*attack, unread], [*control, unread], 8)
    # d failed and may have flipped; g may be eligible, held or flipped in either arm.
    assert found["asr_net_bounds"][0] < sure["asr_net"]["low"]
    assert found["asr_net_bounds"][1] > sure["asr_net"]["high"]
    assert found["control_bounds"][1] > found["control"]["high"]


def test_a_control_that_is_left_out_is_null_with_the_reason(trial: Make) -> None:
    attack, _ = both(trial)
    found = control_fields(attack, {}, 8, {"same_type": "it is that attack"})
    assert found["asr_net"]["same_type"]["value"] is None
    assert found["asr_net"]["same_type"]["method"] == "it is that attack"
    assert found["loss_bounds"] == {"same_type": None}
    assert control_fields(attack, {}, 8) == {}


def pairs(neither: int, control: int, attack: int, both: int) -> list[tuple[str, bool, bool]]:
    flips = ((False, False), (False, True), (True, False), (True, True))
    counts = (neither, control, attack, both)
    items = [flip for count, flip in zip(counts, flips, strict=True) for _ in range(count)]
    return [(f"q{i}", *flip) for i, flip in enumerate(items)]


def test_bounds_run_from_the_low_end_of_net_to_the_high_end_of_asr() -> None:
    table = pairs(100, 10, 50, 40)
    asr, net = rate((unit, a) for unit, a, _ in table), unite(table).estimate
    assert loss_bounds(asr, net) == [net.low, asr.high]
    noisy = pairs(100, 30, 30, 40)
    assert loss_bounds(rate((u, a) for u, a, _ in noisy), unite(noisy).estimate)[0] == 0
    assert loss_bounds(unknown(""), net) == loss_bounds(asr, unknown("")) == [None, None]


def test_one_query_turns_answers_both_ways(trial: Make) -> None:
    rows = [
        *arm(trial, {"a": 1, "b": 2, "c": None}, arm="no_op"),
        trial(item_id="d", verdict=Verdict.ALREADY_WRONG, corrected=True, arm="no_op"),
        trial(item_id="e", verdict=Verdict.ALREADY_WRONG, corrected=False, arm="no_op"),
        trial(item_id="f", verdict=Verdict.ALREADY_WRONG, arm="no_op"),
    ]
    found = repaired(rows)
    assert (found["right_to_wrong"]["value"], found["right_to_wrong"]["n"]) == (
        pytest.approx(1 / 3),
        3,
    )
    assert (found["wrong_to_right"]["value"], found["wrong_to_right"]["n"]) == (0.5, 2)
