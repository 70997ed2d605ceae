"""The judge: how its replies are read, and when it is asked."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import cycle

import numpy as np
import pytest

from medstress.attacks import MedFuzz
from medstress.attacks.medfuzz.judge import CLEAN_SAMPLE, evidence, key_vote
from medstress.core.calls import LENGTH, Decoding, Generated
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer, Consult
from medstress.core.resources import Resources
from medstress.tasks.prompt_sets import load_prompts
from medstress.tasks.replies import Unreadable
from medstress.testing import tiny_questions, tiny_resources

ITEM = tiny_questions(1)[0]
RULES = load_prompts("patient_characteristics").rules
JUDGE = Decoding(max_new_tokens=512, temperature=0.0)
ADDED = ["He works as a clerk.", "He has a “dry” cough."]


def said(flow, *replies):
    """Answer the calls of a conversation with the judge in turn; return its result and calls."""
    asked, left = [], iter(replies)
    step = next(flow)
    try:
        while True:
            asked += [(step.calls[0], step.sample)]
            text = next(left)
            step = flow.send((text if isinstance(text, Generated) else Generated(text=text),))
    except StopIteration as stop:
        assert next(left, None) is None, "not all that was scripted was asked for"
        return stop.value, asked


def objected(*replies):
    found, asked = said(evidence("judge", JUDGE, ITEM, ADDED, RULES, 0), *replies)
    return (found.reason if isinstance(found, Unreadable) else found.words), asked


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        ('{"evidence": []}', ()),
        ('{"evidence": ["cough"]}', ("cough",)),
        ('<think>A clerk... {"evidence": ["clerk"]}</think>{"evidence": []}', ()),
        ('Sure:\n```json\n{"evidence": ["a dry cough"]}\n```', ("a dry cough",)),
        ('{"evidence": ["clerk"]} No, wait: {"evidence": ["cough"]}', ("cough",)),
        ('{"evidence": "cough"}', ("cough",)),
        ('{"evidence": "none"}', ()),
        ('{"evidence": null}', ()),
        ('["cough"]', ("cough",)),
        ("[]", ()),
        ("None.", ()),
        ("No, none of the added words is clinical evidence.", ()),
    ],
)
def test_replies_are_read_however_they_come(reply, words):
    found, asked = objected(reply)
    assert (found, len(asked)) == (words, 1)


def test_what_cannot_be_used_is_asked_for_once_more_with_the_exact_reason():
    found, asked = objected('{"evidence": ["tuberculosis"]}', '{"evidence": ["cough"]}')
    assert found == ("cough",)
    reason = "'tuberculosis' is not among the added words; quote them exactly"
    assert reason in asked[1][0].prompt[-1].content
    assert objected("The cough may matter.", "It does.")[0] == "it holds no JSON object"
    cut = Generated(text='{"evidence": ["dry', finish_reason=LENGTH)
    assert "[role.judge] max_new_tokens" in objected(cut, cut)[0]


def test_it_reads_what_was_added_the_question_and_the_list():
    _, [(call, _)] = objected('{"evidence": []}')
    text = call.prompt[-1].content
    for part in (*ADDED, ITEM.question, ITEM.key_text, *(one.name for one in RULES.forbidden)):
        assert part in text


@pytest.mark.parametrize(
    ("reply", "letter"),
    [
        ('{"reasoning": "It fits.", "answer": "B"}', "B"),
        ('{"answer": "(b)"}', "B"),
        ("B", "B"),
        ("The answer is B.", "B"),
        ('<think>A?</think>```{"answer": "B"}```', "B"),
    ],
)
def test_a_vote_on_the_key_is_read_like_an_answer(reply, letter):
    flow = key_vote("judge", JUDGE, ITEM, ITEM.question, 0)
    assert said(flow, reply)[0] == letter
    flow = key_vote("judge", JUDGE, ITEM, ITEM.question, 0)
    assert said(flow, "Hard to say.", "Still hard.")[0] is None


PLAN = {"post_mortem": None, "plan": "Insert it."}
TEXTS = ("He works as a clerk.", "He is a teacher.", "He is a baker.", "He drives a bus.")
WRONG = next(letter for letter in ITEM.letters if letter != ITEM.key)


def played(judge, *, flips_at=None, attempts=3, texts=TEXTS):
    """Run the attack with a judge; return its notes, the judge's calls and the edits asked."""
    base = tiny_resources()
    roles = {"attacker": Decoding(temperature=1.0), "judge": JUDGE}
    resources = Resources(
        group="all", types=frozenset(), perturbations=base.perturbations, roles=roles
    )
    flow = MedFuzz(attempts=attempts).run(ITEM, np.random.default_rng(0), resources)
    notes, judged, edited, texts = [], [], [], cycle(texts)
    right = Prediction(outcome=Outcome.RIGHT, answer=ITEM.key)
    step = next(flow)
    try:
        while True:
            if isinstance(step, CleanAnswer):
                sent = (right,)
            elif isinstance(step, Ask):
                edited.append(step.queries[0].candidate)
                is_success = len(edited) == flips_at
                sent = (replace(right, is_success=is_success, reached_goal=is_success),)
            elif isinstance(step, Consult):
                text = step.calls[0].prompt[-1].content
                if step.role == "judge":
                    judged.append((text, step.sample))
                    sent = (Generated(text=judge(text)),)
                elif '"insertions"' in text:
                    one = {"text": next(texts), "where": "end", "category": "work"}
                    sent = (Generated(text=json.dumps({"insertions": [one]})),)
                else:
                    sent = (Generated(text=json.dumps({**PLAN, "target_option": WRONG})),)
            else:
                notes.append(json.loads(step.text))
                sent = ()
            step = flow.send(sent)
    except StopIteration as stop:
        return notes, judged, edited, stop.value


