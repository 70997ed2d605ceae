"""Transfer between planted models: to itself, to one that is always wrong, to a mute one."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.run import Run
from medstress.analyses.transfer import TRANSFER, Carried, Transfer
from medstress.core.arms import AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.text import edit_rows
from medstress.core.trials import Trial
from medstress.store.reader import StoredInquiry
from planted_trials import NEAR, arm, inquiry, planted_run, trial

ON: dict[str, Any] = {"config": {"experiment": {"name": "t"}, "analysis": {"transfer": True}}}


def won(number: int, victim: str = "i", *, repeats: bool | None = True, **of: Any) -> Trial:
    """A success of model i on a question."""
    one = trial(number, of.pop("at", None) or arm(victim=victim), flipped_at=1, **of)
    first = replace(one.first, repeats=repeats)
    return replace(one, first=first, pick=first)


def asked(one: Trial, target: str, outcome: str | None, **of: Any) -> StoredInquiry:
    """What a model answered about a success; no outcome: the call failed."""
    edits = of.pop("edits", one.first.edits)
    at = replace(one.arm, place=one.arm.place._replace(victim=target))
    spec = {"source": one.arm.place.victim, "trial": one.id, "edits": json.dumps(edit_rows(edits))}
    answer = {
        "outcomes": [] if outcome is None else [outcome],
        "reached": None if outcome is None else outcome == "wrong",
    }
    return inquiry("transfer", at, one.item.id, spec, **{**answer, **of})


def transfer(trials: Sequence[Trial], inquiries: Sequence[StoredInquiry] = ()) -> Transfer:
    return run_of(trials, inquiries).of(TRANSFER)


def run_of(trials: Sequence[Trial], inquiries: Sequence[StoredInquiry] = ()) -> Run:
    return planted_run(trials, inquiries=inquiries, **ON)


def matrix(result: Transfer) -> dict[tuple[str, str], Carried]:
    return {(row.source, row.target): row for row in result.rows}


def test_both_counts_of_every_pair_are_right():
    ours = [won(i, repeats=i > 0) for i in range(4)]
    others = [
        *(trial(i, arm(victim="j")) for i in range(3)),
        trial(3, arm(victim="j"), verdict=Verdict.ALREADY_WRONG),
    ]
    outcomes = ("wrong", "right", "unreadable", "wrong")  # j was wrong on the last clean item
    rows = matrix(
        transfer(
            [*ours, *others],
            [asked(one, "j", word) for one, word in zip(ours, outcomes, strict=True)],
        )
    )
    assert set(rows) == {("i", "i"), ("i", "j")}  # j never succeeded: nothing to carry
    row = rows["i", "j"]
    assert (row.n_successes, row.n_right, row.n_items, row.n_asked) == (4, 3, 3, 3)
    assert (row.n_reached, row.n_wrong, row.n_unreadable, row.n_open) == (1, 1, 1, 0)
    assert (row.transfer.hits, row.transfer.n) == (1, 3)
    # The unreadable answer may be wrong as well.
    assert row.transfer.worst[0] == row.transfer.low
    assert (row.transfer.worst[1] or 0) > row.transfer.high
    check = rows["i", "i"]
    assert (check.n_asked, check.n_wrong, check.transfer.value) == (4, 3, 0.75)
    assert check.transfer.worst is None


def test_to_a_mute_model_nothing_is_shown_to_carry_and_all_of_it_may():
    ours = [won(i) for i in range(20)]
    mute = [trial(i, arm(victim="j"), asked=8, unreadable=8) for i in range(20)]
    result = transfer([*ours, *mute], [asked(one, "j", "unreadable") for one in ours])
    row = matrix(result)["i", "j"]
    assert (row.transfer.value, row.n_unreadable) == (0.0, 20)
    assert row.transfer.worst[1] == 1.0
    assert row.transfer.ends[1] == 1.0


@pytest.mark.parametrize(
    ("goal", "params", "n_wrong"),
    [
        ("untargeted", {}, 2),
        # What repeats may be an unreadable answer, and a wrong one that is not C does not repeat.
        ("untargeted", {"unreadable_is_success": True}, None),
        ("C", {}, None),
    ],
)
def test_the_flip_check_does_not_say_wrong_where_other_answers_count(goal, params, n_wrong):
    attack = AttackRecord(label="a", name="entity_substitution", goal=goal, params=params)
    at = arm(attack, victim="i")
    (row,) = transfer([won(i, at=at, repeats=i > 0) for i in range(3)]).rows
    assert (row.n_asked, row.n_reached, row.n_wrong, row.n_unreadable) == (3, 2, n_wrong, None)


def test_what_failed_is_open_and_a_retry_counts_once():
    ours = [won(i) for i in range(3)]
    others = [trial(i, arm(victim="j")) for i in range(3)]
    first = [asked(one, "j", None) for one in ours]
    result = transfer([*ours, *others], first)
    row = matrix(result)["i", "j"]
    assert (row.n_asked, row.n_open, row.transfer.value) == (0, 3, None)
    assert row.transfer.worst == pytest.approx((0.0, 1.0))
    assert "--retry-failed" in next(iter(result.remarks())).sentence
    again = [*first, *(asked(one, "j", "wrong") for one in ours), asked(ours[0], "j", None)]
    row = matrix(transfer([*ours, *others], again))["i", "j"]
    assert (row.n_asked, row.n_open, row.transfer.value) == (3, 0, 1.0)


def test_every_seed_counts_and_seeds_of_one_item_are_worth_less_than_items():
    ours = [won(i, at=arm(victim="i", seed=s)) for i in range(4) for s in range(5)]
    others = [trial(i, arm(victim="j")) for i in range(4)]
    answered = [asked(one, "j", "wrong" if one.item.id == "q0" else "right") for one in ours]
    row = matrix(transfer([*ours, *others], answered))["i", "j"]
    assert (row.n_right, row.n_items, row.transfer.value) == (20, 4, 0.25)
    assert row.transfer.effect >= 5
    one_seed = [one for one in ours if one.arm.seed == 3]
    row = matrix(transfer([*one_seed, *others], answered))["i", "j"]
    assert (row.n_right, row.transfer.value, row.transfer.effect) == (4, 0.25, 1.0)


def test_groups_attacks_and_data_sets_are_kept_apart_and_share_clean_answers():
    """The same item in two groups: that the other model has it right holds for both."""
    one = won(1, at=arm(victim="i", group="diseases"))
    far = won(1, at=arm(replace(NEAR, label="far names"), victim="i"))
    elsewhere = trial(1, arm(victim="k", dataset="other"))
    right = trial(1, arm(victim="j"))
    result = transfer([one, far, right, elsewhere], [asked(far, "j", "wrong")])
    rows = {(row.group, row.attack, row.target): row for row in result.rows}
    assert rows["diseases", "near names", "j"].n_right == 1
    assert rows["diseases", "near names", "j"].n_asked == 0
    assert rows["drugs", "far names", "j"].transfer.value == 1
    assert not any(row.target == "k" for row in result.rows)
