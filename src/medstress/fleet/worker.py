"""A worker: it loads the models once, and runs one leased shard after the other.

Whatever carries its messages calls `exchange`; the worker never waits for anything else. Its own
files stand in a temporary folder: what must last is shipped.
"""

from __future__ import annotations

import queue
import shutil
import tempfile
import threading
import time
import traceback
from pathlib import Path
from secrets import token_hex
from typing import Any

from medstress.core.errors import MedstressError
from medstress.core.shards import Shard
from medstress.engine.batches import most_held
from medstress.engine.progress import Progress
from medstress.experiment.plan.plan import Caps, Prepared
from medstress.experiment.plan.sharding import take_shard
from medstress.files.writing import Access, write_bytes
from medstress.fleet.allowance import Allowance, used_of
from medstress.fleet.grants import Amounts
from medstress.fleet.keeper_process import checked_answer
from medstress.fleet.leases import StaleLeaseError, State
from medstress.fleet.ledgers import checked, copy_of, digest_of, store_at
from medstress.fleet.messages import pack, unpack
from medstress.fleet.order import Order, environment, models_of, plan_of
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher
from medstress.running.run import run_prepared
from medstress.store.run_store import FILE

_QUIET_SECONDS = 5.0
"""A worker that has nothing to ask says so after this time, so that nobody thinks it dead."""
NOTHING = b""
"""What is exchanged where there is nothing to ask, or to answer."""


class Channel:
    """Messages of the worker's threads, taken one by one by whoever carries them."""

    def __init__(self) -> None:
        self._asked: queue.Queue[bytes] = queue.Queue()
        self._answers: queue.Queue[bytes] = queue.Queue()
        self._turn = threading.Lock()

    def ask(self, ledger: bytes = b"", **message: Any) -> tuple[dict[str, Any], bytes]:
        """Send a message and wait for its answer.

        Raises:
            StaleLeaseError: it speaks for a lease that has ended.
        """
        with self._turn:
            self._asked.put(pack(message, ledger))
            return checked_answer(self._answers.get())

    def tell(self, **message: Any) -> None:
        """Send a last message, which nobody answers."""
        self._asked.put(pack(message))

    def exchange(self, answer: bytes) -> bytes:
        """Take the answer to the last message, and return the next one.

        Returns:
            The message; empty if there is none for a while.
        """
        if answer:
            self._answers.put(answer)
        try:
            return self._asked.get(timeout=_QUIET_SECONDS)
        except queue.Empty:
            return NOTHING


class Worker:
    """Runs shards for one driver, in threads of its own."""

    def __init__(self, told: bytes) -> None:
        """Begin to work.

        Args:
            told: the order, and the worker's name as `owner`.
        """
        message, _ = unpack(told)
        self._order, self._owner = Order.read(message["order"]), str(message["owner"])
        self._channel = Channel()
        self.exchange = self._channel.exchange
        threading.Thread(target=self._work, daemon=True, name="medstress-worker").start()

    def _work(self) -> None:
        try:
            self._channel.ask(ask="hello", versions=environment())
            with tempfile.TemporaryDirectory(prefix="medstress-") as scratch:
                self._shards(Path(scratch))
            self._channel.tell(ask="bye")
        except MedstressError as error:
            self._channel.tell(ask="failed", error=str(error), kind=type(error).__name__)
        except Exception as error:  # noqa: BLE001 - told to the driver, whose user sees it
            told = "".join(traceback.format_exception(error))
            self._channel.tell(ask="failed", error=told, kind=type(error).__name__)

    def _shards(self, scratch: Path) -> None:
        prepared = self._order.prepared(Watcher())
        self._channel.ask(ask="planned", plan=plan_of(prepared))
        with opened_victims(prepared, lambda _: None):
            self._channel.ask(ask="opened", models=models_of(prepared))
            n_held = sum(most_held(backend) for backend in prepared.backends)
            left = None
            while True:
                answer, _ = self._channel.ask(
                    ask="lease", owner=self._owner, holds=n_held, left=left
                )
                if answer.get("end"):
                    return
                if answer["lease"] is None:
                    threading.Event().wait(answer["seconds"])
                    continue
                left = answer["lease"]
                folder = scratch / f"{answer['lease']['shard']}-{answer['lease']['epoch']}"
                LeasedShard(self._order, self._channel, self._owner, answer, n_held).run(
                    prepared, folder
                )


