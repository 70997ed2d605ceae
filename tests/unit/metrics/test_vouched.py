"""Valid successes: people, a panel or a measured checker vouch; rules refute or say nothing."""

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
from medstress.metrics.measured import Elsewhere, Measured, Pairs, measured
from medstress.metrics.valid_bounds import n_censored, n_validity_unknown
from medstress.metrics.validity import validity_fields
from medstress.metrics.vouched import FIRST, UNREFUTED, vouched_or_why
from medstress.stats.estimates import wilson, wilson_ends
from medstress.stats.prevalence import Errors

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
    assert (found.vouched_by, found.n_labels, found.estimate.n) == ("review", 20, 100)
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


def test_a_panel_counts_only_if_it_was_measured_on_peoples_labels(trial: Make) -> None:
    alone = [*judged(trial, "a", 30, None, True), *judged(trial, "b", 10, None, False)]
    found = vouched_or_why(alone, measured(alone))
    assert found == (
        "the panel was measured on 0 successes of drugs whose key people call right and 0 whose "
        "key they call wrong, and 10 of each are needed"
    )
    # Elsewhere in the run people labelled 24 of its successes: it is right in twenty.
    gold = [
        *judged(trial, "c", 10, True, True),
        *judged(trial, "d", 2, True, False),
        *judged(trial, "e", 10, False, False),
        *judged(trial, "f", 2, False, True),
    ]
    known = measured([*alone, *gold])
    vouched = asr_valid([*alone, *held(trial, 60)], known)
    assert vouched is not None
    assert (vouched.vouched_by, vouched.n_labels) == ("panel", 40)
    # .75 of them are valid by its word, which is right on five of six either way: .875 in truth.
    assert vouched.estimate.value == pytest.approx(0.4 * 0.875)
    assert vouched.estimate.high - vouched.estimate.low > 0.24  # type: ignore[operator]
    assert "errs on these successes as on those that people labelled" in str(vouched.assumes)
    assert vouched.corrected_by == "sensitivity .833 of 12, specificity .833 of 12"
    # People, where they said enough, are believed before it: 12 of 24.
    trials = [*gold, *alone]
    believed = asr_valid([*trials, *held(trial, 36)], known)
    assert believed is not None
    assert (believed.vouched_by, believed.n_labels) == ("review", 24)
    assert believed.estimate.value == pytest.approx(0.64 * 12 / 24)


@pytest.mark.parametrize(
    ("gold", "why"),
    [
        # It calls everything valid that is left, as after a search that it steered itself.
        ([(10, True, True), (10, False, True)], "add up to 1 or less"),
        ([(12, True, True)], "12 successes of drugs whose key people call right and 0 whose"),
        ([(12, False, False)], "call right and 12 whose key they call wrong, and 10 of each"),
        ([(15, True, True), (9, False, False)], "call right and 9 whose key they call wrong"),
    ],
)
def test_a_panel_that_tells_nothing_vouches_for_nothing_and_says_why(
    trial: Make, gold: list[tuple[int, bool, bool]], why: str
) -> None:
    rows = [
        row
        for i, (n, people, panel) in enumerate(gold)
        for row in judged(trial, f"g{i}", n, people, panel)
    ]
    others = judged(trial, "o", 20, None, True)
    told = vouched_or_why(others, measured([*rows, *others]))
    assert isinstance(told, str)
    assert why in told
    (checker,) = validity_fields(others, measured([*rows, *others]))["validity"]["checkers"]
    assert (checker["asr_valid_corrected"], checker["why"]) == (None, told)


def checked(trial: Make, name: str, group: str, n: int, said: bool) -> list[TrialRow]:
    """So many successes of a group that a checker has a word on and nobody else."""
    values = {"evidence": as_text(of_reason("checker", said)), "first_unrefuted_success": 1}
    values |= {"group": group}
    return [success(trial, f"{name}{i}", None, "rule", **values) for i in range(n)]


