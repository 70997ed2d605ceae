"""How the query of a trial becomes calls: a victim's flow, round by round, and other roles."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from typing import cast

from medstress.calls import Answer, Failure, Reply, Request
from medstress.items import Edited
from medstress.outcomes import Prediction
from medstress.queries import Consult, Predict
from medstress.scheduler.need import NOTHING, VICTIM, CallRound, Purpose
from medstress.tasks.multiple_choice import Flow
from medstress.victim import Victim


class UnansweredError(Exception):
    """A call failed; ends what asked for it."""


class OutOfTimeError(UnansweredError):
    """The time of a trial is up; ends it as cut short.

    Attributes:
        n_heard: calls of the query that it ended whose answers had come.
    """

    n_answered = 0


def answers_of(replies: tuple[Reply, ...]) -> tuple[Answer, ...]:
    """The answers.

    Raises:
        UnansweredError: one is missing.
    """
    for reply in replies:
        if isinstance(reply, Failure):
            raise UnansweredError(reply.error)
    return cast("tuple[Answer, ...]", replies)


def predict(
    flow: Flow | StartedFlow,
    candidate: Edited,
    purpose: Purpose,
    query: int | None,
    *,
    sample: int = 0,
    ahead: Iterator[Request] = NOTHING,
    ahead_is_certain: bool = False,
    alone: bool = False,
    stores_requests: bool = False,
) -> Generator[CallRound, tuple[Reply, ...], Prediction]:
    """Drive a victim's flow for one candidate."""
    started = flow if isinstance(flow, StartedFlow) else StartedFlow(flow)
    call, requests = 0, started.requests
    while True:
        shifted = (
            tuple(replace(r, sample=r.sample + sample) for r in requests) if sample else requests
        )
        try:
            replies = yield CallRound(
                role=VICTIM,
                purpose=purpose,
                query=query,
                call=call,
                requests=shifted,
                candidate=candidate,
                ahead=ahead,
                ahead_is_certain=ahead_is_certain,
                alone=alone,
                stores_requests=stores_requests,
            )
        except OutOfTimeError as overdue:
            overdue.n_answered = call
            raise
        call += len(requests)
        try:
            requests = started.flow.send(answers_of(replies))
        except StopIteration as stop:
            prediction: Prediction = stop.value
            return prediction


def consult(step: Consult) -> Generator[CallRound, tuple[Reply, ...], tuple[Answer, ...]]:
    """Ask another role; equal calls of one step get samples of their own."""
    replies = yield CallRound(
        role=step.role,
        purpose=Purpose.ATTACK,
        query=None,
        call=0,
        requests=tuple(
            Request(call, step.sample + step.calls[:i].count(call))
            for i, call in enumerate(step.calls)
        ),
        candidate=None,
    )
    return answers_of(replies)


class StartedFlow:
    """A victim's flow, advanced to its first round."""

    __slots__ = ("flow", "requests")

    def __init__(self, flow: Flow) -> None:
        self.flow = flow
        self.requests = next(flow)


class Flows:
    """Flows of queries announced with `then`, started at most once."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self.stores_requests = victim.is_told
        self._started: dict[int, tuple[Predict, StartedFlow]] = {}

    def take(self, query: Predict) -> StartedFlow:
        """The started flow of a query that is consumed now."""
        known = self._started.pop(id(query), None) if self._started else None
        return known[1] if known else StartedFlow(self._victim.flow(query.candidate))

    def first_requests(self, queries: Iterable[Predict], limit: int) -> Iterator[Request]:
        """First-round requests of upcoming queries, started as they are pulled."""
        with suppress(Exception):  # told when the query is asked for, if ever
            for query, _ in zip(queries, range(limit), strict=False):
                if id(query) not in self._started:
                    started = StartedFlow(self._victim.flow(query.candidate))
                    # The query is kept beside its flow so that its id cannot be reused.
                    self._started[id(query)] = (query, started)
                yield from self._started[id(query)][1].requests
