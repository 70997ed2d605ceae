"""Valid successes: people vouch; rules refute or say nothing, and a panel settles nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

import pytest

from medstress.core.evidence import as_text, of_reason
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics import asr, asr_unrefuted, asr_valid, asr_valid_bounds, asr_valid_bounds_at
from medstress.metrics.counts import pick_success
from medstress.metrics.old_stats.estimates import wilson_ends
from medstress.metrics.valid_bounds import n_censored, n_validity_unknown
from medstress.metrics.validity import validity_fields
from medstress.metrics.vouched import FIRST, NOTHING_VOUCHES, UNREFUTED, vouched_or_why

Make = Callable[..., TrialRow]
FLIPPED = Verdict.FLIPPED
CANNOT = as_text(of_reason("review", None))


def success(trial: Make, item: object, said: bool | None, by: str, **given: Any) -> TrialRow:
    """One success: what is said of its validity, and by whom. People look at what no rule refuted,
    unless the test says otherwise."""
    looked = {"first_unrefuted_success": 1, "sampled": True} if by == "review" else {}
    values = {"valid": said, "validity_reason": by, **looked, **given}
    return trial(item_id=str(item), verdict=FLIPPED, **values)


def successes(trial: Make, *kinds: tuple[int, bool | None, str]) -> list[TrialRow]:
    """So many successes of each kind, each about an item of its own."""
    rows: list[TrialRow] = []
    for n, said, by in kinds:
        rows += [success(trial, f"s{len(rows) + i}", said, by) for i in range(n)]
    return rows


def held(trial: Make, n: int) -> list[TrialRow]:
    return [trial(item_id=f"h{i}") for i in range(n)]


def test_rules_vouch_for_nothing_so_the_rate_is_null_and_has_bounds(trial: Make) -> None:
    trials = successes(trial, (30, None, "rule"), (10, False, "synonym")) + held(trial, 60)
    assert asr(trials).value == 0.4
    assert asr_valid(trials) is None
    assert asr_valid_bounds(trials) == [0, 0.3, 0.3]
    assert asr_unrefuted(trials).value == 0.3
    assert n_validity_unknown(trials) == 30


def test_without_any_success_there_is_nothing_to_vouch_for(trial: Make) -> None:
    assert (asr_valid(held(trial, 5)), asr_valid_bounds(held(trial, 5))) == (None, [0, 0, 0])
    assert (asr_valid([]), asr_valid_bounds([])) == (None, None)
    assert asr_valid_bounds([trial(verdict=Verdict.ALREADY_WRONG)]) is None
    assert n_validity_unknown([trial(valid=None)]) == 0


def test_a_labelled_subsample_speaks_for_all_successes(trial: Make) -> None:
    labels = [(15, True, "review"), (5, False, "review")]
    trials = successes(trial, *labels, (20, None, "rule")) + held(trial, 60)
    found = asr_valid(trials)
    assert found is not None
    assert (found.n_labels, found.estimate.n) == (20, 100)
    p, (p_low, p_high) = 0.4, wilson_ends(40, 100)
    v, (v_low, v_high) = 0.75, wilson_ends(15, 20)
    assert found.estimate.value == pytest.approx(p * v)
    low = p * v - sqrt(((p - p_low) * v) ** 2 + ((v - v_low) * p) ** 2)
    high = p * v + sqrt(((p_high - p) * v) ** 2 + ((v_high - v) * p) ** 2)
    assert (found.estimate.low, found.estimate.high) == (pytest.approx(low), pytest.approx(high))
    assert asr_valid_bounds(trials) == [0.15, 0.35, 0.35]


def test_open_disputes_count_at_their_worst_on_either_side(trial: Make) -> None:
    labels = [(8, True, "review"), (2, False, "review")]
    unseen = (4, None, "rule")
    trials = successes(trial, *labels, (5, None, "review"), unseen) + held(trial, 6)
    found = asr_valid(trials)
    assert found is not None
    assert (found.n_labels, found.n_disputed) == (10, 5)
    ways = [
        asr_valid(successes(trial, *labels, (5, valid, "review"), unseen) + held(trial, 6))
        for valid in (False, True)
    ]
    assert None not in ways
    ends = (ways[0].estimate.low, ways[1].estimate.high)  # type: ignore[union-attr]
    assert found.settled_ends == pytest.approx(ends)
    assert found.settled_ends[0] < found.estimate.low  # type: ignore[operator]
    # "Cannot say" leaves what the rules said, and is as open as a dispute.
    cannot = [
        success(trial, f"c{i}", None, "rule", sampled=True, evidence=CANNOT) for i in range(5)
    ]
    asked = asr_valid([*successes(trial, *labels, unseen), *cannot, *held(trial, 6)])
    assert asked is not None
    assert (asked.n_disputed, asked.settled_ends) == (5, pytest.approx(ends))
    settled = asr_valid(successes(trial, *labels, unseen) + held(trial, 6))
    assert settled is not None
    assert settled.settled_ends == (settled.estimate.low, settled.estimate.high)


def judged(
    trial: Make, name: str, n: int, people: bool | None, panel: bool, **given: Any
) -> list[TrialRow]:
    """So many successes that a panel labelled, and people too unless they have not."""
    by = "panel" if people is None else "review"
    said = [
        of_reason("panel", panel)[0],
        *(of_reason("review", people) if people is not None else ()),
    ]
    values = {"evidence": as_text(said), "first_unrefuted_success": 1, **given}
    return [
        success(trial, f"{name}{i}", panel if people is None else people, by, **values)
        for i in range(n)
    ]


def test_a_panel_is_no_voucher_however_right_it_is(trial: Make) -> None:
    """People call twelve of its successes right and twelve wrong, and it is right in all."""
    gold = [*judged(trial, "c", 12, True, True), *judged(trial, "e", 12, False, False)]
    alone = [*judged(trial, "a", 30, None, True), *judged(trial, "b", 10, None, False)]
    assert vouched_or_why(alone) == NOTHING_VOUCHES
    found = asr_valid([*gold, *alone, *held(trial, 36)])
    assert found is not None
    assert found.n_labels == 24
    assert found.estimate.value == pytest.approx(0.64 * 12 / 24)


def test_how_often_a_panel_agrees_with_people_is_told_of_random_labels_alone(trial: Make) -> None:
    gold = [
        *judged(trial, "a", 18, True, True),
        *judged(trial, "b", 2, True, False),
        *judged(trial, "c", 16, False, False),
        *judged(trial, "d", 4, False, True),
        *judged(trial, "p", 9, False, True, sampled=None),
    ]
    rest = judged(trial, "e", 33, None, True)
    panel = validity_fields([*gold, *rest, *held(trial, 100)])["validity"]["panel"]
    assert panel["n_labels"] == 40
    assert panel["sensitivity"]["value"] == pytest.approx(0.9)
    assert panel["specificity"]["value"] == pytest.approx(0.8)
    assert validity_fields(held(trial, 3))["validity"]["panel"] is None
    unseen = validity_fields(rest)["validity"]["panel"]
    assert (unseen["n_labels"], unseen["sensitivity"]["value"]) == (0, None)


def test_a_panels_word_narrows_no_bound_for_or_against_the_key(trial: Make) -> None:
    alone = [*judged(trial, "a", 30, None, True), *judged(trial, "b", 10, None, False)]
    assert asr_valid_bounds([*alone, *held(trial, 60)]) == [0, 0.4, 0.4]
    assert n_validity_unknown(alone) == 40
    stopped = [success(trial, "c", False, "panel", censored=True)]
    assert asr_valid_bounds([*stopped, *held(trial, 1)]) == [0, 0.5, 0.5]
    # A success that a panel refused is as open as others to people: no stratum of its own.
    labels = [success(trial, f"y{i}", True, "review") for i in range(10)]
    refused = [success(trial, f"n{i}", False, "panel") for i in range(10)]
    found = asr_valid([*labels, *refused, *held(trial, 20)])
    assert found is not None
    assert found.estimate.value == 0.5


def test_sampled_successes_that_a_rater_left_blank_get_both_ends(trial: Make) -> None:
    """Ten of sixteen are filled in, all "yes": the six others may be what was hard."""
    labels = [success(trial, f"y{i}", True, "review") for i in range(10)]
    blank = [success(trial, f"b{i}", None, "rule", sampled=True) for i in range(6)]
    unseen = successes(trial, (4, None, "rule"))
    found = asr_valid([*labels, *blank, *unseen, *held(trial, 20)])
    filled = [success(trial, f"b{i}", False, "review") for i in range(6)]
    worst = asr_valid([*labels, *filled, *unseen, *held(trial, 20)])
    assert found is not None
    assert worst is not None
    assert (found.n_labels, found.n_disputed, found.n_unlabelled) == (10, 0, 6)
    assert found.settled_ends[0] == worst.estimate.low < found.estimate.low  # type: ignore[operator]


def test_labels_that_somebody_picked_are_no_sample(trial: Make) -> None:
    picked = [success(trial, f"p{i}", i < 4, "review", sampled=i >= 14 or None) for i in range(18)]
    trials = [*picked, *successes(trial, (22, None, "rule")), *held(trial, 60)]
    told = vouched_or_why(trials)
    assert told == (
        "4 labels of reviewers, and an estimate needs 10; 14 more are not of a random sample of "
        "the successes"
    )
    assert asr_valid_bounds(trials) == [0.04, 0.26, 0.26]
    # They say nothing of the others in an estimate either.
    sampled = [success(trial, f"q{i}", True, "review") for i in range(10)]
    found = asr_valid([*trials, *sampled])
    assert found is not None
    assert (found.n_labels, found.estimate.value) == (14, pytest.approx(50 / 110 * 10 / 14))


def test_where_people_judged_every_success_no_sample_is_needed(trial: Make) -> None:
    """Three of 100, two valid: a share of the eligible, however few labels."""
    rows = [success(trial, i, i < 2, "review", sampled=None) for i in range(3)]
    found = asr_valid([*rows, *held(trial, 97)])
    assert found is not None
    assert (found.estimate.value, found.n_labels, found.estimate.n) == (0.02, 3, 100)
    assert (found.estimate.low, found.estimate.high) == pytest.approx(wilson_ends(2, 100))


def test_it_says_which_success_the_rate_is_of(trial: Make) -> None:
    rows = successes(trial, (10, True, "review"), (5, None, "rule"))
    first = asr_valid(rows)
    later = asr_valid([*rows[:-1], replace(rows[-1], first_unrefuted_success=3)])
    assert first is not None
    assert later is not None
    assert (first.truth, later.truth) == (FIRST, UNREFUTED)


def test_labels_of_what_rules_left_do_not_speak_for_what_they_refuted(trial: Make) -> None:
    """Of 40 successes a rule refutes 20; a person looks at 10 of the others and finds all valid."""
    kinds = [(10, True, "review"), (10, None, "rule"), (20, False, "same_words")]
    trials = successes(trial, *kinds) + held(trial, 60)
    found = asr_valid(trials)
    assert found is not None
    assert found.estimate.value == pytest.approx(0.2)  # .4 if they spoke for all
    # The same person looks at 10 of the refuted as well, and finds 4 of these valid.
    looked = [
        success(trial, f"r{i}", i < 4, "review", first_unrefuted_success=None) for i in range(10)
    ]
    rest = successes(trial, *kinds[:2], (10, False, "same_words")) + held(trial, 60)
    found = asr_valid([*rest, *looked])
    assert found is not None
    assert found.estimate.value == pytest.approx(0.2 + 0.2 * 0.4)
    assert found.n_labels == 20


def test_with_labels_of_refuted_successes_alone_the_others_stay_unknown(trial: Make) -> None:
    label = success(trial, "r", True, "review", first_unrefuted_success=None)
    rows = [label, *successes(trial, (3, None, "rule"))]
    assert asr_valid(rows) is None
    assert asr_valid_bounds(rows) == [0.25, 1, 1]


def test_the_bounds_count_unknown_and_censored_successes_when_they_can_come(trial: Make) -> None:
    trials = [
        success(
            trial,
            1,
            True,
            "review",
            first_success=1,
            first_valid_success=3,
            first_unrefuted_success=3,
        ),
        success(trial, 2, None, "rule", first_success=2),
        success(trial, 3, False, "synonym", first_success=1, censored=True),
        success(trial, 4, False, "synonym", first_success=1, censored=False),
    ]
    bounds = [each["bounds"] for each in asr_valid_bounds_at(trials, 4)]
    # The censored search ended at query 1: a valid success could have come from query 2 on.
    assert bounds == [[0, 0, 0], [0, 0.25, 0.5], [0.25, 0.5, 0.75], [0.25, 0.5, 0.75]]
    assert asr_valid_bounds(trials) == bounds[-1]
    assert n_censored(trials) == 1
    assert [pick_success(row) for row in trials] == [3, 2, 1, 1]


def test_bounds_of_a_long_search_are_listed_where_they_change(trial: Make) -> None:
    trials = [success(trial, b, None, "rule", first_success=b) for b in (7, 900, 2500)]
    found = asr_valid_bounds_at(trials, 3000)
    assert [each["budget"] for each in found] == [1, 7, 900, 2500, 3000]
    assert found[-1]["bounds"] == [0, 1, 1]
