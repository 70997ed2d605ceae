from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from medstress.attacks import EntitySubstitution
from medstress.core.errors import BudgetExhausted
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, Predict
from medstress.core.seeding import rng_for
from medstress.engine.trial import Session
from medstress.testing import tiny_questions, tiny_resources

ITEM = tiny_questions(1)[0]
HELD = Prediction(outcome=Outcome.RIGHT, answer="A")
FLIPPED = Prediction(outcome=Outcome.WRONG, answer="B", reached_goal=True)


def session(attack: Any) -> Session:
    return Session(attack, ITEM, rng_for(0, "s", "d", ITEM.id), tiny_resources())


def test_an_attack_is_read_step_by_step_and_answered() -> None:
    attack = EntitySubstitution(sampler="nearest", budget=2)
    talk = session(attack)
    assert isinstance(talk.step, Ask)
    first = talk.step.queries[0]
    talk.tell((HELD,))
    assert isinstance(talk.step, Ask)
    second = talk.step.queries[0]
    assert first != second
    talk.tell((FLIPPED,))
    assert talk.step is None
    assert talk.pick == second.candidate


def test_an_attack_without_success_ends_without_a_pick() -> None:
    talk = session(EntitySubstitution(sampler="nearest", budget=1))
    talk.tell((HELD,))
    assert (talk.step, talk.pick) == (None, None)


def test_an_attack_that_ignores_the_refusal_is_ended_by_it() -> None:
    talk = session(EntitySubstitution(sampler="nearest", budget=2))
    talk.refuse(0)
    assert (talk.step, talk.pick) == (None, None)


def test_an_attack_may_ask_for_less_when_refused(
    by_hand: Callable[..., Any], query_of: Callable[..., Predict]
) -> None:
    def body(item: Any, rng: Any) -> Any:
        try:
            yield Ask((query_of("a"), query_of("b")))
        except BudgetExhausted as refusal:
            yield Ask((query_of("a"),) * refusal.remaining)
        return query_of("a").candidate

    talk = session(by_hand(body=body))
    talk.refuse(1)
    assert talk.step == Ask((query_of("a"),))
    talk.tell((HELD,))
    assert talk.pick == query_of("a").candidate


def test_closing_runs_what_the_attack_cleans_up(by_hand: Callable[..., Any]) -> None:
    cleaned = []

    def body(item: Any, rng: Any) -> Any:
        try:
            yield Ask((Predict(None),))  # type: ignore[arg-type]
        finally:
            cleaned.append(True)

    talk = session(by_hand(body=body))
    talk.close()
    talk.close()
    assert talk.step is None
    assert cleaned == [True]


def test_an_attack_that_asks_nothing_is_over_at_once(by_hand: Callable[..., Any]) -> None:
    assert session(by_hand()).step is None


def test_a_defect_of_the_attack_is_not_hidden(by_hand: Callable[..., Any]) -> None:
    def body(item: Any, rng: Any) -> Any:
        raise ZeroDivisionError
        yield

    with pytest.raises(ZeroDivisionError):
        session(by_hand(body=body))


def test_a_step_that_is_none_does_not_pass_for_the_end(
    by_hand: Callable[..., Any], query_of: Callable[..., Predict], said
) -> None:
    def body(item: Any, rng: Any) -> Any:
        yield Ask((query_of("a"),))
        yield None
        yield Ask((query_of("b"),))

    talk = session(by_hand(body=body))
    with pytest.raises(TypeError) as caught:
        talk.tell((HELD,))
    said(str(caught.value))