def pairs(different: tuple[int, int], same: tuple[int, int]) -> Pairs:
    """(right, of) among pairs that are different, and among those that mean the same."""
    errors = Errors(
        n_true=different[1],
        n_true_found=different[0],
        n_false=same[1],
        n_false_found=same[0],
    )
    return Pairs(errors=errors, sensitivity=wilson(*different), specificity=wilson(*same))


@pytest.mark.parametrize(
    ("drugs", "why"),
    [
        ({"drugs": pairs((0, 12), (0, 12))}, "1 or less on the pairs of type 'drugs'"),
        ({"drugs": pairs((0, 4), (0, 4))}, "placed 4 pairs of type 'drugs' that are different"),
        ({}, "placed 0 pairs of type 'drugs' that are different and 0 that mean the same"),
    ],
)
def test_a_checker_vouches_for_no_type_that_it_is_wrong_about_or_was_not_measured_on(
    trial: Make, drugs: dict[str, Pairs], why: str
) -> None:
    """All right on 400 pairs of diseases, and what is attacked are drugs."""
    known = Elsewhere(
        name="two.py:same",
        by_type={"diseases": pairs((200, 200), (200, 200)), **drugs},
        types={"pills": "drugs"},
    )
    rows = checked(trial, "a", "pills", 30, True) + checked(trial, "b", "pills", 10, False)
    ill = checked(trial, "c", "diseases", 30, True) + checked(trial, "d", "diseases", 10, False)
    sources = measured([*rows, *ill], known)
    fields = validity_fields([*rows, *held(trial, 60)], sources)
    assert fields["asr_valid"] is None
    assert why in fields["validity"]["why"]
    assert fields["asr_valid_bounds"] == [0, 0.4, 0.4]
    (checker,) = fields["validity"]["checkers"]
    assert checker["asr_valid_corrected"] is None
    assert checker["sensitivity"]["value"] in (0, None)
    vouched = asr_valid([*ill, *held(trial, 60)], sources)
    assert vouched is not None
    assert vouched.estimate.value == pytest.approx(0.3)


def test_a_panel_vouches_for_no_group_or_class_that_it_is_wrong_about(trial: Make) -> None:
    diseases = [(("diseases", ""), (f"g{i}",), i % 2 == 0, i % 2 == 0) for i in range(60)]
    drugs = [(("drugs", ""), (f"h{i}",), i % 2 == 0, i % 2 == 1) for i in range(20)]
    rows = judged(trial, "a", 30, None, True)
    for wrong, why in ((drugs, "1 or less on people's labels of drugs"), ([], "0 successes of dr")):
        told = vouched_or_why(rows, {"panel": Measured(source="panel", cases=diseases + wrong)})
        assert isinstance(told, str)
        assert why in told
    # Right about drugs as a whole, and useless for those of one class.
    right = [(("drugs", ""), (f"i{i}",), i % 2 == 0, i % 2 == 0) for i in range(60)]
    near = [(("drugs", "near"), unit, truth, said) for _, unit, truth, said in drugs]
    rows = judged(trial, "a", 30, None, True, variant_class="near")
    told = vouched_or_why(rows, {"panel": Measured(source="panel", cases=right + near)})
    assert "add up to 1 or less" in str(told)


def test_peoples_labels_that_show_a_checker_useless_are_not_outvoted_by_pairs(trial: Make) -> None:
    def said(name: str, people: bool, checker: bool) -> list[TrialRow]:
        words = [of_reason("checker", checker)[0], *of_reason("review", people)]
        values = {"evidence": as_text(words), "sampled": True, "first_unrefuted_success": 1}
        return [success(trial, f"{name}{i}", people, "review", **values) for i in range(12)]

    known = Elsewhere(name="c", by_type={"drugs": pairs((99, 99), (99, 99))}, types={})
    rows = checked(trial, "a", "drugs", 30, True)
    told = vouched_or_why(
        rows, measured([*rows, *said("b", True, True), *said("c", False, True)], known)
    )
    assert "people's labels of drugs" in str(told)
    assert asr_valid(rows, measured(rows, known)) is not None