class LeasedShard:
    """One shard, worked on under one lease."""

    def __init__(
        self,
        order: Order,
        channel: Channel,
        owner: str,
        answer: dict[str, Any],
        n_held: int,
    ) -> None:
        self._order, self._channel, self._n_held = order, channel, n_held
        self._lease = {**answer["lease"], "owner": owner}
        self._shipped: dict[str, Any] | None = answer["shipped"]
        self._n_before = self._n_shipped = self._shipped["calls"] if self._shipped else 0
        self._store = None if order.store is None else store_at(order.store)
        self._counts = Progress()
        self._is_over = threading.Event()
        self._is_stale = self._is_asked_to_stop = False
        self._renewed = time.monotonic()

    def run(self, prepared: Prepared, folder: Path) -> None:
        """Run the shard to its end, a cap, the driver's word or the loss of the lease."""
        folder.mkdir()
        self._folder = folder
        whole = prepared.portion
        shard = Shard(self._order.n_shards, self._lease["shard"])
        take_shard(prepared, shard, Caps(room=Allowance(self._ask_for_more).room))
        renewing = threading.Thread(target=self._renew, daemon=True, name="medstress-renewing")
        renewing.start()
        try:
            self._restore()
            state = State.DONE
            try:
                run_prepared(prepared, folder, watcher=Watcher(progress=self._watch))
            except KeyboardInterrupt:
                state = State.OPEN
            if self._counts.stopped and state is State.DONE:
                state = State.LIMITED
            self._ship(state)
        except StaleLeaseError:
            pass  # another worker has the shard
        finally:
            self._is_over.set()
            renewing.join()
            prepared.portion = whole
            shutil.rmtree(folder, ignore_errors=True)

    def _restore(self) -> None:
        if self._shipped is None:
            return
        name = self._shipped["name"]
        if self._store is not None:
            ledger = self._store.get(name)
        else:
            _, ledger = self._channel.ask(ask="fetch", name=name)
        ledger = checked(ledger, self._shipped["digest"], name)
        write_bytes(self._folder / FILE, ledger, Access.OWNER)

    def _watch(self, counts: Progress) -> None:
        """Called between batches, when all answers so far are committed."""
        self._counts = counts
        if self._is_stale or time.monotonic() - self._renewed > self._order.lease_seconds:
            raise StaleLeaseError(f"shard {self._lease['shard']}: its lease has ended")
        if self._is_asked_to_stop:
            raise KeyboardInterrupt
        if self._n_stored - self._n_shipped >= self._order.ship_every:
            self._ship(State.LEASED)

    @property
    def _n_stored(self) -> int:
        return self._n_before + self._counts.n_computed

    def _ship(self, state: State) -> None:
        """Send the ledger, and wait until it is the shard's newest."""
        n_stored, ledger = self._n_stored, copy_of(self._folder)
        name = None
        if self._store is not None:
            name = f"{self._lease['shard']}/{self._lease['epoch']}-{token_hex(6)}.sqlite"
            self._store.put(name, ledger)
            kept = b""
        else:
            kept = ledger
        answer, _ = self._channel.ask(
            kept,
            ask="ship",
            **self._lease,
            **self._report(),
            state=state.value,
            name=name,
            digest=digest_of(ledger),
            calls=n_stored,
        )
        self._n_shipped = n_stored
        if self._store is not None and answer["before"] is not None:
            self._store.remove(answer["before"])

    def _renew(self) -> None:
        """Renew the lease until the shard is over, also while a model takes long to answer."""
        while not self._is_over.wait(self._order.renew_seconds):
            began = time.monotonic()
            try:
                answer, _ = self._channel.ask(ask="renew", **self._lease, **self._report())
            except (MedstressError, RuntimeError):
                self._is_stale = True  # whatever is wrong, the lease is not renewed
                return
            self._renewed, self._is_asked_to_stop = began, bool(answer.get("stop"))

    def _ask_for_more(self, used: dict[str, float]) -> Amounts:
        answer, _ = self._channel.ask(ask="grant", **self._lease, used=used, at_least=self._n_held)
        return Amounts.read(answer["granted"])

    def _report(self) -> dict[str, Any]:
        counts = self._counts
        return {
            "used": used_of(counts),
            "reported": {
                "n_done": counts.n_done + counts.n_skipped,
                "n_flipped": counts.n_flipped,
                "n_eligible": counts.n_eligible,
                "n_failed": counts.n_failed,
                "stored": self._n_stored,
            },
        }
