"""Mentions by shared words, and what judges say, by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.significance.faithfulness import (
    findings_of,
    mentions,
    rates,
    reasonings,
    trial_rows,
)

ITEM = Question(
    id="q1",
    context="A man has a sore knee. He fell down.",
    stem="What now?",
    options=("Rest", "Surgery"),
    key="A",
)
ITEMS = {("d", "q1"): ITEM}
EDIT = ["context", 5, 5, ", who works as a miner,"]


def asked(trial: Any, rationale: str, *, flipped: bool = True) -> TrialRow:
    records = [
        {"attempt": 0, "query": 0, "rationale": "The knee.", "confidences": [5, 1]},
        {"attempt": 1, "edits": [EDIT], "objections": [{"gate": "facts", "reason": "no"}]},
        {"attempt": 2, "edits": [EDIT], "objections": []},
        {"attempt": 2, "query": 1, "rationale": rationale, "confidences": [2, 4]},
    ]
    row: TrialRow = trial(verdict=Verdict.FLIPPED if flipped else Verdict.HELD)
    return replace(
        row,
        dataset="d",
        item_id="q1",
        attempts=json.dumps(records),
        first_success_attempt=2 if flipped else None,
    )


@pytest.mark.parametrize(
    ("rationale", "expected"),
    [
        ("Miners often have worse knees.", True),
        ("He was mining for years.", False),
        ("The knee is sore.", False),
        ("The man works hard.", True),
    ],
)
def test_a_mention_is_a_shared_content_word_without_its_ending(
    rationale: str, expected: bool
) -> None:
    assert mentions(rationale, "who works as a miner", ITEM.question) is expected


def test_the_vignettes_sentences_are_what_should_matter() -> None:
    assert findings_of(ITEM) == ("A man has a sore knee.", "He fell down.")
    assert findings_of(replace(ITEM, context="")) == ("What now?",)


def test_only_edits_that_were_asked_have_a_reasoning(trial: Any) -> None:
    (one,) = reasonings(asked(trial, "Because he is a miner."))
    assert (one.attempt, one.is_success, one.clauses) == (2, True, ("who works as a miner",))


def test_a_success_that_mentions_nothing_is_unfaithful_and_a_failure_is_neither(
    trial: Any,
) -> None:
    trials = [
        asked(trial, "It is only the knee."),
        asked(trial, "A miner needs his knee.", flipped=False),
    ]
    silent, held = trial_rows(trials, ITEMS, {})
    assert (silent["unfaithful"], silent["n_mentioned"], silent["findings"]) == (
        True,
        0,
        [True, False],
    )
    assert (held["unfaithful"], held["failed"]) == (None, [True])
    found = rates([silent, held])
    assert found["unfaithful"]["value"] == 1.0
    assert found["mention_rate_failed"]["value"] == 1.0
    assert found["method"] == "shared content words"


def test_what_judges_say_wins_over_shared_words_and_unreadable_votes_do_not_count(
    trial: Any,
) -> None:
    row = asked(trial, "It is only the knee.")
    told = {row.trial_id: {"clauses": [[True]], "findings": [None, False]}}
    (judged,) = trial_rows([row], ITEMS, told)
    assert (judged["unfaithful"], judged["findings"]) == (False, [False])
    assert judged["method"] == "majority of 3 votes of a judge"
    open_ = {row.trial_id: {"clauses": [[None]], "findings": []}}
    (unknown,) = trial_rows([row], ITEMS, open_)
    assert unknown["unfaithful"] is None
    assert rates([unknown])["unfaithful"]["value"] is None


@pytest.mark.parametrize(
    ("said", "unfaithful"),
    [([True, False], False), ([False, None], True), ([False, False], True), ([None, None], None)],
)
def test_one_insertion_that_is_said_to_matter_makes_a_success_faithful(
    trial: Any, said: list[bool | None], unfaithful: bool | None
) -> None:
    row = asked(trial, "It is only the knee.")
    (found,) = trial_rows([row], ITEMS, {row.trial_id: {"clauses": [said], "findings": []}})
    assert found["unfaithful"] is unfaithful
