"""Tests of successes on planted trials: p-values, ties, families of one and of twelve."""

from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.significance import SIGNIFICANCE, Significance, settings_key
from medstress.core.arms import AttackRecord
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
    shown = family(trials, found(trials[0]))
    (row,) = shown.rows
    assert row.reach.smallest == pytest.approx(12 / 31)
    (remark,) = (one for one in shown.remarks() if one.rule == "shows_nothing")
    # BH at .10 over 12 with one success takes p = .10 / 12: 119 loops of 15 calls, and both T.
    assert f"max_calls = {119 * 15 + 120}" in remark.sentence


def test_repeated_texts_are_no_new_evidence():
    one = fuzzed(1)
    shown = family([one], found(one, distinct=4))
    assert shown.rows[0].items[0].p == 1 / 5
    assert shown.rows[0].reach.p_min == 1 / 5