def test_the_error_rates_that_corrected_a_rate_are_shown_and_that_it_was_cut(trial: Make) -> None:
    """Reader's case: by the rates of all pairs .69 of .70, by those of drugs cut to all valid."""
    by_type = {"drugs": pairs((17, 20), (8, 14)), "diseases": pairs((6, 10), (9, 10))}
    known = Elsewhere(name="mine.py:noisy", by_type=by_type, types={})
    rows = checked(trial, "a", "drugs", 39, True) + checked(trial, "b", "drugs", 3, False)
    trials = [*rows, *held(trial, 18)]
    fields = validity_fields(trials, measured(trials, known))
    assert fields["asr_valid"]["value"] == pytest.approx(42 / 60)
    told = (
        "sensitivity .850 of 20, specificity .571 of 14, which make more than all valid: cut to 1"
    )
    assert fields["asr_valid"]["corrected_by"] == told
    (checker,) = fields["validity"]["checkers"]
    assert (checker["corrected_by"], checker["n_labels"]) == (told, 34)
    assert checker["sensitivity"]["value"] == pytest.approx(17 / 20)
    assert checker["specificity"]["value"] == pytest.approx(8 / 14)


def test_a_correction_stands_beside_the_estimate_and_names_what_it_assumes(trial: Make) -> None:
    """A panel with sensitivity .9 and specificity .8, of 100 successes .55 called valid: .5."""
    gold = [
        *judged(trial, "a", 18, True, True),
        *judged(trial, "b", 2, True, False),
        *judged(trial, "c", 16, False, False),
        *judged(trial, "d", 4, False, True),
    ]
    rest = [*judged(trial, "e", 33, None, True), *judged(trial, "f", 27, None, False)]
    fields = validity_fields([*gold, *rest, *held(trial, 100)], measured([*gold, *rest]))
    assert fields["asr_valid"]["vouched_by"] == "review"
    (checker,) = fields["validity"]["checkers"]
    assert checker["sensitivity"]["value"] == pytest.approx(0.9)
    assert checker["specificity"]["value"] == pytest.approx(0.8)
    corrected = checker["asr_valid_corrected"]
    assert corrected["value"] == pytest.approx(0.5 * 0.5)
    assert corrected["low"] < 0.25 < corrected["high"]
    assert "errs on these successes as on those that people labelled" in checker["assumes"]


def test_a_panels_word_narrows_no_bound_for_or_against_the_key(trial: Make) -> None:
    alone = [*judged(trial, "a", 30, None, True), *judged(trial, "b", 10, None, False)]
    assert asr_valid_bounds([*alone, *held(trial, 60)]) == [0, 0.4, 0.4]
    assert n_validity_unknown(alone) == 40
    stopped = [success(trial, "c", False, "panel", censored=True)]
    assert asr_valid_bounds([*stopped, *held(trial, 1)]) == [0, 0.5, 0.5]
    # A success that a panel refused is as open as others to people: no stratum of its own.
    labels = [success(trial, f"y{i}", True, "review") for i in range(10)]
    refused = [success(trial, f"n{i}", False, "panel") for i in range(10)]
    found = asr_valid(
        [*labels, *refused, *held(trial, 20)], {"panel": Measured(source="panel", cases=[])}
    )
    assert found is not None
    assert found.estimate.value == 0.5


def test_what_a_panel_has_no_word_on_is_open_on_both_sides(trial: Make) -> None:
    gold = [*judged(trial, "g", 20, True, True), *judged(trial, "h", 20, False, False)]
    alone = [*judged(trial, "a", 30, None, True), *judged(trial, "b", 10, None, False)]
    rest = successes(trial, (20, None, "rule"))
    known = measured(gold)
    whole = asr_valid([*alone, *held(trial, 60)], known)
    found = asr_valid([*alone, *rest, *held(trial, 40)], known)
    assert whole is not None
    assert found is not None
    assert (found.n_labels, found.n_unlabelled) == (40, 20)
    assert found.estimate.value == pytest.approx(0.6 * 0.75)
    assert found.estimate.low == pytest.approx(whole.estimate.low)
    assert found.estimate.high > whole.estimate.high + 0.2  # type: ignore[operator]
    assert found.settled_ends == (found.estimate.low, found.estimate.high)


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
    told = vouched_or_why(trials, {})
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
