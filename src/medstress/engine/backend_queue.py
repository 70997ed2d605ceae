"""The queue of one back end: waiting calls, the choice of batches, those in flight, threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from heapq import heapify, heappop, heappush
from itertools import count, islice

from medstress.backends.threads import DaemonThreads
from medstress.core.calls import FROM_CACHE, Backend, Failure, ModelIdentity, Reply, Request
from medstress.core.errors import BackendError, UsageError
from medstress.engine.work import Ledger, RunningWork, SharedAnswers

MAX_FAILING_BATCHES = 3


@dataclass(slots=True, kw_only=True)
class QueuedCall:
    """One distinct call that is waiting or in flight."""

    key: bytes
    """Cache key."""
    request: Request
    """The call."""
    trial: int
    """Row of the trial that first asked for it."""
    waiters: list[tuple[RunningWork, int]] = field(default_factory=list)
    """Trials that wait for it, each with the index of the reply; empty if only computed ahead."""
    alone: bool = False
    """True if it is answered in a batch of its own."""


@dataclass(slots=True, kw_only=True)
class CallGroup:
    """The calls one trial needs now, and what it is likely to need next."""

    entries: list[QueuedCall]
    """Needed now."""
    ahead: Iterator[QueuedCall]
    """Likely to be needed next; calls that are pending already are left out."""
    trial: int
    """Row of the trial."""
    ahead_is_certain: bool = False
    """True if all calls in `ahead` will be needed."""


@dataclass(slots=True)
class Batch:
    """Calls handed to a back end together."""

    entries: list[QueuedCall]
    """In the order handed over."""
    seconds: float = 0.0
    """How long the back end took."""


class BackendQueue:
    """Queue and worker threads of one back end."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self.pending: dict[bytes, QueuedCall] = {}
        self.in_flight: dict[Future[list[Reply]], Batch] = {}
        self._failures_in_a_row = 0
        self._has_answered = False
        # Heaps of (trial, order of arrival, group).
        self._waiting: list[tuple[int, int, CallGroup]] = []
        self._alone: list[tuple[int, int, CallGroup]] = []
        self._arrivals = count()
        self._threads = DaemonThreads(backend.traits.workers, "medstress-backend")

    def enter(
        self, key: bytes, request: Request, running: RunningWork, *, alone: bool = False
    ) -> QueuedCall:
        """Make a call pending for a trial; it is queued with its group."""
        entry = QueuedCall(key=key, request=request, trial=running.row, alone=alone)
        self.pending[key] = entry
        return entry

    def add(self, group: CallGroup) -> None:
        """Queue a group.

        The earliest trial of the plan goes first. If trials took turns, all would reach the same
        step together and one role would wait for the other. Servers also cache the prefixes of
        recent prompts, so the prompts of one item belong together.
        """
        alone = group.entries[0].alone and self.backend.traits.batch_size > 1
        heappush(
            self._alone if alone else self._waiting, (group.trial, next(self._arrivals), group)
        )

    @property
    def idle(self) -> bool:
        """True if a worker is free and a call waits."""
        is_free = len(self.in_flight) < self.backend.traits.workers
        return is_free and bool(self._waiting or self._alone)

    @property
    def next_is_alone(self) -> bool:
        """True if the next batch is a single isolated group, because the rest cannot fill one.

        If the rest can, isolated groups wait.
        """
        n_waiting = 0
        for _, _, group in self._waiting if self._alone else ():
            n_waiting += len(group.entries)
            if n_waiting >= self.backend.traits.batch_size:
                return False
        return bool(self._alone)

    def take(self, room: int, *, starts: bool) -> list[CallGroup]:
        """Take the next groups that fit off the queue; an isolated group alone, at the start.

        Only a group larger than the back end's batch size is split: as much as fits is taken.

        Args:
            room: the largest number of calls.
            starts: whether they are the first of a batch.
        """
        alone = starts and self.next_is_alone
        heap, groups = self._alone if alone else self._waiting, list[CallGroup]()
        while heap and room > 0:
            _, _, group = heap[0]
            if len(group.entries) > room:
                if len(group.entries) > self.backend.traits.batch_size:
                    part, group.entries = group.entries[:room], group.entries[room:]
                    groups.append(CallGroup(entries=part, ahead=iter(()), trial=group.trial))
                break
            heappop(heap)
            groups.append(group)
            room = 0 if alone else room - len(group.entries)
        return groups

    def take_all(self) -> list[CallGroup]:
        """Take all groups off the queue."""
        groups = [group for heap in (self._waiting, self._alone) for _, _, group in sorted(heap)]
        self._waiting, self._alone = [], []
        return groups

    def submit(self, batch: Batch) -> None:
        """Hand a batch to a worker thread."""

        def work() -> list[Reply]:
            started = time.perf_counter()
            try:
                return self.backend.answer([entry.request.addressed for entry in batch.entries])
            finally:
                batch.seconds = time.perf_counter() - started

        self.in_flight[self._threads.submit(work)] = batch

    def check(self, batch: Batch, replies: Sequence[Reply]) -> None:
        """Check the replies to a batch; a back end that never answers stops the run.

        Raises:
            UsageError: the number of replies differs from the number of calls.
            BackendError: the back end has answered nothing and failed several times in a row.
        """
        if len(replies) != len(batch.entries):
            raise UsageError(
                f"back end {self.backend.identity.name!r} returned {len(replies)} answers for "
                f"{len(batch.entries)} calls; expected one answer per call, in the same order"
            )
        failures = [reply.error for reply in replies if isinstance(reply, Failure)]
        if len(failures) < len(replies):
            self._has_answered = True
            self._failures_in_a_row = 0
            return
        self._failures_in_a_row += 1
        if not self._has_answered and self._failures_in_a_row >= MAX_FAILING_BATCHES:
            raise BackendError(
                f"back end {self.backend.identity.name!r} answered nothing and failed "
                f"{self._failures_in_a_row} times in a row; last error: {failures[-1]}"
            )

    def forget(self, running: RunningWork) -> None:
        """Remove the calls that only this trial, which has ended, waits for."""
        for key in set(running.keys) & self.pending.keys():
            entry = self.pending[key]
            entry.waiters = [waiter for waiter in entry.waiters if waiter[0] is not running]
        for heap in (self._waiting, self._alone):
            for _, _, group in heap:
                for entry in group.entries:
                    if not entry.waiters:
                        del self.pending[entry.key]
                group.entries = [entry for entry in group.entries if entry.waiters]
                if group.trial == running.row:
                    group.ahead = iter(())
            heap[:] = [one for one in heap if one[2].entries]
            heapify(heap)

    def close(self) -> None:
        """Release the threads; calls still in flight are abandoned."""
        if not all(future.done() for future in self.in_flight):
            _abandoned.append(self.backend)
        self._threads.close()


