"""Shapley profiles of planted values: where the top token lies, and how far an edit moves them."""

from collections.abc import Sequence
from typing import Any

import pytest

from medstress.analyses.explanations import EXPLANATIONS, Explanations
from medstress.analyses.shown import as_json
from medstress.core.arms import AttackRecord
from medstress.core.trials import Trial
from medstress.store.reader import StoredInquiry
from planted_trials import arm, inquiry, planted_run, trial

FAR = AttackRecord(label="far names", name="entity_substitution", params={"n": 20})
NONE = AttackRecord(label="random names", name="entity_substitution", params={"n": None})


def side(edit: float, answer: str | None = "B", rest: float = 0.01, n_rest: int = 30) -> Any:
    """A prompt of `n_rest` tokens of the stem, then option A, then option B, which is the edit.

    Values for B are those of the edit; for A the opposite.
    """
    values = [*([rest] * n_rest), 0.0, edit]
    return {
        "answer": answer,
        "tokens": [*(f"word{i} " for i in range(n_rest)), "aspirin ", "trapicin"],
        "segments": [["stem", False, n_rest], ["A", False, 1], ["B", True, 1]],
        "values": [[-v, v] for v in values],
        "base": [0.5, 0.5],
        "full": [0.5 - sum(values), 0.5 + sum(values)],
        "evaluations": 100,
        "gap": 0.0,
    }


def explained(
    one: Trial,
    before: Any = None,
    after: Any = None,
    mask: str = "...",
    evaluations: int = 100,
    note: str | None = None,
    **of: Any,
) -> StoredInquiry:
    """What `explain` stored of a trial."""
    findings = {
        "outputs": ["A", "B"],
        "key": "A",
        "value": "probability",
        "units": "tokens",
        "before": before or side(0.0, "A"),
        "after": after or side(0.4),
        **of,
    }
    spec = {"trial": one.id, "mask": mask, "evaluations": evaluations}
    parts = {"note": note, "findings": None if note else findings}
    return inquiry("explain", one.arm, one.item.id, spec, **parts)


def explanations(trials: Sequence[Trial], inquiries: Sequence[StoredInquiry]) -> Explanations:
    return planted_run(trials, inquiries=inquiries).of(EXPLANATIONS)


def test_the_top_token_of_a_planted_edit_lies_in_it_beside_what_chance_gives():
    wins = [trial(i, flipped_at=1) for i in range(6)]
    result = explanations(wins, [explained(one) for one in wins])
    row = result.rows[0]
    assert (row.kind, row.n) == ("success", 6)
    edit = row.top_after["edit"]
    assert edit.share.value == 1.0
    assert edit.chance.value == pytest.approx(1 / 32)
    assert edit.excess.value == pytest.approx(31 / 32)
    # The edit is in the option that was answered, which has no other token.
    assert row.top_after["answer"].share.value == 1.0
    # A share of at most 1 exceeds chance by no more, and one of at least 0 lies no farther below.
    assert edit.excess.high == pytest.approx(31 / 32)
    elsewhere = [explained(one, after=side(0.0, "B", rest=0.2)) for one in wins]
    edit = explanations(wins, elsewhere).rows[0].top_after["edit"]
    assert (edit.share.value, edit.excess.value) == (0.0, -1 / 32)
    assert edit.excess.low == -1 / 32 < edit.excess.high


def test_a_top_token_that_moves_into_the_edit_has_changed_and_one_that_stays_has_not():
    near = [trial(i, flipped_at=1) for i in range(4)]
    far = [trial(i, arm(FAR), flipped_at=1) for i in range(2)]
    steady = side(0.0, "B")
    steady["values"][3] = [-0.7, 0.7]
    moved = side(0.0, "A")
    moved["values"][5] = [0.7, -0.7]
    inquiries = [
        *(explained(one, before=moved) for one in near),
        *(explained(one, before=steady, after=steady) for one in far),
    ]
    result = explanations([*near, *far], inquiries)
    rows = {row.regime: row for row in result.rows}
    shares = {regime: row.top_changed for regime, row in rows.items()}
    assert (shares["n<0"].value, shares["n<0"].n) == (1.0, 4)
    assert (shares["n>0"].value, shares["n>0"].n) == (0.0, 2)
    assert all(share.low is not None and share.high is not None for share in shares.values())
    assert rows["n>0"].top_after["edit"].share.value == 0.0
    # An edit is one place: its old and its new name may both be on top.
    kept = explanations(near, [explained(one, before=side(0.4, "B")) for one in near])
    assert kept.rows[0].top_changed.value == 0.0
    unread = explanations(near, [explained(one, after=side(0.4, None)) for one in near])
    assert (unread.rows[0].top_changed.value, unread.rows[0].top_changed.n) == (None, 0)


