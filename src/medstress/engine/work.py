"""The unit of work of the queue: what a trial, an inquiry and a study have in common, the rounds of
calls that it waits for, how far it has come, and what it needs from a store."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import islice
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, cast

from medstress.core.calls import (
    Answer,
    Backend,
    BegunTrial,
    Call,
    Exchange,
    Failure,
    Generate,
    Generated,
    ModelIdentity,
    PlannedTrial,
    Reply,
    Request,
)
from medstress.core.errors import MedstressError, StoreError, TrialError, setting
from medstress.core.frozen import fast_init
from medstress.core.hashing import canonical_json
from medstress.core.items import FOLLOW_UP, Edited, Item
from medstress.core.outcomes import Prediction, Verdict
from medstress.core.queries import Consult, Predict
from medstress.core.registry import place_of
from medstress.core.text import edit_rows
from medstress.tasks.reading import without_thoughts
from medstress.tasks.victim import Victim

if TYPE_CHECKING:
    from medstress.tasks.multiple_choice import Flow


class UnansweredError(Exception):
    """A call failed; ends the work that asked for it."""


class OutOfTimeError(UnansweredError):
    """A trial ran out of time; ends it as cut short.

    Attributes:
        n_answered: calls of the interrupted query that were already answered.
    """

    n_answered = 0


class Result(Protocol):
    """How a unit of work ended."""

    @property
    def verdict(self) -> StrEnum:
        """The outcome in one word, as stored."""

    def as_record(self) -> dict[str, Any]:
        """Return everything else as JSON values."""


class Work(Protocol):
    """A trial, inquiry or study: journalled, answered, cached and replayed under its own id.

    Its place in the ledger is the arm (`dataset`, `group`, label of `victim`, `attack_label`,
    `seed`), then `item` and `repeat`.
    """

    has_deadline: ClassVar[bool]
    """Whether `trial_seconds` ends it."""

    @property
    def id(self) -> str:
        """Content hash of its definition; independent of order."""

    @property
    def dataset(self) -> str:
        """Label of the data set."""

    @property
    def group(self) -> str:
        """Label of the entity group."""

    @property
    def victim(self) -> Victim:
        """The model under attack; it answers all calls that name no other role."""

    @property
    def attack_label(self) -> str:
        """Label of the attack."""

    @property
    def attack_spec(self) -> dict[str, Any]:
        """The attack's parameters, as stored with the arm."""

    @property
    def seed(self) -> int | None:
        """None for deterministic attacks."""

    @property
    def item(self) -> Item:
        """The item."""

    @property
    def repeat(self) -> int:
        """Index of the repeat, if an attack runs several times per item."""

    @property
    def place(self) -> int:
        """Number of a trial in the whole plan; 0 for what is asked later, which is in no shard."""

    def start(self) -> Generator[CallRound, tuple[Reply, ...], Result]:
        """Start it: yields rounds of calls, expects one reply per request, returns the result."""


VICTIM = "victim"
"""The role of the model under attack."""


class Purpose(StrEnum):
    """Why a call was made."""

    BASELINE = "baseline"
    ATTACK = "attack"
    FLIP_CHECK = "flip_check"
    TRANSFER = "transfer"
    REUSE = "reuse"
    TEST = "test"
    JUDGE = "judge"
    EXPLAIN = "explain"


NOTHING: Iterator[Request] = iter(())
"""No requests ahead."""


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class CallRound:
    """Calls to one role that must all be answered before the trial can go on."""

    role: str
    """`victim`, or a role such as `attacker`."""
    purpose: Purpose
    """Why they are made."""
    query: int | None
    """Number of the query; 0 is the baseline, None for other roles."""
    call: int
    """Index of the first request within the query."""
    requests: tuple[Request, ...]
    """Never empty."""
    candidate: Edited | None
    """The candidate that the query is about; None for other roles."""
    flags: str | None = None
    """What the query says of itself, as JSON (`flags_of`); None if all is the default."""
    ahead: Iterator[Request] = NOTHING
    """Requests likely to be needed next; consumed only as far as they are computed early."""
    ahead_is_certain: bool = False
    """True if those will be needed whatever the answers are."""
    alone: bool = False
    """Answer in a batch of its own."""
    numbers: tuple[tuple[int, int], ...] = ()
    """(query, call) of every request, if they belong to several queries."""
    stores_requests: bool = False
    """True if the requests are stored in full: item, template and edits do not determine them."""


