"""Tests of successes on planted trials: p-values, ties, families of one and of twelve."""

from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.significance import SIGNIFICANCE, Significance, settings_key
from medstress.core.arms import AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial, Validity
from medstress.store.reader import StoredInquiry
from planted_trials import arm, inquiry, planted_run, trial

FUZZ = AttackRecord(
    label="MedFuzz", name="medfuzz", budget=5, attempts=5, params={"name": "medfuzz"}
)
SETTINGS: dict[str, Any] = {
    "null": "matched",
    "controls": 30,
    "max_calls": 2_000,
    "generator": "lexicon",
}


def fuzzed(number: int, *, lost: bool = True, attack: AttackRecord = FUZZ, **rest: Any) -> Trial:
    """An attacked question; of a model that gives no scores."""
    made = trial(number, arm(attack, seed=0), flipped_at=1 if lost else None, **rest)
    assert made.before is not None
    return replace(made, before=made.before._replace(scores=None))


def found(one: Trial, **values: Any) -> dict[str, Any]:
    """What the flow found of one success; 30 controls, none of them as hard."""
    plain = {"original": [1.0] * 20, "fuzz": [0.0] * 20, "n": 30, "hard": 0, "distinct": None}
    return {"trial": one.id, **plain, "calls": 61, "note": None, **values}


def stored(tests: list[dict[str, Any]], first: Trial, **settings: Any) -> StoredInquiry:
    """The stored tests of a family; without any they could not finish."""
    return inquiry(
        "test",
        first.arm,
        first.item.id,
        {"trials": [one["trial"] for one in tests], **SETTINGS, **settings},
        note=None if tests else "no route to the server",
        findings={"statistic": "share_correct", "tests": tests} if tests else None,
        calls=61,
    )


def result(trials: list[Trial], *studies: StoredInquiry, **manifest: Any) -> Significance:
    computed = planted_run(trials, inquiries=list(studies), **manifest).of(SIGNIFICANCE)
    assert computed is not None
    return computed


def family(trials: list[Trial], *tests: dict[str, Any], **manifest: Any) -> Significance:
    return result(trials, stored(list(tests), trials[0]), **manifest)


def adjusted_by(how: str) -> dict[str, Any]:
    return {"tests": {settings_key(SETTINGS): how}}


def test_the_papers_share_is_beside_p_of_the_papers_null():
    one = fuzzed(1)
    study = stored([found(one), found(one, hard=3)], one, null="neutral")
    (row,) = result([one], study).rows
    assert [(test.p, test.p_paper) for test in row.items] == [(1 / 31, "< 1/30"), (4 / 31, "0.1")]


@pytest.mark.parametrize(
    ("adjust", "expected"), [("holm", 12 / 31), ("bh", 4 / 31), ("none", 1 / 31)]
)
def test_a_family_of_twelve_holds_what_was_attacked(adjust, expected):
    # Three of twelve are lost; those that held count with p = 1.
    trials = [fuzzed(i, lost=i < 3) for i in range(12)]
    (row,) = family(trials, *map(found, trials[:3]), **adjusted_by(adjust)).rows
    assert row.n_family == 12
    assert [one.p_adjusted for one in row.items] == [pytest.approx(expected)] * 3
    assert (row.n_successes, row.n_discoveries) == (3, 3 if adjust == "none" else 0)


def test_what_is_not_tested_or_cannot_be_counts_with_p_1_and_leaves_no_row():
    one, invalid, broken = fuzzed(1), fuzzed(2), fuzzed(3)
    assert invalid.pick is not None
    pick = replace(invalid.pick, validity=Validity(False, "review"))
    trials = [one, replace(invalid, first=pick, pick=pick), broken, fuzzed(4)]
    shown = family(trials, found(one), found(invalid), found(broken, n=0, note="no text"))
    (row,) = shown.rows
    assert [(test.trial.id, test.p_adjusted) for test in row.items] == [
        (one.id, pytest.approx(4 / 31))
    ]
    (remark,) = (one for one in shown.remarks() if one.rule == "not_testable")
    assert "'q3': no text" in remark.sentence


def test_a_success_on_a_question_that_was_not_known_is_a_guess():
    known = trial(2, arm(FUZZ, seed=0), flipped_at=1, p_before=0.9)
    doubtful = trial(3, arm(FUZZ, seed=0), flipped_at=1, p_before=0.3)
    trials = [fuzzed(1), known, doubtful]
    (row,) = family(trials, *(found(one, original=[0.4] * 20) for one in trials)).rows
    # Without scores the clean T decides, else P(right answer).
    assert [one.guess for one in row.items] == [True, False, True]


