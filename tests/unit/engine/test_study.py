"""A study drives conversations side by side, each a query of its own, samples apart."""

from typing import Any

import pytest

from medstress.core.calls import Failure, Generate, Generated, Request
from medstress.core.items import Candidate, Question
from medstress.core.queries import Consult
from medstress.engine.inquiry import (
    FIRST_SAMPLE,
    ConversationRequest,
    HoldConversations,
    Study,
    StudyFlow,
    conduct_study,
)
from medstress.engine.work import CallRound, Held, Purpose
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import ScriptedBackend

ITEM = Question(id="q", stem="Which?", options=("Flu", "Cold"), key="A")
CLEAN = Candidate(item=ITEM)
VICTIM = Victim(
    label="v",
    task=MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.GENERATE),
    backend=ScriptedBackend(),
)


def study(steps: Any, spec: dict[str, Any] | None = None) -> Study:
    return Study(
        purpose=Purpose.TEST,
        dataset="d",
        group="g",
        victim=VICTIM,
        attack_label="a",
        attack_spec={},
        seed=0,
        item=ITEM,
        spec=spec or {},
        steps=steps,
    )


def three_rounds() -> StudyFlow:
    replies = yield HoldConversations(
        tuple(ConversationRequest(VICTIM, CLEAN, sample) for sample in (None, 0, 4))
    )
    more = yield HoldConversations((ConversationRequest(VICTIM, CLEAN, 5),))
    held = [one for one in (*replies, *more) if isinstance(one, Held)]
    answers = [one.prediction and one.prediction.answer for one in held]
    return {"answers": answers, "calls": sum(one.n_calls for one in held)}


def test_conversations_of_a_step_are_one_need_and_queries_of_their_own():
    flow = conduct_study(study(three_rounds))
    first = next(flow)
    assert isinstance(first, CallRound)
    assert [request.sample for request in first.requests] == [0, FIRST_SAMPLE, FIRST_SAMPLE + 4]
    assert first.numbers == ((1, 0), (2, 0), (3, 0))
    second = flow.send((Generated(text="A"), Generated(text="B"), Generated(text="A")))
    assert second.numbers == ((4, 0),)
    with pytest.raises(StopIteration) as stop:
        flow.send((Generated(text="B"),))
    result = stop.value.value
    assert result.findings == {"answers": ["A", "B", "A", "B"], "calls": 4}
    assert result.verdict.value == "asked"
    assert result.as_record()["found"] == result.findings


def test_a_failed_call_ends_its_conversation_alone():
    flow = conduct_study(study(three_rounds))
    next(flow)
    flow.send((Failure(error="no route"), Generated(text="B"), Generated(text="A")))
    with pytest.raises(StopIteration) as stop:
        flow.send((Generated(text="B"),))
    assert stop.value.value.findings == {"answers": [None, "B", "A", "B"], "calls": 4}


def test_a_study_that_says_why_it_is_not_finished_is_unanswered():
    def unfinished() -> StudyFlow:
        yield HoldConversations((ConversationRequest(VICTIM, CLEAN),))
        return {"n": 1, "note": "no route"}

    flow = conduct_study(study(unfinished))
    next(flow)
    with pytest.raises(StopIteration) as stop:
        flow.send((Generated(text="A"),))
    result = stop.value.value
    assert (result.verdict.value, result.note) == ("unanswered", "no route")
    assert result.as_record()["found"] == {"n": 1}


def test_a_defect_of_the_study_is_told_and_does_not_end_the_run():
    def broken() -> StudyFlow:
        yield HoldConversations((ConversationRequest(VICTIM, CLEAN),))
        raise KeyError("x")

    flow = conduct_study(study(broken))
    next(flow)
    with pytest.raises(StopIteration) as stop:
        flow.send((Generated(text="A"),))
    assert stop.value.value.note == "a defect of attack or task: KeyError: 'x'"


def test_equal_calls_of_one_consultation_are_samples_of_one_another():
    call = Generate("Write.")

    def asks() -> StudyFlow:
        answers = yield Consult("attacker", (call, call, call), 7)
        return {"n": len(answers)}

    call_round = next(conduct_study(study(asks)))
    assert call_round.role == "attacker"
    assert call_round.requests == (Request(call, 7), Request(call, 8), Request(call, 9))
