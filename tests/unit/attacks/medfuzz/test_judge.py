"""The judge: how its replies are read, and when it is asked."""

from __future__ import annotations

import pytest

from medstress.attacks.medfuzz.roles import evidence, key_vote
from medstress.core.calls import LENGTH, Decoding, Generated
from medstress.tasks.prompt_sets import load_prompts
from medstress.tasks.replies import Unreadable
from medstress.testing import tiny_questions

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