class Ledger(Protocol):
    """Where calls are journalled and answers kept; see `medstress.store`."""

    def begin_trials(self, planned: Sequence[PlannedTrial]) -> Sequence[BegunTrial]:
        """Register trials, in the order of the plan."""

    def finish_trial(self, trial: int, verdict: str, result: dict[str, Any]) -> None:
        """Store how a trial ended."""

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the stored answers to these keys."""

    def dispatching(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Journal calls (key, trial) that are about to be made, and commit."""

    def answered(self, answers: Iterable[tuple[bytes, int, Answer | None, float]]) -> None:
        """Store answers (key, trial, answer, seconds); None is a failure."""

    def consumed(self, rows: Iterable[Exchange]) -> None:
        """Store exchanges."""

    def commit(self) -> None:
        """Commit everything written so far, so that it survives the process."""

    def arm_id(
        self, dataset: str, group: str, victim: str, attack: str, spec: Any, seed: int | None
    ) -> int:
        """Return the row of an arm; it is added if new."""


class SharedAnswers(Protocol):
    """Answers of other runs; see `medstress.store.shared_cache`."""

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the kept answers to these keys."""

    def keep(self, model: ModelIdentity, answers: Mapping[bytes, Answer], seconds: float) -> None:
        """Keep computed answers; `seconds` is the time per answer."""


class RunningWork:
    """One running trial, inquiry or study.

    Attributes:
        work: the trial, inquiry or study.
        row: its row in the ledger.
        call_round: the calls it waits for.
        keys: cache keys of the needed calls, same order.
        replies: their answers; None while open.
        n_open: how many are open.
        until: when its time is up, on the monotonic clock; None before its first call.
        unwritten: exchanges that the ledger does not have yet.
    """

    def __init__(self, work: Work, row: int, journal: dict[int, tuple[bytes, str | None]]) -> None:
        self.work = work
        self.row = row
        self.call_round: CallRound
        self.keys: list[bytes] = []
        self.replies: list[Reply | None] = []
        self.n_open = 0
        self.until: float | None = None
        self.unwritten: list[Exchange] = []
        self._journal = journal
        self._seq = 0
        self._flow = work.start()

    def step(self) -> Result | None:
        """Go on to the next round of calls, or return the result."""
        try:
            if not self.keys:
                self.call_round = next(self._flow)
            else:
                self.call_round = self._flow.send(cast("tuple[Reply, ...]", tuple(self.replies)))
        except StopIteration as stop:
            result: Result = stop.value
            return result
        return None

    def cut_short(self, error: OutOfTimeError) -> Result:
        """End it at once and return the result."""
        try:
            while True:
                # It may ask again, for example the next flip check: refuse that as well.
                self._flow.throw(error)
        except StopIteration as stop:
            result: Result = stop.value
            return result

    def fit(self, backend: Backend) -> tuple[Request, ...]:
        """Fit the requests of the current round to a back end, and return them."""
        requests = tuple([request.fitted(backend) for request in self.call_round.requests])
        if requests != self.call_round.requests:
            self.call_round = replace(self.call_round, requests=requests)
        return requests

    def expect(self, keys: list[bytes]) -> None:
        """Start waiting for the calls with these keys."""
        self.keys = keys
        self.replies = [None] * len(keys)

    @property
    def is_replayed(self) -> bool:
        """True if an earlier process may have consumed the current calls."""
        return bool(self._journal)

    def replayed(self, i: int) -> Failure | bool:
        """Return whether an earlier process consumed call i, or the failure that it recorded."""
        recorded = self._journal.get(self._seq + i)
        if recorded is None:
            return False
        key, error = recorded
        if key != self.keys[i]:
            raise StoreError(
                f"trial {self.row} makes other calls than before it was interrupted; was "
                "medstress, a plug-in or a template changed? start over with "
                f"{setting('fresh', True)}"
            )
        return Failure(error=error) if error is not None else True

    def record(self) -> None:
        """Record the calls just answered; called once per round, when all replies are in."""
        call_round, seq = self.call_round, self._seq
        role, purpose = call_round.role, str(call_round.purpose)
        # Requests that follow from item, template and edits are not stored.
        derived = call_round.candidate is not None and not call_round.stores_requests
        edits, flags = None, call_round.flags
        if call_round.candidate is not None and call_round.candidate.edits:
            edits = canonical_json(edit_rows(call_round.candidate.edits))
        for i, reply in enumerate(self.replies):
            request = None if derived else call_round.requests[i].stored
            error = reply.error if isinstance(reply, Failure) else None
            query, call = (
                call_round.numbers[i]
                if call_round.numbers
                else (call_round.query, call_round.call + i)
            )
            place = (self.row, seq + i, role, purpose, query, call)
            self.unwritten.append((*place, self.keys[i], edits, flags, request, error))
            edits = flags = None  # stored with the first call only
        self._seq += len(self.keys)

    def take_unwritten(self) -> list[Exchange]:
        """Return the exchanges that the ledger does not have yet; the caller writes them."""
        taken, self.unwritten = self.unwritten, []
        return taken


# -- Queries as rounds of calls -------------------------------------------------------------------
def answers_of(replies: tuple[Reply, ...], role: str = VICTIM) -> tuple[Answer, ...]:
    """Return the replies of a role as answers.

    Raises:
        UnansweredError: a call failed; of another role than the model it says which.
    """
    for reply in replies:
        if isinstance(reply, Failure):
            raise UnansweredError(
                reply.error if role == VICTIM else f"role {role!r}: {reply.error}"
            )
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
    """Drive a model's flow for one candidate."""
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
    if not query.probe and query.attempt is None and not query.sample:  # as nearly always
        return None
    values = {
        "probe": query.probe or None,
        "attempt": query.attempt,
        "sample": query.sample or None,
    }
    flags = {name: value for name, value in values.items() if value is not None}
    return canonical_json(flags)


