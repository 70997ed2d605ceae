"""The nightly gate from planted runs: equal builds, a drop, reuse of items, and what it refuses."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from medstress.comparison.gate_file import Series
from medstress.comparison.nightly import Gate, feed_night
from medstress.comparison.sides import Side
from medstress.core.errors import UsageError
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.stats.nights import allowed

Make = Callable[..., TrialRow]
SAMPLED = {
    "config": {"experiment": {"name": "e"}, "victim": [{"backend": "openai"}]},
    "victims.mock.task": {"answer_by": "generate", "template": "t", "decoding": [128, 1.0]},
    "parts.victims": {"mock": "v1"},
}
FIXED = {**SAMPLED, "victims.mock.task": {"answer_by": "letter", "template": "t"}}


@pytest.fixture
def side(trial: Make, manifest: Any) -> Callable[..., Side]:
    """A run whose items are right after the attack or not."""

    def make(
        name: str, right: Sequence[bool], ids: Sequence[Any] | None = None, **changes: Any
    ) -> Side:
        items = range(len(right)) if ids is None else ids
        rows = [
            trial(
                item_id=f"q{i}",
                item_hash=f"h{i}",
                verdict=Verdict.HELD if each else Verdict.FLIPPED,
                seed=0,
                trial_id=f"{i}",
            )
            for i, each in zip(items, right, strict=True)
        ]
        given = copy.deepcopy({**SAMPLED, **changes})
        return Side(name=name, source=name.lower(), manifest=manifest(given), rows=rows)

    return make


def night(series: Series | None, first: Side, second: Side, t: int, **given: Any) -> Gate:
    margin = given.pop("margin", 0.0)
    return feed_night(series, first, second, margin, digests=(f"a{t}", f"b{t}"), **given)


def sampled(side: Any, rng: Any, p: Any, shift: float = 0.0) -> tuple[Side, Side]:
    """Both arms asked anew; the second is `shift` behind."""
    return side("A", rng.random(len(p)) < p), side("B", rng.random(len(p)) < p - shift)


def test_equal_builds_raise_no_alarm_in_60_nights(side: Any) -> None:
    rng = np.random.default_rng(5)
    p, series = rng.uniform(0.3, 0.9, 60), None
    for t in range(60):
        gate = night(series, *sampled(side, rng, p), t, is_afresh=True)
        series = gate.series
    assert (gate.night, gate.alarm, gate.n_items) == (60, False, 60)
    assert {entry["x"] for entry in gate.series.log} >= {1, -1}


def test_a_drop_from_night_5_raises_the_alarm_soon_and_the_verdict_says_since_when(
    side: Any,
) -> None:
    rng = np.random.default_rng(5)
    p, series, alarms = rng.uniform(0.3, 0.9, 200), None, []
    for t in range(1, 31):
        gate = night(series, *sampled(side, rng, p, 0.2 * (t >= 5)), t, is_afresh=True)
        series = gate.series
        alarms.append(gate.alarm)
    first = 1 + alarms.index(True)
    assert 5 < first < 20
    assert all(alarms[first - 1 :])  # an alarm stays, whatever E does
    assert f"since night {first}" in gate.sentence
    assert gate.as_json()["first_alarm"] == first


def test_deterministic_equal_builds_bet_on_each_item_once(side: Any) -> None:
    """Baseline and build are equally good, and the build is behind on these items every night."""
    rng = np.random.default_rng(1)
    pool = rng.random((2, 60)) < 0.7
    while pool[0].sum() <= pool[1].sum():
        pool = rng.random((2, 60)) < 0.7
    series, bets = None, []
    for t in range(60):
        gate = night(series, side("A", pool[0], **FIXED), side("B", pool[1], **FIXED), t)
        series = gate.series
        bets.append(gate.x)
    assert bets == [1] + [0] * 59
    assert (gate.alarm, gate.n, gate.n_spent) == (False, 0, 60)
    # What is forbidden: bets on the same items every night would have raised an alarm.
    again = None
    for t in range(60):
        a, b = side("A", pool[0]), side("B", pool[1])
        again = night(again, a, b, t, is_afresh=True).series
    assert again is not None
    assert again.state.first_alarm is not None


def test_new_items_may_be_bet_on_and_items_of_another_build_are_spent(side: Any) -> None:
    first = night(None, side("A", [True] * 4), side("B", [True, False, False, True]), 1)
    ids = [2, 3, 4, 5]
    changes = {"victims.mock.model_hash": "2", "victims.mock.model": "new"}
    gate = night(
        first.series, side("A", [True] * 4, ids), side("B", [False] * 4, ids, **changes), 2
    )
    assert (gate.n_items, gate.n_spent, gate.only_a, gate.x) == (2, 2, 2, 1)
    assert allowed(gate.state, ["h2", "h9"], is_afresh=False) == ["h9"]


def test_a_margin_forgives_what_lies_within_it(side: Any) -> None:
    a, b = side("A", [True] * 100), side("B", [False] * 5 + [True] * 95)
    assert night(None, a, b, 1, margin=0.1).x == -1
    assert night(None, a, b, 1, margin=0.05).x == 0
    assert night(None, a, b, 1).x == 1


def test_a_failed_answer_is_bet_on_only_if_it_decides_nothing(side: Any, trial: Make) -> None:
    def with_failed(n_wrong: int) -> Side:
        b = side("B", [False] * n_wrong + [True] * (9 - n_wrong))
        lost = trial(item_id="q9", item_hash="h9", verdict=Verdict.FAILED, at="attack", seed=0)
        return Side(name="B", source="b", manifest=b.manifest, rows=[*b.rows, lost])

    a = side("A", [True] * 10)
    assert night(None, a, with_failed(2), 1).x == 1
    gate = night(None, a, with_failed(0), 1)
    assert (gate.x, gate.n_lost) == (0, 1)
    assert gate.n_items == len(gate.state.spent) == 10  # the outcome was seen, so they are spent


def test_a_primary_endpoint_that_is_not_the_gates_is_said(side: Any) -> None:
    primary = {"metric": "asr_net", "control": "no_op"}
    given = {"config.experiment": {"name": "e", "primary": primary}}
    given["config"] = {**SAMPLED["config"], "experiment": given.pop("config.experiment")}
    gate = night(None, side("A", [True] * 4, **given), side("B", [False] * 4, **given), 1)
    assert any("fixes asr_net (control no_op), but the nightly gate" in x for x in gate.lines())
    assert gate.as_json()["fixed_in_the_file"] == "asr_net (control no_op)"
    primary["metric"] = "accuracy_after"
    gate = night(None, side("A", [True] * 4, **given), side("B", [False] * 4, **given), 1)
    assert gate.as_json()["fixed_in_the_file"] is None


def test_a_run_is_fed_once(side: Any, said: Any) -> None:
    a, b = side("A", [True] * 4), side("B", [False] * 4)
    series = night(None, a, b, 1).series
    with pytest.raises(UsageError) as error:
        night(series, a, b, 1)
    said(str(error.value), "night 1")
    with pytest.raises(UsageError) as error:
        feed_night(series, a, b, 0.0, digests=("a9", "a1"))
    said(str(error.value), "baseline")
    with pytest.raises(UsageError) as error:
        feed_night(None, a, b, 0.0, digests=("a1", "a1"))
    said(str(error.value), "same run")


@pytest.mark.parametrize(
    ("changes", "margin", "word"),
    [
        ({"parts.victims": {"mock": "v2"}}, 0.0, "baseline"),
        ({}, 0.02, "--margin 0.02"),
        ({"complete": False}, 0.0, "not complete"),
        ({"decided": {"n": 3}}, 0.0, "stop_when"),
        ({"attacks.random.budget": 8}, 0.0, "attack"),
    ],
)
def test_what_does_not_belong_to_a_series_is_refused(
    side: Any, said: Any, changes: dict[str, Any], margin: float, word: str
) -> None:
    series = night(None, side("A", [True] * 4), side("B", [False] * 4), 1).series
    with pytest.raises(UsageError) as error:
        night(series, side("A", [True] * 4, **changes), side("B", [False] * 4), 2, margin=margin)
    said(str(error.value), word)


def test_runs_without_a_common_item_are_refused(side: Any, said: Any) -> None:
    with pytest.raises(UsageError) as error:
        night(None, side("A", [True] * 2), side("B", [True] * 2, [7, 8]), 1)
    said(str(error.value), "nothing can be compared")


@pytest.mark.parametrize(
    ("changes", "given", "word"),
    [
        (FIXED, {}, "answer_by"),
        ({"victims.mock.task.decoding": [128, 0.0]}, {}, "temperature"),
        (
            {"config": {"experiment": {"name": "e"}, "victim": [{"backend": "mock"}]}},
            {},
            "mock",
        ),
        ({}, {"from_cache": (0, 3)}, "3 of its answers"),
    ],
)
def test_runs_that_were_not_sampled_afresh_are_refused(
    side: Any, said: Any, changes: dict[str, Any], given: dict[str, Any], word: str
) -> None:
    a, b = side("A", [True] * 4, **changes), side("B", [False] * 4, **changes)
    with pytest.raises(UsageError) as error:
        night(None, a, b, 1, is_afresh=True, **given)
    said(str(error.value), word)


def test_a_baseline_of_an_earlier_night_is_not_of_tonight(side: Any, said: Any) -> None:
    a, b = side("A", [True] * 4), side("B", [False] * 4)
    series = night(None, a, b, 1, is_afresh=True).series
    with pytest.raises(UsageError) as error:
        feed_night(series, a, b, 0.0, digests=("a1", "b2"), is_afresh=True)
    said(str(error.value), "every night")
