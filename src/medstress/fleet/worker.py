"""A worker: it loads the models once, and runs one leased shard after the other.

Whatever carries its messages calls `exchange`; the worker never waits for anything else. Its own
files stand in a temporary folder: what must last is shipped.
"""

from __future__ import annotations

import shutil
import tempfile
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.core.errors import MedstressError, UsageError
from medstress.core.shards import Shard
from medstress.engine.batches import most_held
from medstress.engine.progress import Progress
from medstress.experiment.plan.plan import Caps, Prepared
from medstress.experiment.plan.sharding import take_shard
from medstress.files.writing import Access, write_bytes
from medstress.fleet.allowance import Allowance, used_of
from medstress.fleet.grants import Amounts
from medstress.fleet.leased import Channel, Leased
from medstress.fleet.leases import StaleLeaseError, State
from medstress.fleet.ledgers import checked, copy_of, store_at
from medstress.fleet.messages import unpack
from medstress.fleet.models import digest_of_model, unpack_to
from medstress.fleet.order import TRAINING, Order, environment, models_of, plan_of
from medstress.fleet.phases import Phase, phase_of
from medstress.fleet.training_work import LeasedModel, Models
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher
from medstress.running.run import run_prepared
from medstress.store.run_store import FILE


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """What a worker has loaded and works with."""

    models: Mapping[str, str]
    """Digests of models, functions and prompts."""
    n_held: int
    """The most calls in flight."""
    work: Callable[[dict[str, Any], Path], None]
    """Given a lease and a new folder, works on its shard."""


class Worker:
    """Works on the shards of one phase for one driver, in threads of its own."""

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
        plan, opening = self._planned()
        self._channel.ask(ask="planned", plan=plan)
        with opening as opened:
            self._channel.ask(ask="opened", models=opened.models)
            left = None
            while True:
                answer, _ = self._channel.ask(
                    ask="lease", owner=self._owner, holds=opened.n_held, left=left
                )
                if answer.get("end"):
                    return
                if answer["lease"] is None:
                    threading.Event().wait(answer["seconds"])
                    continue
                left = answer["lease"]
                folder = scratch / f"{answer['lease']['shard']}-{answer['lease']['epoch']}"
                folder.mkdir()
                try:
                    opened.work(answer, folder)
                finally:
                    shutil.rmtree(folder, ignore_errors=True)

    def _planned(self) -> tuple[dict[str, str], AbstractContextManager[Opened]]:
        """Read the experiment; return digests of the phase, and what opens its models."""
        if self._order.phase["name"] == TRAINING:
            models = Models.of(self._order, Watcher())
            return models.plan(), self._opened_for_training(models)
        phase = phase_of(self._order, Watcher())
        return plan_of(phase.part()), self._opened_for_trials(phase)

    @contextmanager
    def _opened_for_training(self, models: Models) -> Iterator[Opened]:
        def work(answer: dict[str, Any], folder: Path) -> None:
            LeasedModel(self._order, self._channel, self._owner, answer).run(models, folder)

        yield Opened(models={}, n_held=0, work=work)

    @contextmanager
    def _opened_for_trials(self, phase: Phase) -> Iterator[Opened]:
        for place, digest in phase.models.items():
            self._provide(place, digest)
        with opened_victims(phase.whole, lambda _: None):
            prepared = phase.part()
            n_held = sum(most_held(backend) for backend in prepared.backends)

            def work(answer: dict[str, Any], folder: Path) -> None:
                LeasedShard(self._order, self._channel, self._owner, answer, n_held).run(
                    prepared, folder
                )

            yield Opened(models=models_of(prepared), n_held=n_held, work=work)

    def _provide(self, place: Path, digest: str) -> None:
        """Get a trained model where the driver has it, unless this machine sees it there.

        Raises:
            UsageError: this machine has another there.
        """
        if not place.is_dir():
            told, data = self._channel.ask(ask="model", folder=str(place))
            if told["name"] is not None:
                data = store_at(str(self._order.store)).get(told["name"])
            unpack_to(place, checked(data, told["digest"], place.name))
        if digest_of_model(place) != digest:
            raise UsageError(
                f"a worker's machine has another model in {place} than the driver's; remove it "
                "there, or choose another folder with --out"
            )


class LeasedShard(Leased):
    """One shard of trials, worked on under one lease."""

    suffix = ".sqlite"

    def __init__(
        self,
        order: Order,
        channel: Channel,
        owner: str,
        answer: dict[str, Any],
        n_held: int,
    ) -> None:
        super().__init__(order, channel, owner, answer)
        self._n_held = n_held
        self._n_before = self._n_shipped = self._shipped["calls"] if self._shipped else 0
        self._counts = Progress()

    def run(self, prepared: Prepared, folder: Path) -> None:
        """Run the shard to its end, a cap, the driver's word or the loss of the lease."""
        self._folder = folder
        whole = prepared.portion
        shard = Shard(self._order.n_shards, self._lease["shard"])
        take_shard(prepared, shard, Caps(room=Allowance(self._ask_for_more).room))
        try:
            with self._renewing():
                if (ledger := self._fetched()) is not None:
                    write_bytes(self._folder / FILE, ledger, Access.OWNER)
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
            prepared.portion = whole

    def _watch(self, counts: Progress) -> None:
        """Called between batches, when all answers so far are committed."""
        self._counts = counts
        self._check_lease()
        if self._n_stored - self._n_shipped >= self._order.ship_every:
            self._ship(State.LEASED)

    @property
    def _n_stored(self) -> int:
        return self._n_before + self._counts.n_computed

    def _ship(self, state: State) -> None:
        """Send the ledger, and wait until it is the shard's newest."""
        n_stored = self._n_stored
        self._send(copy_of(self._folder), state, n_stored)
        self._n_shipped = n_stored

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
