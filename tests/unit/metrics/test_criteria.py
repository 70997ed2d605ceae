"""Criteria judged on planted rows: met, missed, undecidable."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.accuracies import accuracy
from medstress.metrics.bounds import asr_bounds
from medstress.metrics.criteria import Evidence, Reading, control_rows, judge, place_of
from medstress.metrics.old_stats.estimates import wilson
from medstress.metrics.success import asr, asr_at

Make = Callable[..., TrialRow]
FLIPPED, HELD = Verdict.FLIPPED, Verdict.HELD


def estimate(k: int, n: int) -> dict[str, Any]:
    return wilson(k, n).as_json()


def row(attack: str = "random", **fields: Any) -> dict[str, Any]:
    place = {"dataset": "sample", "group": "drugs", "victim": "mock", "attack": attack}
    return {**place, "asr_at": [], **fields}


def evidence(
    pooled: Sequence[Mapping[str, Any]] = (),
    slices: Sequence[Mapping[str, Any]] = (),
    trials: Sequence[TrialRow] = (),
    share: bool = True,
) -> Evidence:
    def compare(criterion: Mapping[str, Any], found: Mapping[str, Any]) -> Reading:
        return Reading(
            place=place_of(found),
            estimate={**estimate(1, 2), "value": -0.1},
            ends=(-0.2, 0.04),
            more={"against": {**criterion["against"], "victim": "old"}},
        )

    members = {place_of(each): list(trials) for each in (*pooled, *slices)}
    return Evidence(
        pooled=pooled, slices=slices, trials=members, is_share=lambda _: share, compare=compare
    )


def test_the_end_decides_and_not_the_point() -> None:
    found = estimate(15, 100)
    rows = [row(asr=found, asr_bounds=[found["low"], found["high"]])]
    missed = judge({"metric": "asr", "max_high": 0.2}, evidence(rows))
    assert found["value"] < 0.2 < found["high"]
    assert missed["met"] is False
    assert "upper end is 0.233" in missed["reason"]
    assert judge({"metric": "asr", "max_high": 0.24}, evidence(rows))["met"] is True
    assert judge({"metric": "asr", "min_low": 0.09}, evidence(rows))["met"] is True
    assert judge({"metric": "asr", "min_low": 0.15}, evidence(rows))["met"] is False


def test_open_answers_count_at_their_worst() -> None:
    found = estimate(5, 100)
    rows = [row(asr=found, asr_bounds=[found["low"], 0.31])]
    judged = judge({"metric": "asr", "max_high": 0.2}, evidence(rows))
    assert (judged["met"], judged["bounds"][1]) == (False, 0.31)


@pytest.mark.parametrize(("n_disputed", "met"), [(0, True), (3, False)])
def test_disputes_among_reviewers_count_at_their_worst(n_disputed: int, met: bool) -> None:
    valid = estimate(30, 100) | {"n_labels": 10}
    valid |= {"n_disputed": n_disputed}
    valid |= {"settled_ends": [0.1, 0.5] if n_disputed else [valid["low"], valid["high"]]}
    found = judge({"metric": "asr_valid", "min_low": 0.2}, evidence([row(asr_valid=valid)]))
    assert found["met"] is met


def test_open_answers_and_disputes_count_at_their_worst_together(trial: Make) -> None:
    """One more rater who disagrees cannot make a criterion easier to meet."""
    valid = estimate(30, 100) | {"n_labels": 10, "n_disputed": 0}
    valid |= {"settled_ends": [valid["low"], valid["high"]]}
    disputed = valid | {
        "n_disputed": 2,
        "settled_ends": [valid["low"] - 0.02, valid["high"] + 0.02],
    }
    trials = [trial(item_id=f"u{i}", **UNREADABLE) for i in range(24)]
    ends = [
        judge(
            {"metric": "asr_valid", "max_high": 0.9}, evidence([row(asr_valid=each)], (), trials)
        )["bounds"]
        for each in (valid, disputed)
    ]
    assert ends[0] == pytest.approx([0.0, valid["high"] + 0.24])
    assert ends[1] == pytest.approx([0.0, valid["high"] + 0.26])


def test_every_row_must_meet_it_and_the_worst_is_told() -> None:
    rows = [
        row(name, asr=estimate(k, 100), asr_bounds=[0.0, estimate(k, 100)["high"]])
        for name, k in (("a", 5), ("b", 30), ("c", 10))
    ]
    judged = judge({"metric": "asr", "max_high": 0.2}, evidence(rows))
    assert (judged["met"], judged["row"]["attack"], judged["n_rows"]) == (False, "b", 3)
    kept = judge({"metric": "asr", "max_high": 0.2, "where": {"attack": "a"}}, evidence(rows))
    assert (kept["met"], kept["n_rows"]) == (True, 1)


def test_nothing_counted_is_not_met_and_says_so() -> None:
    rows = [row(asr=estimate(0, 0), asr_bounds=[None, None])]
    judged = judge({"metric": "asr", "max_high": 0.99}, evidence(rows))
    assert (judged["met"], judged["reason"]) == (False, "no trial counts towards it")
    none = judge({"metric": "asr", "max_high": 0.9, "where": {"attack": "x"}}, evidence(rows))
    assert (none["met"], none["n_rows"], none["estimate"]) == (False, 0, None)


UNREADABLE = {"verdict": Verdict.UNREADABLE}
FAILED_CLEAN = {"verdict": Verdict.FAILED, "at": "baseline"}
FAILED_AFTER = {"verdict": Verdict.FAILED, "at": "attack"}
WRONG = {"verdict": Verdict.ALREADY_WRONG}


@pytest.mark.parametrize(
    ("metric", "ends", "fault"),
    [
        ("asr", [UNREADABLE, UNREADABLE], True),
        ("asr", [FAILED_CLEAN, UNREADABLE], True),
        ("asr", [FAILED_AFTER, FAILED_AFTER], True),
        ("asr", [FAILED_CLEAN, WRONG], True),
        ("asr", [WRONG, WRONG], False),
        ("asr", [FAILED_AFTER, {}], False),
        ("accuracy", [UNREADABLE, UNREADABLE], True),
        ("accuracy", [UNREADABLE, WRONG], False),
        ("accuracy", [FAILED_AFTER, FAILED_AFTER], False),
    ],
)
def test_what_could_not_be_counted_is_a_fault(
    trial: Make, metric: str, ends: Any, fault: bool
) -> None:
    trials = [trial(item_id=str(i), **each) for i, each in enumerate(ends)]
    count, bounds = (asr, asr_bounds(trials, 4)) if metric == "asr" else (accuracy, [0.0, 1.0])
    rows = [row(**{metric: count(trials).as_json(), f"{metric}_bounds": bounds})]
    judged = judge({"metric": metric, "min_low": 0.99}, evidence(rows, (), trials))
    assert (judged["met"], judged["fault"]) == (False, fault)
    assert ("calls failed" in judged["reason"]) is fault


def test_a_row_that_was_measured_and_misses_goes_before_a_fault(trial: Make) -> None:
    good = [trial(item_id=str(i), attack="b", verdict=FLIPPED) for i in range(9)]
    bad = [trial(item_id="x", attack="a", **UNREADABLE)]
    rows = [
        row(name, asr=asr(each).as_json(), asr_bounds=asr_bounds(each, 4))
        for name, each in (("a", bad), ("b", good))
    ]
    members = {place_of(rows[0]): bad, place_of(rows[1]): good}
    found = replace(evidence(rows), trials=members)
    missed = judge({"metric": "asr", "max_high": 0.2}, found)
    assert (missed["row"]["attack"], missed["fault"]) == ("b", False)
    unread = judge({"metric": "asr", "min_low": 0.2}, found)
    assert (unread["row"]["attack"], unread["fault"]) == ("a", True)


def test_a_row_that_cannot_be_judged_goes_before_the_worst_that_can() -> None:
    rows = [
        row("a", asr=estimate(90, 100), asr_bounds=[0.8, 0.95]),
        row("b", asr=estimate(0, 0), asr_bounds=[None, None]),
    ]
    assert judge({"metric": "asr", "max_high": 1.0}, evidence(rows))["row"]["attack"] == "b"


def test_at_a_budget_the_worst_ends_are_of_that_budget(trial: Make) -> None:
    trials = [trial(item_id=str(i), verdict=FLIPPED, first_success=3) for i in range(10)]
    trials += [trial(item_id=f"h{i}", n_unreadable=i < 2) for i in range(90)]
    rows = [row(asr=asr(trials).as_json(), asr_bounds=[0, 1], asr_at=asr_at(trials, 4))]
    at_2 = judge({"metric": "asr", "max_high": 0.1, "at_budget": 2}, evidence(rows, (), trials))
    assert at_2["met"] is True
    assert at_2["estimate"]["value"] == 0
    assert at_2["bounds"] == asr_bounds(trials, 2)
    assert at_2["bounds"][1] == pytest.approx(wilson(2, 100).high)
    at_3 = judge({"metric": "asr", "max_high": 0.1, "at_budget": 3}, evidence(rows, (), trials))
    assert at_3["met"] is False
    beyond = judge({"metric": "asr", "max_high": 0.9, "at_budget": 9}, evidence(rows, (), trials))
    assert "at most 4 queries" in beyond["reason"]


def controlled(**more: Any) -> dict[str, Any]:
    net = {"value": 0.2, "n": 100, "low": 0.12, "high": 0.28, "method": "Tango"}
    return row(
        control={"no_op": estimate(4, 100)},
        control_bounds={"no_op": [0.01, 0.12]},
        asr_net={"no_op": net},
        asr_net_bounds={"no_op": [0.08, 0.3]},
        **more,
    )


def test_a_control_is_read_at_its_worst_and_named() -> None:
    judged = judge({"metric": "control", "max_high": 0.1}, evidence([controlled()]))
    assert (judged["met"], judged["control"], judged["bounds"]) == (False, "no_op", [0.01, 0.12])
    assert judge({"metric": "control", "max_high": 0.12}, evidence([controlled()]))["met"] is True
    net = judge({"metric": "asr_net", "min_low": 0.08}, evidence([controlled()]))
    assert (net["met"], net["estimate"]["value"]) == (True, 0.2)
    assert judge({"metric": "asr_net", "min_low": 0.1}, evidence([controlled()]))["met"] is False


def test_which_of_several_controls_must_be_said() -> None:
    both = controlled()
    both["control"] = {"no_op": estimate(4, 100), "repeat": estimate(1, 100)}
    both["control_bounds"] = {"no_op": [0.0, 0.1], "repeat": [0.0, 0.05]}
    unsaid = judge({"metric": "control", "max_high": 0.5}, evidence([both]))
    assert (unsaid["met"], unsaid["control"]) == (False, None)
    said = {"metric": "control", "max_high": 0.06, "control": "repeat"}
    assert judge(said, evidence([both]))["met"] is True
    none = judge({"metric": "control", "max_high": 0.5}, evidence([row(control={})]))
    assert "no control" in none["reason"]


def test_the_rows_of_controls_are_not_judged_unless_named() -> None:
    rows = [
        row(asr=estimate(50, 100), asr_bounds=[0.4, 0.6]),
        row("random / no_op", asr=estimate(1, 100), asr_bounds=[0.0, 0.05]),
    ]
    assert control_rows(rows) == {"random / no_op"}
    assert judge({"metric": "asr", "min_low": 0.3}, evidence(rows))["met"] is True
    named = {"metric": "asr", "max_high": 0.1, "where": {"attack": "random / no_op"}}
    assert judge(named, evidence(rows))["met"] is True


def test_valid_successes_need_someone_who_vouches() -> None:
    asked = {"metric": "asr_valid", "max_high": 0.9}
    nobody = judge(asked, evidence([row(asr_valid=None)]))
    assert (nobody["met"], nobody["reason"]) == (
        False,
        "nothing vouches for the validity of successes yet",
    )
    few = "4 labels of reviewers, and an estimate needs 10"
    told = judge(asked, evidence([row(asr_valid=None, n_flipped=9, validity={"why": few})]))
    assert (told["met"], told["reason"]) == (False, few)
    labelled = row(asr_valid={**estimate(5, 100), "n_labels": 10})
    assert judge(asked, evidence([labelled]))["met"] is True


def test_where_nothing_succeeded_nobody_has_to_vouch() -> None:
    unhurt = {"n_flipped": 0, "n_eligible": 100, "asr_valid": None, "validity": {"why": "no label"}}
    rows = [row(asr=estimate(0, 100), asr_bounds=[0.0, 0.12], **unhurt)]
    asked = {"metric": "asr_valid"}
    assert judge({**asked, "max_high": 0.12}, evidence(rows))["met"] is True
    # Answers that could not be read may have been successes.
    assert judge({**asked, "max_high": 0.11}, evidence(rows))["met"] is False
    assert judge({**asked, "min_low": 0.01}, evidence(rows))["met"] is False
    nobody = [row(asr=estimate(0, 0), asr_bounds=[None, None], **{**unhurt, "n_eligible": 0})]
    assert judge({**asked, "max_high": 0.5}, evidence(nobody))["met"] is False


def test_an_estimate_without_worst_ends_is_widened_by_the_open_answers(trial: Make) -> None:
    trials = [trial(item_id=str(i), n_unreadable=i < 5, n_asked=8) for i in range(100)]
    found = estimate(10, 100)
    rows = [row(asr_decided=found)]
    asked = {"metric": "asr_decided", "max_high": 0.2}
    judged = judge(asked, evidence(rows, (), trials))
    assert judged["bounds"][1] == pytest.approx(found["high"] + 0.05)
    assert judged["met"] is False
    score = judge({"metric": "diversity", "min_low": 0.1}, evidence([row(diversity=found)]))
    assert score["met"] is False or score["reason"] is None
    unclear = judge(
        {"metric": "diversity", "min_low": 0.0},
        evidence([row(diversity=found)], (), trials, share=False),
    )
    assert unclear["met"] is False
    assert "5 trials have unreadable or missing answers" in unclear["reason"]


def test_every_slice_must_meet_it_and_a_tiny_one_cannot() -> None:
    def of(value: str, k: int, n: int) -> dict[str, Any]:
        found = estimate(k, n)
        bounds = [found["low"], found["high"]]
        return {**row(), "by": "subject", "value": value, "asr": found, "asr_bounds": bounds}

    asked = {"metric": "asr", "max_high": 0.3, "slice": {"by": "subject"}}
    met = judge(asked, evidence((), [of("a", 10, 100), of("b", 12, 100)]))
    assert (met["met"], met["n_rows"]) == (True, 2)
    tiny = judge(asked, evidence((), [of("a", 10, 100), of("b", 0, 2)]))
    assert (tiny["met"], tiny["slice"]) == (False, {"by": "subject", "value": "b"})
    one = {**asked, "slice": {"by": "subject", "value": "a"}}
    assert judge(one, evidence((), [of("a", 10, 100), of("b", 0, 2)]))["met"] is True
    other = {**asked, "slice": {"by": "key"}}
    assert judge(other, evidence((), [of("a", 10, 100)]))["met"] is False


def test_a_difference_to_a_baseline_is_judged_by_its_ends() -> None:
    asked = {"metric": "asr", "max_high": 0.05, "against": {"run": "old"}}
    judged = judge(asked, evidence([row(asr=estimate(1, 2))]))
    assert (judged["met"], judged["against"]) == (True, {"run": "old", "victim": "old"})
    strict = judge({**asked, "max_high": 0.0}, evidence([row(asr=estimate(1, 2))]))
    assert strict["met"] is False


def test_where_no_trial_saw_an_edit_no_loss_is_judged(trial: Make) -> None:
    found = estimate(0, 20)
    rows = [row(asr=found, asr_bounds=[0.0, found["high"]], accuracy=estimate(18, 20))]
    asked = {"metric": "asr", "max_high": 0.3}
    idle = [trial(item_id=str(i), n_asked=0) for i in range(20)]
    judged = judge(asked, evidence(rows, (), idle))
    assert (judged["met"], judged["fault"]) == (None, False)
    assert "nothing was attacked" in judged["reason"]
    accuracy = {"metric": "accuracy", "min_low": 0.5}
    assert judge(accuracy, evidence(rows, (), idle))["met"] is True
    # One that saw an edit is enough to measure; a trial that failed is no idle one.
    assert judge(asked, evidence(rows, (), [*idle, trial(item_id="x", n_asked=8)]))["met"] is True
    failed = [trial(item_id=str(i), verdict=Verdict.FAILED, at="attack") for i in range(20)]
    assert judge(asked, evidence(rows, (), failed))["met"] is not None
