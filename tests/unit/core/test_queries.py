from __future__ import annotations

from typing import Any

from medstress.core.calls import Generate, Generated
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction, Untargeted
from medstress.core.queries import Ask, Consult, Predict, ask, consult
from medstress.testing import tiny_questions

(ITEM,) = tiny_questions(1)
QUERY = Predict(Candidate(item=ITEM))
RIGHT = Prediction(outcome=Outcome.RIGHT, answer="A")
WRONG = Prediction(outcome=Outcome.WRONG, answer="B")


def finish(flow: Any, replies: tuple[Any, ...]) -> tuple[Any, Any]:
    step = next(flow)
    try:
        flow.send(replies)
    except StopIteration as stop:
        return step, stop.value
    raise AssertionError("one step was expected")


def test_ask_yields_a_tuple_and_returns_the_predictions() -> None:
    step, value = finish(ask([QUERY, QUERY], then=[QUERY]), (RIGHT, WRONG))
    assert step == Ask((QUERY, QUERY), (QUERY,))
    assert value == (RIGHT, WRONG)


def test_consult_yields_calls_to_a_role_and_returns_the_answers() -> None:
    answer = Generated(text="x")
    step, value = finish(consult("judge", [Generate("p")], sample=3), (answer,))
    assert step == Consult("judge", (Generate("p"),), 3)
    assert value == (answer,)


def test_an_unreadable_answer_is_no_success() -> None:
    goal = Untargeted()
    unreadable = Prediction(outcome=Outcome.UNREADABLE, answer=None)
    reached = [goal.reached(prediction, ()) for prediction in (RIGHT, WRONG, unreadable)]
    assert reached == [False, True, False]