def _shifted(requests: tuple[Request, ...], sample: int) -> tuple[Request, ...]:
    """Add an offset to the sample indices of requests."""
    if not sample:
        return requests
    return tuple(replace(request, sample=request.sample + sample) for request in requests)


def consult(
    step: Consult, purpose: Purpose = Purpose.ATTACK
) -> Generator[CallRound, tuple[Reply, ...], tuple[Answer, ...]]:
    """Ask another role; equal calls of one step get different sample indices.

    Of what it writes, thoughts in marks of its own are cut.
    """
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
    return tuple(map(_said, step.calls, answers_of(replies, step.role)))


def _said(call: Call, answer: Answer) -> Answer:
    """Return an answer without the thoughts that are in marks of the role's own."""
    own = call.decoding.thoughts if isinstance(call, Generate) else None
    if own is None or not isinstance(answer, Generated):
        return answer
    return replace(answer, text=without_thoughts(answer.text, own))


class StartedFlow:
    """A model's flow, advanced to its first round."""

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
        started = self._started.pop(id(query), None) if self._started else None
        return started[1] if started else StartedFlow(self._victim.flow(query.candidate))

    def offset(self, query: Predict) -> int:
        """Return what is added to the sample indices of a query's requests."""
        return query.sample * self._n_samples

    def first_requests(self, queries: Iterable[Predict], limit: int) -> Iterator[Request]:
        """Yield the first-round requests of upcoming queries, starting each flow when reached."""
        with suppress(Exception):  # raised again when the query is asked, if ever
            for query, _ in zip(queries, range(limit), strict=False):
                if id(query) not in self._started:
                    started = StartedFlow(self._victim.flow(query.candidate))
                    # The query is kept with its flow so that its id cannot be reused.
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
        incoming = iter(replies)
        for i, wanted in list(open_.items()):
            own = tuple(islice(incoming, len(wanted)))
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
