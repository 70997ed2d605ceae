"""Exported rows of planted trials: each column says what was planted."""

from dataclasses import replace
from typing import Any

import pytest

from medstress.analyses.exported import COLUMNS, EXCHANGES, REVIEWS, TABLES, trial_row
from medstress.core.arms import AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.sentences import TaggedText
from medstress.core.text import Edit
from medstress.core.trials import Answer, Queries, Success, Trial, Validity
from medstress.core.validity import Evidence
from medstress.store.prompts import Shown
from planted_trials import SWAP, arm, control, edit, paired, question, trial

SHOWN = Shown("clean", "new", "A: x", "A: y")


def row(one: Trial, shown: Shown | None = None) -> dict[str, Any]:
    return dict(trial_row(one, shown))


def success(query: int, name: str, validity: Validity) -> Success:
    return Success(
        query=query,
        edits=(edit(name, "B"), edit("second", "C")),
        answer=Answer("C", scores=(-2.0, -1.0, -0.5, -3.0)),
        attempt=2,
        validity=validity,
        variant="different",
        repeats=False,
    )


@pytest.fixture
def refuted_first():
    """A search that went on after a rule had refuted the first success."""
    rule = Evidence(kind="synonym", source="rules", valid=False)
    first = success(2, "alias", Validity(False, "synonym", (rule,)))
    pick = success(5, "other drug", Validity(True, "review", ()))
    return replace(
        trial(1, arm(), item=question(1)),
        verdict=Verdict.FLIPPED,
        first=first,
        pick=pick,
        last=pick.answer,
        edits=pick.edits,
        queries=Queries(asked=5, paid=3, cached=1, failed=1, unreadable=1, rejected=4),
    )


def test_the_columns_are_those_of_the_interface_in_every_row(refuted_first):
    for one, names in (
        (refuted_first, ("attack", None)),
        (trial(2, control()), ("no_op", "near names")),
    ):
        assert list(row(one)) == list(COLUMNS) == list(TABLES["trials"])
        assert (row(one)["arm"], row(one)["control_of"]) == names
    assert "victim" not in EXCHANGES
    assert list(REVIEWS)[:3] == ["case_id", "trial_id", "control_of"]


def test_rates_count_the_first_success_and_people_see_the_pick(refuted_first):
    found = row(refuted_first, SHOWN)
    assert (found["first_success"], found["first_success_attempt"]) == (2, 2)
    assert (found["replacement"], found["answer_after"]) == ("other drug", "C")
    assert (found["valid"], found["validity_reason"]) == (True, "review")
    assert found["first_valid_success"] == 5
    assert found["evidence"] == []
    assert found["score_after"] == pytest.approx(0.1353352832366127)
    assert (found["variant_class"], found["repeats"]) == ("different", False)
    assert [one["field"] for one in found["edits"]] == ["B", "C"]
    assert (found["option"], found["replaced"]) == ("B", "drug")
    assert (found["edit_characters"], found["edit_tokens"]) == (6, 1)
    counts = [found[f"n_{name}"] for name in ("asked", "paid", "cached", "failed")]
    assert counts == [5, 3, 1, 1]
    assert (found["n_unreadable"], found["n_rejected"]) == (1, 4)
    assert [found[name] for name in ("prompt_before", "prompt_after")] == ["clean", "new"]
    assert [found[name] for name in ("listing_before", "listing_after")] == ["A: x", "A: y"]


def test_the_last_answer_of_a_search_that_held_is_about_no_edit_of_the_row():
    held = replace(trial(1, arm()), verdict=Verdict.HELD, first=None, pick=None)
    held = replace(held, edits=(), last=Answer("B", scores=(-1.0, -1.0, -1.0, -1.0)))
    found = row(held)
    assert (found["answer_after"], found["score_after"]) == (None, None)
    assert (found["edits"], found["option"], found["evidence"]) == ([], None, None)


def test_a_copy_that_changed_nothing_was_answered_all_the_same():
    at = arm(AttackRecord(label="swap", name="swap_noise", whole_copy=True, judged=False))
    found = row(paired(1, at, 3.5, 0.75, 0.5))
    assert (found["key"], found["score_before"], found["score_after"]) == ("3.5", 0.75, 0.5)
    assert (found["answer_after"], found["gold_before"]) == (None, None)


def test_labels_of_a_tagged_text_are_the_right_ones_and_the_models(refuted_first):
    text = TaggedText(id="s", tokens=("took", "aspirin"), labels=("O", "B-Drug"))
    made = Edit(field="tokens", start=1, end=2, replacement="salicylic acid")
    tagged = replace(
        refuted_first,
        arm=arm(SWAP),
        item=text.units()[0],
        before=Answer("B-Drug", text="O B-Drug"),
        last=Answer("O O", text="O O O"),
        edits=(made,),
    )
    found = row(tagged, SHOWN)
    assert (found["unit"], found["key"]) == ("1:2:Drug", "Drug")
    assert (found["gold_before"], found["labels_before"]) == (["O", "B-Drug"], ["O", "B-Drug"])
    assert found["gold_after"] == ["O", "B-Drug", "I-Drug"]
    assert found["labels_after"] == ["O", "O", "O"]
    elsewhere = Edit(field="tokens", start=0, end=1, replacement="tooks")
    both = row(replace(tagged, edits=(elsewhere, made)))
    assert (both["replaced"], both["replacement"]) == ("aspirin", "salicylic acid")
