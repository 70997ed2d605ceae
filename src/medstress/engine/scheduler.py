"""Run many trials at once: step those whose answers have come, and batch the calls of the others.

There is no barrier: when a batch returns, its trials are stepped and their new calls queued.
Identical pending calls are computed once, and stored answers are never computed again.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from functools import partial
from itertools import islice

from medstress.core.calls import Backend, Exchange, Failure, Reply, Request
from medstress.core.errors import BackendError, MedstressError, StoreError, UsageError
from medstress.core.frozen import rare_collections
from medstress.core.outcomes import Verdict
from medstress.engine.backend_queue import (
    BackendQueue,
    Batch,
    CallGroup,
    QueuedCall,
    StoredAnswers,
    deliver_stored,
    most_held,
    next_batch,
)
from medstress.engine.inquiry import InquiryVerdict
from medstress.engine.progress import Deadlines, Limits, Progress
from medstress.engine.work import (
    VICTIM,
    Ledger,
    OutOfTimeError,
    Result,
    RunningWork,
    SharedAnswers,
    Work,
)

WINDOW = 64
EXCHANGES_HELD = 32
"""Exchanges of one trial that are written together. A database page holds a few dozen; trials that
take turns to write one row each would dirty a page per row."""


class Scheduler:
    """Runs trials against a ledger; single-threaded but for the back ends' workers."""

    def __init__(
        self,
        ledger: Ledger,
        *,
        roles: Mapping[str, Backend] | None = None,
        limits: Limits | None = None,
        shared: SharedAnswers | None = None,
        on_progress: Callable[[Progress], None] | None = None,
    ) -> None:
        self._ledger = ledger
        self._roles = dict(roles or {})
        self._limits = limits or Limits()
        self._deadlines = Deadlines(self._limits)
        self._stored = StoredAnswers(ledger, shared)
        self._on_progress = on_progress or (lambda _: None)
        self._queues: dict[int, BackendQueue] = {}
        self._runnable: deque[RunningWork] = deque()
        self._running: dict[int, RunningWork] = {}
        self._all_admitted = False
        self._outbox: list[Exchange] = []
        self._unsent: Sequence[QueuedCall] = ()
        self._ended: list[tuple[RunningWork, Result]] = []
        self._arms: dict[tuple[str, str, str, str, int | None], int] = {}
        self.progress = Progress()

    def run(self, trials: Iterable[Work], n_planned: int = 0) -> Progress:
        """Run all trials, inquiries or studies that are not finished.

        Raises:
            UsageError: a model broke its contract.
            BackendError: a back end failed several times before answering anything.
            StoreError: the run folder cannot be written, or replay diverged.
            KeyboardInterrupt: raised once the answers in flight that came in time are stored.
        """
        self.progress.n_planned = n_planned
        plan = iter(trials)
        try:
            self._on_progress(self.progress)  # before anything is asked
            with rare_collections():
                self._loop(plan)
                self._write(everything=True)
        except (KeyboardInterrupt, Exception) as error:
            self._end_early(error)
            raise
        finally:
            for queue in self._queues.values():
                queue.close()
        return self.progress

    def _loop(self, plan: Iterator[Work]) -> None:
        while True:
            self._admit(plan)
            self._step_all()
            self._end_overdue()
            if not self.progress.stopped:
                self._dispatch()
            self.progress.n_running = len(self._running)
            self._on_progress(self.progress)
            if self._n_in_flight():
                if self._deadlines.drain_is_over:
                    self.progress.stopped = True
                    return  # calls that hang stay journalled and are reported as interrupted
                self._collect()
            elif not self._runnable and (
                self.progress.stopped or (self._all_admitted and not self._running)
            ):
                # If all running trials ended in one step, the loop goes on to admit the next ones.
                return

    def _admit(self, plan: Iterator[Work]) -> None:
        while (room := self._window() - len(self._running)) > 0 and not self.progress.stopped:
            trials = list(islice(plan, room))
            begun = self._ledger.begin_trials(
                [
                    (one.id, self._arm(one), one.dataset, one.item, one.repeat, one.place)
                    for one in trials
                ]
            )
            for trial, (row, is_finished, journal) in zip(trials, begun, strict=True):
                if is_finished:
                    self.progress.n_skipped += 1
                else:
                    self._running[row] = running = RunningWork(trial, row, journal)
                    self._advance(running)
            if len(trials) < room:
                self._all_admitted = True
                break
        self._write()

    def _window(self) -> int:
        """Return how many trials run at once: twice what the back ends of all roles can hold.

        A trial waits for one role at a time, so fewer would leave the other roles without work.
        """
        roles = {id(one): most_held(one) for one in self._roles.values()}
        victims = (most_held(one.backend) for key, one in self._queues.items() if key not in roles)
        return max(WINDOW, 2 * (sum(roles.values()) + max(victims, default=0)))

    def _arm(self, trial: Work) -> int:
        """Return the row of a trial's arm."""
        victim = trial.victim.label
        arm = (trial.dataset, trial.group, victim, trial.attack_label, trial.seed)
        if arm not in self._arms:
            self._arms[arm] = self._ledger.arm_id(*arm[:4], trial.attack_spec, trial.seed)
        return self._arms[arm]

    def _step_all(self) -> None:
        while self._runnable:
            running = self._runnable.popleft()
            running.record()
            self._advance(running)
        self._write()

    def _end_overdue(self) -> None:
        """End the trials whose time is up; a limit that stops the run is no fault of theirs."""
        if self.progress.stopped or self._limits.is_late:
            return
        for running in self._deadlines.overdue(self._running.values()):
            for queue in self._queues.values():
                queue.forget(running)
            self._finish(running, running.cut_short(OutOfTimeError(self._deadlines.reason)))
        self._write()

    def _advance(self, running: RunningWork) -> None:
        """Step a trial until it waits for a call that has to be computed, or ends."""
        while True:
            result = running.step()
            if result is not None:
                self._finish(running, result)
                return
            if self._resolve(running):
                break
            running.record()
        if len(running.unwritten) >= EXCHANGES_HELD:
            self._outbox += running.take_unwritten()

    def _finish(self, running: RunningWork, result: Result) -> None:
        progress = self.progress
        progress.n_done += 1
        progress.n_idle += not running.keys
        if result.verdict in (Verdict.FLIPPED, Verdict.HELD):
            is_lost = result.verdict is Verdict.FLIPPED
            if "control_of" in running.work.attack_spec:
                progress.n_harmless += 1
                progress.n_harmless_lost += is_lost
            else:
                progress.n_eligible += 1
                progress.n_flipped += is_lost
        progress.n_failed += result.verdict in (Verdict.FAILED, InquiryVerdict.UNANSWERED)
        del self._running[running.row]
        self._outbox += running.take_unwritten()
        self._ended.append((running, result))

    def _write(self, *, everything: bool = False) -> None:
        """Write what the trials consumed and how they ended.

        Args:
            everything: also the last exchanges of trials that go on. Without them, a resumed run
                finds them again by their stored answers.
        """
        if everything:
            for running in self._running.values():
                self._outbox += running.take_unwritten()
        # Exchanges first: a finished trial without its exchanges would be a hole in the ledger.
        if self._outbox:
            self._ledger.consumed(self._outbox)
            self._outbox.clear()
        for running, result in self._ended:
            self._ledger.finish_trial(running.row, result.verdict.value, result.as_record())
        self._ended.clear()

    def _resolve(self, running: RunningWork) -> bool:
        """Queue the calls that a trial needs; return True if it has to wait."""
        call_round = running.call_round
        queue = self._queue_of(
            running.work.victim.backend if call_round.role == VICTIM else None, call_round.role
        )
        requests, identity = running.fit(queue.backend), queue.backend.identity
        running.expect([request.key(identity) for request in requests])
        if running.is_replayed:
            self._replay(running)
        fresh: list[QueuedCall] = []
        for i, (key, reply) in enumerate(zip(running.keys, running.replies, strict=True)):
            if reply is None:
                entry = queue.pending.get(key)
                if entry is None:
                    entry = queue.enter(key, requests[i], running, alone=call_round.alone)
                    fresh.append(entry)
                running.n_open += 1
                entry.waiters.append((running, i))
        if fresh:
            queue.add(
                CallGroup(
                    entries=fresh,
                    ahead=self._ahead(queue, running, call_round.ahead),
                    trial=running.row,
                    ahead_is_certain=call_round.ahead_is_certain,
                )
            )
        return running.n_open > 0

    def _replay(self, running: RunningWork) -> None:
        """Fill in the replies that the trial consumed in an earlier process."""
        stored = self._ledger.lookup(running.keys)
        for i, key in enumerate(running.keys):
            replayed = running.replayed(i)
            if isinstance(replayed, Failure):
                running.replies[i] = replayed
            elif replayed and key not in stored:
                raise StoreError(f"the answer to a recorded call is missing (trial {running.row})")
            elif replayed:
                running.replies[i] = stored[key]

    def _deliver(self, queue: BackendQueue, entry: QueuedCall, reply: Reply) -> None:
        """Give the reply to every trial that waits for the call."""
        del queue.pending[entry.key]
        for running, i in entry.waiters:
            running.replies[i] = reply
            running.n_open -= 1
            if running.n_open == 0:
                self._runnable.append(running)

    def _ahead(
        self, queue: BackendQueue, running: RunningWork, requests: Iterator[Request]
    ) -> Iterator[QueuedCall]:
        """Yield calls worth computing early that are not pending yet."""
        for upcoming in requests:
            request = upcoming.fitted(queue.backend)
            key = request.key(queue.backend.identity)
            if key not in queue.pending:
                yield queue.enter(key, request, running)

    def _queue_of(self, backend: Backend | None, role: str) -> BackendQueue:
        backend = backend or self._roles.get(role)
        if backend is None:
            raise UsageError(f"the attack asks the role {role!r}: add a [role.{role}] table")
        queue = self._queues.get(id(backend))
        if queue is None:
            queue = BackendQueue(backend)
            self._queues[id(backend)] = queue
        return queue

    def _dispatch(self) -> None:
        for queue in self._queues.values():
            while queue.idle and not self.progress.stopped:
                most = self._limits.room(self.progress, self._n_in_flight())
                size = min(most, queue.backend.traits.batch_size)
                entries = next_batch(queue, size, self._stored, partial(self._deliver, queue))
                if not entries and queue.idle:
                    # The rest of the limit does not hold the calls of one query. A batch in flight
                    # may yet fail and leave room, and stored answers cost nothing.
                    self.progress.stopped = not (self._n_in_flight() or self._deliver_stored())
                    break
                if entries:
                    # Journalled and committed before the back end sees it.
                    self._unsent = entries
                    self._ledger.dispatching([(entry.key, entry.trial) for entry in entries])
                    self._deadlines.begin(entries)
                    self._unsent = ()
                    queue.submit(Batch(entries))

    def _deliver_stored(self) -> bool:
        """Answer waiting calls whose answers are stored; return whether a trial goes on."""
        if self._limits.is_late:
            return False
        for queue in self._queues.values():
            deliver_stored(queue, self._stored, partial(self._deliver, queue))
        return bool(self._runnable)

    def _collect(self) -> None:
        futures = [future for queue in self._queues.values() for future in queue.in_flight]
        seconds = self._deadlines.seconds_to_wait(self._running.values())
        done, _ = wait(futures, seconds, return_when=FIRST_COMPLETED)
        for queue in self._queues.values():
            for future in [future for future in queue.in_flight if future in done]:
                self._receive(queue, future)

    def _receive(self, queue: BackendQueue, future: Future[list[Reply]]) -> None:
        batch = queue.in_flight[future]
        try:
            replies = future.result()
        except BackendError as error:
            replies = [Failure(error=str(error))] * len(batch.entries)
        queue.check(batch, replies)
        share = batch.seconds / max(len(batch.entries), 1)
        self._ledger.answered(
            (entry.key, entry.trial, None if isinstance(reply, Failure) else reply, share)
            for entry, reply in zip(batch.entries, replies, strict=True)
        )
        # Committed before any attack is stepped on these answers. They count as in flight until
        # then, so that an interrupt in between still stores them.
        self._ledger.commit()
        del queue.in_flight[future]
        self._stored.keep(queue.backend.identity, batch, replies)
        for entry, reply in zip(batch.entries, replies, strict=True):
            if not isinstance(reply, Failure):
                self.progress.n_computed += 1
                self.progress.n_tokens += reply.tokens_in + reply.tokens_out
                self.progress.usd += self._limits.usd_of(queue.backend, reply)
            self._deliver(queue, entry, reply)

    def _end_early(self, error: BaseException) -> None:
        """Store consumed exchanges and answers in flight, so that nothing paid for is lost.

        Raises:
            StoreError: not all of it could be stored.
        """
        try:
            # A failed write has rolled back others; exchanges that depend on them are not stored.
            if not isinstance(error, StoreError):
                self._ledger.answered((e.key, e.trial, None, 0.0) for e in self._unsent)
                self._ledger.commit()
                self._write(everything=True)
                self._ledger.commit()
        finally:
            self._drain()

    def _drain(self) -> None:
        """Store the answers in flight that come in time, batch by batch."""
        failure: StoreError | None = None
        until = time.monotonic() + self._limits.drain_seconds
        while left := {
            future: queue for queue in self._queues.values() for future in queue.in_flight
        }:
            done, _ = wait(left, max(until - time.monotonic(), 0.0), FIRST_COMPLETED)
            if not done:
                break  # its calls stay journalled and are reported as interrupted
            for future in done:
                try:
                    self._store(left[future].in_flight[future], future.result())
                except StoreError as error:
                    failure = error  # the other batches may still fit
                except MedstressError:
                    pass  # as above
                del left[future].in_flight[future]
        if failure is not None:
            raise failure

    def _store(self, batch: Batch, replies: Sequence[Reply]) -> None:
        if len(replies) != len(batch.entries):
            return  # no telling which answer belongs to which call
        share = batch.seconds / max(len(batch.entries), 1)
        self._ledger.answered(
            (entry.key, entry.trial, reply, share)
            for entry, reply in zip(batch.entries, replies, strict=True)
            if not isinstance(reply, Failure)
        )
        self._ledger.commit()

    def _n_in_flight(self) -> int:
        return sum(
            len(batch.entries)
            for queue in self._queues.values()
            for batch in queue.in_flight.values()
        )
