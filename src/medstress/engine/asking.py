"""Turn a trial's queries into calls: a victim's flow round by round, and calls to other roles."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol, cast

from medstress.core.calls import Answer, Failure, Reply, Request
from medstress.core.errors import MedstressError, TrialError
from medstress.core.hashing import canonical_json
from medstress.core.items import FOLLOW_UP, Edited
from medstress.core.outcomes import Prediction, Verdict
from medstress.core.queries import Consult, Predict
from medstress.core.registry import place_of
from medstress.engine.work import (
    NOTHING,
    VICTIM,
    CallRound,
    OutOfTimeError,
    Purpose,
    UnansweredError,
)
from medstress.tasks.multiple_choice import Flow
from medstress.tasks.victim import Victim


def answers_of(replies: tuple[Reply, ...]) -> tuple[Answer, ...]:
    """Return the replies as answers.

    Raises:
        UnansweredError: a call failed.
    """
    for reply in replies:
        if isinstance(reply, Failure):
            raise UnansweredError(reply.error)
    return cast("tuple[Answer, ...]", replies)


DEFECT = "a defect of attack or task: "


class Noted(Protocol):
    """A result that can say why it is not complete."""

    note: str | None
    overtime: str | None


class Guard:
    """Lets a failed call or a defect of a plug-in end a part of one work, not the run: it is noted.

    Attributes:
        failure: how a trial ends by it; None if nothing failed.
    """

    def __init__(self, result: Noted) -> None:
        self._result = result
        self.failure: Verdict | None = None

    def __enter__(self) -> Guard:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception) or isinstance(error, MedstressError):
            return False
        self._result.note = describe(error)
        self.failure = Verdict.FAILED
        if isinstance(error, OutOfTimeError):
            self.failure, self._result.overtime = Verdict.CUT_SHORT, str(error)
        return True


def describe(error: Exception) -> str:
    """Describe an error: a failed call by its message, anything else as a defect of the plug-in."""
    if isinstance(error, UnansweredError | TrialError):
        return str(error)
    place = place_of(error)
    where = "" if place is None else f" ({place.plug_in}: {place.file.name}, line {place.line})"
    return f"{DEFECT}{type(error).__name__}: {error}{where}"


def predict(
    flow: Flow | StartedFlow,
    candidate: Edited,
    purpose: Purpose,
    query: int | None,
    *,
    sample: int = 0,
    flags: str | None = None,
    ahead: Iterator[Request] = NOTHING,
    ahead_is_certain: bool = False,
    alone: bool = False,
    stores_requests: bool = False,
) -> Generator[CallRound, tuple[Reply, ...], Prediction]:
    """Drive a victim's flow for one candidate."""
    started = flow if isinstance(flow, StartedFlow) else StartedFlow(flow)
    # What is said after an answer depends on it, so that no form can reproduce the request.
    stores_requests |= bool(getattr(candidate, FOLLOW_UP, ""))
    call, requests = 0, started.requests
    while True:
        shifted = _shifted(requests, sample)
        try:
            replies = yield CallRound(
                role=VICTIM,
                purpose=purpose,
                query=query,
                call=call,
                requests=shifted,
                candidate=candidate,
                flags=flags,
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


def flags_of(query: Predict) -> str | None:
    """Return what a query says of itself besides its candidate, as JSON; None if all is default.

    >>> flags_of(Predict(None, attempt=2)), flags_of(Predict(None))
    ('{"attempt":2}', None)
    """
    values = {
        "probe": query.probe or None,
        "attempt": query.attempt,
        "sample": query.sample or None,
    }
    flags = {name: value for name, value in values.items() if value is not None}
    return canonical_json(flags) if flags else None


def _shifted(requests: tuple[Request, ...], sample: int) -> tuple[Request, ...]:
    """Add an offset to the sample indices of requests."""
    if not sample:
        return requests
    return tuple(replace(request, sample=request.sample + sample) for request in requests)


def consult(
    step: Consult, purpose: Purpose = Purpose.ATTACK
) -> Generator[CallRound, tuple[Reply, ...], tuple[Answer, ...]]:
    """Ask another role; equal calls of one step get different sample indices."""
    replies = yield CallRound(
        role=step.role,
        purpose=purpose,
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
    """Flows of queries, those announced with `then` included; each is started at most once."""

    def __init__(self, victim: Victim) -> None:
        self._victim = victim
        self.stores_requests = victim.stores_requests
        # A query of several samples, such as a majority's, takes several indices.
        self._n_samples = int(getattr(victim.task, "n_samples", 1))
        self._started: dict[int, tuple[Predict, StartedFlow]] = {}

    def take(self, query: Predict) -> StartedFlow:
        """Return the started flow of a query that is asked now."""
        known = self._started.pop(id(query), None) if self._started else None
        return known[1] if known else StartedFlow(self._victim.flow(query.candidate))

    def offset(self, query: Predict) -> int:
        """Return what is added to the sample indices of a query's requests."""
        return query.sample * self._n_samples

    def first_requests(self, queries: Iterable[Predict], limit: int) -> Iterator[Request]:
        """Yield the first-round requests of upcoming queries, starting each flow when reached."""
        with suppress(Exception):  # raised again when the query is asked, if ever
            for query, _ in zip(queries, range(limit), strict=False):
                if id(query) not in self._started:
                    started = StartedFlow(self._victim.flow(query.candidate))
                    # The query is kept beside its flow so that its id cannot be reused.
                    self._started[id(query)] = (query, started)
                yield from _shifted(self._started[id(query)][1].requests, self.offset(query))


@dataclass(frozen=True, slots=True)
class Held:
    """What came of one query of several that are asked side by side."""

    prediction: Prediction | None
    """None if a call failed."""
    n_calls: int
    """Calls that it took, also those that were answered before."""
    error: str = ""
    """Why a call failed."""

    @property
    def answer(self) -> Prediction:
        """The prediction; raises an UnansweredError if there is none."""
        if self.prediction is None:
            raise UnansweredError(self.error)
        return self.prediction


def answer_all(
    flows: Sequence[Flow], purpose: Purpose, n_before: int
) -> Generator[CallRound, tuple[Reply, ...], tuple[Held, ...]]:
    """Run flows side by side, turn by turn, until all have ended; one whose call fails ends alone.

    Args:
        flows: one for each query; not started.
        purpose: why their calls are made.
        n_before: queries of this work that came before; those of the flows count on from it.

    Yields:
        Rounds with the open requests of all flows, flow by flow.

    Returns:
        What came of each, same order.
    """
    open_: dict[int, tuple[Request, ...]] = {i: next(flow) for i, flow in enumerate(flows)}
    n_calls, held = [0] * len(flows), dict[int, Held]()
    while open_:
        numbers = [
            (n_before + i + 1, n_calls[i] + k)
            for i, wanted in open_.items()
            for k in range(len(wanted))
        ]
        replies = yield CallRound(
            role=VICTIM,
            purpose=purpose,
            query=numbers[0][0],
            call=0,
            requests=tuple(request for wanted in open_.values() for request in wanted),
            candidate=None,
            numbers=tuple(numbers),
        )
        given = iter(replies)
        for i, wanted in list(open_.items()):
            own = tuple(islice(given, len(wanted)))
            n_calls[i] += len(own)
            try:
                open_[i] = flows[i].send(answers_of(own))
                continue
            except StopIteration as stop:
                held[i] = Held(stop.value, n_calls[i])
            except UnansweredError as error:
                flows[i].close()
                held[i] = Held(None, n_calls[i], str(error))
            del open_[i]
    return tuple(held[i] for i in range(len(flows)))