def test_the_change_near_an_edit_is_told_from_that_farther_away():
    """Only the edit moves: by .4, near it (10 tokens and the edit) are 11 of 32 tokens."""
    wins = [trial(i, flipped_at=1) for i in range(3)]
    row = explanations(wins, [explained(one) for one in wins]).rows[0]
    assert row.near.share.value == pytest.approx(1.0)
    assert row.near.chance.value == pytest.approx(11 / 32)
    assert row.change.value == pytest.approx(0.4 / 32)
    assert row.change_near.value == pytest.approx(0.4 / 11)
    assert row.change_far.value == 0
    spread = [explained(one, after=side(0.01, rest=0.02)) for one in wins]
    row = explanations(wins, spread).rows[0]
    assert row.near.share.value == pytest.approx((9 * 0.01 + 0.01) / (30 * 0.01 + 0.01))


def test_successes_and_failures_and_regimes_stand_apart():
    near = [trial(i, flipped_at=1) for i in range(2)]
    far = [trial(i, arm(FAR), flipped_at=1) for i in range(3)]
    held = [trial(5, arm(FAR)), trial(6, arm(NONE))]
    trials = [*near, *far, *held]
    result = explanations(trials, [explained(one) for one in trials])
    assert {(row.regime, row.kind): row.n for row in result.rows} == {
        (None, "success"): 5,
        (None, "failed"): 2,
        ("n<0", "success"): 2,
        ("n>0", "success"): 3,
        ("n>0", "failed"): 1,
    }
    assert (result.n, result.n_successes) == (7, 5)
    # All successes of a model with one regime are that regime's: tables show them once.
    alone = explanations(near, [explained(one) for one in near])
    assert (len(alone.rows), len(alone.tables()[0].rows)) == (2, 1)


def test_the_finest_explanation_of_a_trial_counts_and_a_failure_is_counted():
    one, other, third = (trial(i, flipped_at=1) for i in (1, 2, 3))
    result = explanations(
        [one, other, third],
        [
            explained(one, evaluations=500, after=side(0.4)),
            explained(one, evaluations=100, after=side(0.0)),
            explained(other, note="away"),
            explained(third, mask=""),
        ],
    )
    assert (result.n, result.n_not_explained, list(result.masks)) == (2, 1, ["", "..."])
    assert result.rows[0].top_after["edit"].share.value == 1.0
    rules = {remark.rule for remark in result.remarks()}
    assert rules >= {"not_explained", "several_masks"}
    retried = explanations([other], [explained(other, note="away"), explained(other)])
    assert retried.n_not_explained == 0


def test_values_that_do_not_add_up_and_edits_that_are_not_shown_are_said():
    one = trial(1, flipped_at=1)
    broken = {**side(0.4), "gap": 0.01}
    hidden = {**side(0.4), "segments": [["stem", False, 32]]}
    result = explanations([one], [explained(one, after=broken)])
    assert list(result.broken) == [one.id]
    result = explanations([one], [explained(one, before=hidden, after=hidden)])
    assert result.n_edit_not_shown == 1
    assert result.rows[0].top_after["edit"].share.n == 0
    assert result.rows[0].near.share.value is None


def test_a_profile_is_a_picture_of_words_in_order():
    one = trial(1, flipped_at=1)
    result = explanations([one], [explained(one)])
    (chart,) = result.charts()
    after = [point for point in chart.points if point.panel.startswith("After: answered B")]
    assert [point.series for point in after][-1] == "trapicin"
    assert (after[-1].y, after[-1].tip, after[-1].marked) == (0.4, "B, edited", True)
    assert not any(point.marked for point in after[:-1])
    assert any(p.panel.startswith("Before: answered A (right)") for p in chart.points)
    assert as_json(result).keys().isdisjoint(("cases", "explained"))