_abandoned: list[Backend] = []
"""Back ends that still work on abandoned calls."""


def release(backend: Backend) -> None:
    """Close a back end, unless it still works on an abandoned call: freeing a model in use would
    crash the process."""
    if not any(one is backend for one in _abandoned):
        backend.close()


class StoredAnswers:
    """Finds answers that need not be computed.

    Args:
        ledger: of this run.
        shared: answers of other runs; None if runs share nothing.
    """

    def __init__(self, ledger: Ledger, shared: SharedAnswers | None) -> None:
        self._ledger = ledger
        self._shared = shared

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Reply]:
        """Return the known answers to these keys; those of other runs are copied into this one."""
        replies: dict[bytes, Reply] = dict(self._ledger.lookup(keys))
        missing = [key for key in keys if key not in replies]
        if self._shared is not None and missing:
            taken = self._shared.lookup(missing)
            if taken:
                # Copied, so that the run can be read and resumed without the cache. Like computed
                # answers, they are committed before an attack is stepped on them.
                self._ledger.answered((key, FROM_CACHE, taken[key], 0.0) for key in taken)
                self._ledger.commit()
            replies |= taken
        return replies

    def keep(self, model: ModelIdentity, batch: Batch, replies: Sequence[Reply]) -> None:
        """Keep computed answers for other runs; failures are left out."""
        if self._shared is None:
            return
        computed = {
            entry.key: reply
            for entry, reply in zip(batch.entries, replies, strict=True)
            if not isinstance(reply, Failure)
        }
        self._shared.keep(model, computed, batch.seconds / len(batch.entries))


def next_batch(
    queue: BackendQueue,
    size: int,
    answers: StoredAnswers,
    deliver: Callable[[QueuedCall, Reply], None],
) -> list[QueuedCall]:
    """Fill a batch from a queue; calls with a stored answer are delivered instead.

    Args:
        queue: of one back end.
        size: the largest number of calls in the batch.
        answers: answers that are stored already.
        deliver: hands a reply to every trial that waits for the call.
    """
    batch: list[QueuedCall] = []
    traits = queue.backend.traits
    while len(batch) < size and (groups := queue.take(size - len(batch), starts=not batch)):
        entries = [entry for group in groups for entry in group.entries]
        replies = answers.lookup([entry.key for entry in entries])
        needed = len(entries) - len(replies)
        for group in groups:
            missing = _undelivered(group.entries, replies, deliver)
            needed -= len(missing)
            if len(batch) + len(missing) > size:
                queue.add(replace(group, entries=missing))
                continue
            batch += missing
            if missing and not missing[0].alone:
                room = size - len(batch)
                # A trial's next calls that are certain go before other trials: prompts of one item
                # share most. Else room is kept for what the other groups need now.
                if not (group.ahead_is_certain and traits.ahead > 0):
                    room = min(traits.ahead, max(room - needed, 0))
                if ahead := list(islice(group.ahead, room)):
                    batch += _undelivered(ahead, answers.lookup([e.key for e in ahead]), deliver)
        if batch and batch[0].alone:
            break
    return batch


def deliver_stored(
    queue: BackendQueue, answers: StoredAnswers, deliver: Callable[[QueuedCall, Reply], None]
) -> None:
    """Deliver the waiting calls with a stored answer; the others go on waiting."""
    groups = queue.take_all()
    entries = [entry for group in groups for entry in group.entries]
    replies = answers.lookup([entry.key for entry in entries])
    for group in groups:
        if missing := _undelivered(group.entries, replies, deliver):
            queue.add(replace(group, entries=missing))


def _undelivered(
    entries: list[QueuedCall],
    stored: Mapping[bytes, Reply],
    deliver: Callable[[QueuedCall, Reply], None],
) -> list[QueuedCall]:
    """Deliver the stored entries and return the others."""
    if not stored:
        return entries
    for entry in entries:
        if entry.key in stored:
            deliver(entry, stored[entry.key])
    return [entry for entry in entries if entry.key not in stored]


def most_held(backend: Backend) -> int:
    """Return the largest number of calls that a back end works on at once."""
    return backend.traits.batch_size * backend.traits.workers
