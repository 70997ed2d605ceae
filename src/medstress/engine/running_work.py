"""A running trial: its generator, the calls it waits for and the exchanges it has consumed."""

from __future__ import annotations

from typing import cast

from medstress.core.calls import Failure, Reply
from medstress.core.errors import StoreError
from medstress.core.hashing import canonical_json
from medstress.core.text import edit_rows
from medstress.engine.asking import OutOfTimeError
from medstress.engine.ledger import Exchange
from medstress.engine.requests import CallRound
from medstress.engine.result import TrialResult
from medstress.engine.work import Result, Work


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
            if isinstance(result, TrialResult):
                result.overtime = str(error)  # the search of one that flipped may have gone on
            return result

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
                "medstress, a plug-in or a template changed? start over with --fresh"
            )
        return Failure(error=error) if error is not None else True

    def record(self) -> None:
        """Record the calls just answered; called once per round, when all replies are in."""
        call_round, seq = self.call_round, self._seq
        role, purpose = call_round.role, str(call_round.purpose)
        # Requests that follow from item, template and edits are not stored.
        derived = call_round.candidate is not None and not call_round.stores_requests
        edits, flags = edits_as_json(call_round), call_round.flags
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


def edits_as_json(call_round: CallRound) -> str | None:
    """Return the edits of a query's candidate as compact JSON; None for the clean item."""
    if call_round.candidate is None or not call_round.candidate.edits:
        return None
    return canonical_json(edit_rows(call_round.candidate.edits))