def test_it_votes_on_the_key_only_once_the_target_errs():
    def judge(text):
        return '{"evidence": []}' if '"evidence"' in text else f'{{"answer": "{ITEM.key}"}}'

    notes, judged, edited, pick = played(judge, flips_at=2)
    assert pick is edited[1]
    assert [note["attempt"] for note in notes] == [1, 2, 2]
    assert [note.get("evidence_by") for note in notes] == ["judge", "judge", None]
    assert notes[2] == {"attempt": 2, "clean_vote": ITEM.key, "key_vote": ITEM.key}
    on_clean, on_edit = judged[2:]
    assert TEXTS[1] not in on_clean[0]
    assert TEXTS[1] in on_edit[0]
    assert CLEAN_SAMPLE  # at temperature 0 the sample is not used
    assert (on_clean[1], on_edit[1]) == (0, 0)
    notes, judged, *_ = played(judge)
    assert len(judged) == 3
    assert not any("key_vote" in note for note in notes)


def test_a_judge_that_always_objects_lets_nothing_be_asked():
    notes, judged, edited, _ = played(
        lambda text: json.dumps({"evidence": [next(one for one in TEXTS if one in text)]})
    )
    assert (len(judged), edited) == (3, [])
    for note in notes:
        (objection,) = note["objections"]
        assert objection["gate"] == "evidence"
        assert "judge" in objection["reason"]
        assert note["evidence_by"] == "judge"


def test_the_list_decides_where_a_judge_cannot_be_read():
    texts = ("He works as a clerk.", "He has a cough.")
    notes, _, edited, _ = played(lambda text: "Well...", attempts=2, texts=texts)
    assert [note["evidence_by"] for note in notes] == ["list", "list"]
    assert all("no JSON" in note["judge"]["unreadable"] for note in notes)
    assert [len(note["objections"]) for note in notes] == [0, 1]
    assert len(edited) == 1


def test_the_judge_is_not_asked_about_what_a_rule_rejects():
    texts = ("The answer is B.", "He works " * 41)
    notes, judged, edited, _ = played(lambda text: "", attempts=2, texts=texts)
    assert (judged, edited) == ([], [])
    assert [note["objections"][0]["gate"] for note in notes] == ["key_text", "length"]
