"""Tests of successes on planted trials: p-values, ties, families of one and of twelve."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.as_json import as_json
from medstress.analyses.families import settings_key
from medstress.analyses.significance import SIGNIFICANCE, Significance
from medstress.core.arms import AttackRecord
from medstress.core.trials import Trial, Validity
from medstress.stats.permutation import ControlPlan, is_as_hard, p_values
from medstress.store.reader import StoredInquiry
from medstress.testing.planted_trials import arm, planted_run, trial

FUZZ = AttackRecord(
    label="MedFuzz", name="medfuzz", budget=5, attempts=5, params={"name": "medfuzz"}
)
SETTINGS: dict[str, Any] = {
    "null": "matched",
    "controls": 30,
    "max_calls": None,
    "generator": "lexicon",
}


def fuzzed(number: int, *, lost: bool = True, **rest: Any) -> Trial:
    """An attacked question; of a model that gives no scores."""
    made = trial(number, arm(FUZZ, seed=0), flipped_at=1 if lost else None, **rest)
    assert made.before is not None
    return replace(made, before=made.before._replace(scores=None))


def stored(
    one: Trial,
    as_hard: list[bool] | None = None,
    original: float = 1.0,
    fuzz: float = 0.0,
    n_distinct: int | None = None,
    **settings: Any,
) -> StoredInquiry:
    """The stored test of one success; without controls it ended early."""
    spec = {"trial": one.id, "edits": "[]", **SETTINGS, **settings}
    findings = None
    if as_hard is not None:
        findings = {
            "statistic": "share_correct",
            "original": [original] * 20,
            "fuzz": [fuzz] * 20,
            "most": len(as_hard) if spec["controls"] != "adaptive" else 30,
            "controls": [],
            "as_hard": as_hard,
            "n_distinct": n_distinct,
        }
    return StoredInquiry(
        **one.arm.place._asdict(),
        attack=one.arm.attack.label,
        seed=one.arm.seed,
        item_id=one.item.id,
        purpose="test",
        spec=spec,
        outcomes=[],
        reached=None,
        note=None if findings else "not tested: nothing could be read",
        findings=findings,
        calls=61,
    )


def result(trials: list[Trial], tests: list[StoredInquiry], /, **manifest: Any) -> Significance:
    computed = planted_run(trials, inquiries=tests, **manifest).of(SIGNIFICANCE)
    assert computed is not None
    return computed


def scope(adjust: str, items: tuple[str, ...] = (), **settings: Any) -> dict[str, Any]:
    key = settings_key({**SETTINGS, **settings})
    return {"tests": {key: {"adjust": adjust, "items": list(items)}}}


NONE_AS_HARD = [False] * 30


def test_a_success_beyond_thirty_controls_has_p_of_1_in_31() -> None:
    one = fuzzed(1)
    shown = result([one], [stored(one, NONE_AS_HARD)])
    ((test,),) = (row.items for row in shown.rows)
    assert test.p == 1 / 31
    assert test.p_paper == "< 1/30"
    assert (test.count, test.n_controls, test.calls) == (0, 30, 61)
    assert (test.t_original, test.t_attack, test.guess) == (1.0, 0.0, False)
    # A family of one is adjusted over itself.
    assert (shown.rows[0].n_family, test.p_adjusted) == (1, 1 / 31)
    assert shown.families[0].n_discoveries == 1


def test_ties_count_against_significance() -> None:
    assert is_as_hard(0.4, 0.4)
    one = fuzzed(1)
    shown = result([one], [stored(one, [is_as_hard(0.4, 0.4)] * 30)])
    assert shown.rows[0].items[0].p == 1.0


@pytest.mark.parametrize(
    ("adjust", "expected"), [("holm", 12 / 31), ("bh", 4 / 31), ("none", 1 / 31)]
)
def test_a_family_of_twelve_holds_what_was_attacked(adjust: str, expected: float) -> None:
    # Three of twelve are lost; those that held count with p = 1.
    trials = [fuzzed(i, lost=i < 3) for i in range(12)]
    tests = [stored(one, NONE_AS_HARD) for one in trials[:3]]
    shown = result(trials, tests, **scope(adjust))
    (row,) = shown.rows
    assert row.n_family == 12
    assert [one.p_adjusted for one in row.items] == [pytest.approx(expected)] * 3
    (family,) = shown.families
    assert (family.n_successes, family.n_attacked, family.n_open) == (3, 12, 0)
    assert family.n_discoveries == (3 if adjust == "none" else 0)


def test_a_success_that_is_not_tested_yet_counts_in_the_family() -> None:
    trials = [fuzzed(i) for i in range(4)]
    shown = result(trials, [stored(trials[0], NONE_AS_HARD)], **scope("holm"))
    assert shown.rows[0].items[0].p_adjusted == pytest.approx(4 / 31)
    assert shown.families[0].n_open == 3


def test_neutral_adjusts_over_the_successes_that_were_named() -> None:
    trials = [fuzzed(i, lost=i < 4) for i in range(8)]
    tests = [stored(one, NONE_AS_HARD, null="neutral") for one in trials[:4]]
    named = scope("holm", ("q0", "q1"), null="neutral")
    (row,) = result(trials, tests, **named).rows
    assert row.n_family == 2
    assert [one.p_adjusted for one in row.items] == [pytest.approx(2 / 31)] * 2 + [None, None]


def test_what_people_find_invalid_is_left_out() -> None:
    one, refused = fuzzed(1), fuzzed(2)
    assert refused.pick is not None
    invalid = replace(refused.pick, validity=Validity(False, "review"))
    refused = replace(refused, first=invalid, pick=invalid)
    shown = result([one, refused], [stored(t, NONE_AS_HARD) for t in (one, refused)])
    first, second = shown.rows[0].items
    assert first.p_adjusted == pytest.approx(2 / 31)
    assert second.p_adjusted is None
    assert second.note is not None
    assert shown.families[0].n_refused == 1


def test_a_test_that_ended_early_is_no_member() -> None:
    trials = [fuzzed(1), fuzzed(2)]
    shown = result(trials, [stored(trials[0], NONE_AS_HARD), stored(trials[1])])
    assert shown.rows[0].n_family == 1
    assert [one.p for one in shown.rows[0].items] == [1 / 31, None]
    assert "not_testable" in {remark.rule for remark in shown.remarks()}


def test_a_success_on_a_question_that_was_not_known_is_a_guess() -> None:
    unknown = fuzzed(1)
    known = trial(2, arm(FUZZ, seed=0), flipped_at=1, p_before=0.9)
    doubtful = trial(3, arm(FUZZ, seed=0), flipped_at=1, p_before=0.3)
    trials = [unknown, known, doubtful]
    shown = result(trials, [stored(one, NONE_AS_HARD, original=0.4) for one in trials])
    # Without scores the clean T decides, else P(right answer).
    assert [one.guess for one in shown.rows[0].items] == [True, False, True]


def test_few_controls_can_show_nothing_and_the_price_is_named() -> None:
    trials = [fuzzed(i, lost=i == 0) for i in range(12)]
    adaptive: dict[str, Any] = {"controls": "adaptive", "max_calls": 2_000}
    shown = result(trials, [stored(trials[0], NONE_AS_HARD, **adaptive)], **scope("bh", **adaptive))
    (family,) = shown.families
    assert family.smallest_p_adjusted == pytest.approx(12 / 31)
    assert family.shortfall is not None
    # BH at .10 over 12 with one success takes p = .10 / 12: 119 controls of 15 + 60 calls, and T.
    assert f"max_calls = {119 * 75 + 60}" in family.shortfall
    assert "shows_nothing" in {remark.rule for remark in shown.remarks()}


def test_repeated_texts_are_no_new_evidence() -> None:
    one = fuzzed(1)
    shown = result([one], [stored(one, NONE_AS_HARD, n_distinct=4)])
    assert shown.rows[0].items[0].p == 1 / 5
    assert shown.families[0].smallest_p == 1 / 5


def test_attacks_with_other_goals_are_another_family() -> None:
    aimed = replace(FUZZ, label="aimed", goal="B")
    trials = [fuzzed(1), trial(1, arm(aimed, seed=0), flipped_at=1)]
    shown = result(trials, [stored(one, NONE_AS_HARD) for one in trials])
    assert [row.n_family for row in shown.rows] == [1, 1]


def test_ten_controls_as_hard_end_a_test() -> None:
    values = p_values([True, False] * 15, ControlPlan(stop_at=10))
    assert values.p == 10 / 19
    # The paper's share is of the first thirty controls.
    assert values.p_paper == 0.5
    with pytest.raises(ValueError, match="fewer"):
        p_values([True] * 5, ControlPlan())


def test_json_has_the_fields_of_the_interface() -> None:
    one = fuzzed(1)
    (row,) = as_json(result([one], [stored(one, NONE_AS_HARD)]).rows)
    assert {"dataset", "victim", "attack", "null", "n_family", "items"} == set(row)
    names = {"trial_id", "p", "p_adjusted", "count", "n_controls", "t_original", "t_attack"}
    assert names | {"guess", "calls"} <= set(row["items"][0])
    assert row["null"] == "matched"


def test_refused_settings_are_said_without_any_test() -> None:
    shown = result([fuzzed(1)], [], tests={"{}": "refused: only 12 controls can be had"})
    assert shown.tables() == ()
    (remark,) = shown.remarks()
    assert "only 12 controls can be had" in remark.sentence
