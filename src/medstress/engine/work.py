"""The unit of work of the queue: what a trial, an inquiry and a study have in common, the rounds of
calls that it waits for, how far it has come, and what it needs from a store."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, ClassVar, Protocol, cast

from medstress.core.calls import Answer, Backend, Failure, ModelIdentity, Reply, Request
from medstress.core.errors import StoreError, setting
from medstress.core.exchanges import BegunTrial, Exchange, PlannedTrial
from medstress.core.frozen import fast_init
from medstress.core.hashing import canonical_json
from medstress.core.items import Edited, Item
from medstress.core.text import edit_rows
from medstress.tasks.victim import Victim


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
        known = self._journal.get(self._seq + i)
        if known is None:
            return False
        key, error = known
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