def test_few_controls_can_show_nothing_and_the_price_is_named():
    trials = [fuzzed(i, lost=i == 0) for i in range(12)]
    shown = family(trials, found(trials[0], calls=120 + 30 * 15))
    (row,) = shown.rows
    assert row.reach.smallest == pytest.approx(12 / 31)
    # BH at .10 over 12 with one success takes p = .10 / 12: 119 loops of 15 calls, both T, and what
    # two loops may take at most, so that the last one begins.
    assert f"max_calls = {118 * 15 + 120 + 2 * 125}," in sentence(shown)


def sentence(shown: Significance) -> str:
    """What is said of a family that can show nothing."""
    (remark,) = (one for one in shown.remarks() if one.rule == "shows_nothing")
    return remark.sentence


@pytest.mark.parametrize(
    ("n_items", "bought", "max_calls"),
    [
        (6, [(25, 495)] * 2, 555),
        (25, list(zip([27] * 8, [690, 564, 519, 510, 696, 540, 525, 519], strict=True)), 585),
        (72, [(14, 760), *[(13, 700)] * 40], 700),
        (24, [(99, 1_881)], 2_000),
    ],
)
def test_what_a_control_cost_decides_the_price_that_is_named(n_items, bought, max_calls):
    """Planted by a reviewer, who spent what was named and was told the same or less again."""
    trials = [fuzzed(i, lost=i < len(bought)) for i in range(n_items)]
    tests = [found(one, n=n, calls=calls) for one, (n, calls) in zip(trials, bought, strict=False)]
    shown = result(trials, stored(tests, trials[0], max_calls=max_calls))
    named = int(sentence(shown).partition("max_calls = ")[2].partition(",")[0])
    needed = shown.rows[0].reach.controls_needed
    assert needed is not None
    # The calls that are left after T, at what a loop cost, buy the missing loops.
    each = sum(calls - 120 for _, calls in bought) / sum(n for n, _ in bought)
    assert named > max_calls
    assert named - 120 >= needed * each


def test_where_all_tests_have_ended_no_further_call_is_sold():
    trials = [fuzzed(i, lost=i == 0) for i in range(12)]
    shown = family(trials, found(trials[0], n=20, hard=10, calls=700))
    assert [one.rule for one in shown.remarks()] == []


def test_repeated_texts_are_no_new_evidence():
    one = fuzzed(1)
    shown = family([one], found(one, distinct=4))
    assert shown.rows[0].items[0].p == 1 / 5
    assert shown.rows[0].reach.p_min == 1 / 5
    headings = {one.key: one.heading for one in shown.tables()[0].columns}
    assert headings["p_min"] == "Smallest p possible"
    (row,) = shown.tables()[1].rows
    assert row[-1].value == "texts repeat: p is at least 1/5"


def test_where_texts_repeat_no_max_calls_is_named():
    trials = [fuzzed(i, lost=i == 0) for i in range(24)]
    shown = family(trials, found(trials[0], n=384, distinct=114, calls=5_880))
    assert "about 114 distinct controls" in sentence(shown)
    assert "max_calls =" not in sentence(shown)
    assert "generator = 'attacker' ([test])" in sentence(shown)
    # A second success without repeats can still be found by more calls.
    trials = [fuzzed(i, lost=i < 2) for i in range(24)]
    tests = [found(trials[0], n=30, distinct=20, calls=600), found(trials[1], calls=570)]
    assert "about 239 controls a success, so max_calls = " in sentence(family(trials, *tests))


def test_the_latest_test_of_a_null_is_shown():
    one, other = fuzzed(1), fuzzed(2)
    first = stored([found(one), found(other)], one)
    later = stored([found(one, n=60), found(other, n=60)], one, max_calls=4_000)
    neutral = stored([found(one)], one, null="neutral")
    broken = stored([], one, max_calls=8_000)
    shown = result([one, other], first, later, neutral, broken)
    assert [(row.null, row.items[0].n_controls) for row in shown.rows] == [
        ("matched", 60),
        ("neutral", 30),
    ]
    assert "Left out: 1 earlier test." in shown.tables()[0].notes
    assert [one.rule for one in shown.remarks()] == ["not_tested"]


def test_a_family_holds_every_question_once_by_the_first_run_that_attacked_it():
    runs = [
        fuzzed(1, lost=False, repeat=0),
        fuzzed(1, repeat=1),
        fuzzed(2, repeat=0),
        fuzzed(2, repeat=1),
        fuzzed(3, lost=False, repeat=0),
        trial(4, arm(FUZZ, seed=0), verdict=Verdict.ALREADY_WRONG, repeat=0),
        fuzzed(4, repeat=1),
    ]
    lost = [one for one in runs if one.first is not None]
    (row,) = family(runs, *map(found, lost)).rows
    assert (row.n_family, row.n_successes) == (4, 2)
    assert [(one.trial.item.id, one.trial.repeat) for one in row.items] == [("q2", 0), ("q4", 1)]
