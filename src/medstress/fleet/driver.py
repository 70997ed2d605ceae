"""The driver of a run on many machines: it makes workers, passes on what they ask, and counts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

from medstress.core.errors import MedstressError, StoreError, UsageError
from medstress.core.words import plural
from medstress.engine.progress import Progress
from medstress.fleet.keeper_process import KeeperProcess, error_of
from medstress.fleet.leased import NOTHING
from medstress.fleet.messages import pack, unpack
from medstress.fleet.order import Order, check_environment, environment
from medstress.fleet.outcome import Outcome, outcome_of
from medstress.running.prepare import Watcher

_ROUND_SECONDS = 0.25
"""Longest wait for messages; after it the display is drawn."""
_IDLE_SECONDS = 0.5
"""What a worker waits that finds no free shard."""
_GATHER_SECONDS = 60.0
"""How long the first shard waits until every worker has said its versions; for those that did, it
waits until their models are open. Workers that a cluster has no room for are compared when they
come."""
_NOTE_SECONDS = 5.0
_MOST_DEATHS = 5
"""Workers that may end one after the other on a shard, or before they begin."""


class Workers(Protocol):
    """Makes workers (`medstress.fleet.worker.Worker`) somewhere, and carries their messages."""

    def start(self, owner: str, told: bytes) -> None:
        """Make a worker and take its first message."""

    def send(self, owner: str, answer: bytes) -> None:
        """Answer a worker, and take its next message."""

    def receive(self, seconds: float) -> Iterable[tuple[str, bytes | None]]:
        """Return the messages that have come, waiting for the first; None of a dead worker."""

    def end(self, owner: str) -> None:
        """End a worker."""


@dataclass(slots=True)
class _Total:
    """What all shards have reported, in the shape of displays."""

    n_planned: int
    of_shard: dict[int, Mapping[str, Any]] = field(default_factory=dict)
    of_lease: dict[tuple[int, int], Mapping[str, float]] = field(default_factory=dict)
    before: Mapping[str, float] = field(default_factory=dict)
    """Used by leases of earlier drivers."""
    is_waiting: bool = True
    """Whether no shard has been leased yet."""
    is_limited: bool = False
    """Whether a cap has ended a shard."""

    def take(self, message: Mapping[str, Any]) -> None:
        self.of_shard[message["shard"]] = message["reported"]
        self.of_lease[message["shard"], message["epoch"]] = message["used"]

    def progress(self) -> Progress:
        def shards(name: str) -> int:
            return sum(int(each.get(name, 0)) for each in self.of_shard.values())

        def used(name: str) -> float:
            leases = sum(float(each[name]) for each in self.of_lease.values())
            return float(self.before.get(name, 0)) + leases

        return Progress(
            n_planned=self.n_planned,
            n_done=shards("n_done"),
            n_flipped=shards("n_flipped"),
            n_eligible=shards("n_eligible"),
            n_failed=shards("n_failed"),
            n_computed=int(used("queries")),
            n_tokens=int(used("tokens")),
            usd=used("usd"),
            n_before=int(self.before.get("queries", 0)),
            waiting=self.is_waiting,
            stopped=self.is_limited,
        )


class Driver:
    """Runs all shards of one run on workers that come and go."""

    def __init__(
        self,
        order: Order,
        *,
        plan: Mapping[str, str],
        n_planned: int,
        keeper: KeeperProcess,
        workers: Workers,
        n_workers: int,
        watcher: Watcher,
        promise: Callable[[str, int], str],
        model: Callable[[Path], tuple[dict[str, Any], bytes]],
        until: float | None = None,
    ) -> None:
        """Begin; nothing is started yet.

        Args:
            order: the phase.
            plan: digests that every worker must have, too.
            n_planned: trials, or models, of all shards.
            keeper: of the phase.
            workers: makes workers.
            n_workers: how many.
            watcher: callbacks for progress.
            promise: given the workers in words, and the calls that one has in flight, says what
                the loss of a worker costs.
            model: packs the folder of a trained model.
            until: end of the time for asking, on the monotonic clock.
        """
        self._order, self._plan, self._environment = order, plan, environment()
        self._keeper, self._workers, self._n_workers = keeper, workers, n_workers
        self._watcher, self._until = watcher, until
        self._promise, self._model = promise, model
        self._total = _Total(n_planned)
        self._alive: dict[str, str] = {}  # owner -> its name in messages
        self._greeted: set[str] = set()
        self._loading: set[str] = set()  # those that open their models
        self._models: dict[str, str] | None = None
        self._working: set[str] = set()  # those that have a shard
        self._n_started = self._n_unready_deaths = 0
        self._is_ending = self._has_announced = False
        self._n_when_opened = -1.0
        self._started = time.monotonic()
        self._seconds_before = self._noted = self._shown = 0.0

    def run(self, reported: Iterable[tuple[int, Mapping[str, Any]]], n_shards_left: int) -> Outcome:
        """Run until every shard has ended, or a cap ends the run.

        Args:
            reported: what shards of earlier drivers have done.
            n_shards_left: shards that are not done.

        Raises:
            UsageError, DataError, StoreError, BackendError: a worker's or the keeper's sentence.
            KeyboardInterrupt: raised once the workers have shipped what came in time.
        """
        self._total.of_shard.update(reported)
        told = self._keeper.ask("overview")[0]
        self._total.before, self._seconds_before = told["used"], told["seconds"]
        try:
            for _ in range(min(self._n_workers, n_shards_left)):
                self._start()
            while self._alive:
                self._round(_ROUND_SECONDS)
                self._show()
            self._watcher.progress(self._total.progress())
        except (KeyboardInterrupt, MedstressError):
            self._stop()
            raise
        finally:
            for owner in list(self._alive):
                self._workers.end(owner)
        return outcome_of(self._keeper.ask("overview")[0], n_keepers=self._keeper.n_restarts)

    def _round(self, seconds: float) -> None:
        if self._until is not None and time.monotonic() >= self._until:
            self._is_ending = True
        for owner, message in list(self._workers.receive(seconds)):
            if owner not in self._alive:
                continue
            if message is None:
                self._died(owner)
            elif message == NOTHING:
                self._workers.send(owner, NOTHING)
            elif (answer := self._answer(owner, message)) is not None:
                self._workers.send(owner, answer)

    def _show(self) -> None:
        """Show how far the run is, and keep how long it has asked, for its limit of seconds."""
        seconds = time.monotonic() - self._started
        if seconds - self._shown >= _ROUND_SECONDS:
            self._shown = seconds
            self._watcher.progress(self._total.progress())
        if seconds - self._noted >= _NOTE_SECONDS:
            self._noted = seconds
            self._keeper.ask("overview", seconds=self._seconds_before + seconds)

    def _start(self) -> None:
        owner = token_hex(8)
        self._n_started += 1
        self._alive[owner] = f"worker {self._n_started}"
        self._workers.start(owner, pack({"order": self._order.as_json(), "owner": owner}))

    def _died(self, owner: str) -> None:
        name = self._alive.pop(owner)
        self._working.discard(owner)
        self._loading.discard(owner)
        self._n_unready_deaths += owner not in self._greeted
        if self._n_unready_deaths >= _MOST_DEATHS:
            raise StoreError(
                f"{plural(_MOST_DEATHS, 'worker')} ended before they began, the last of them {name}"
                "; their logs stand where the cluster keeps them (Ray: in its folder `logs`)"
            )
        self._keeper.ask("revoke", owner=owner)
        told = self._keeper.ask("overview")[0]
        if told["in_a_row"] >= _MOST_DEATHS:
            raise StoreError(
                f"{plural(_MOST_DEATHS, 'worker')} ended one after the other on the same shard, "
                "without shipping an answer; is there memory enough for the model? What was "
                "shipped is kept, and the same command goes on"
            )
        if not self._is_ending and told["counts"]["open"]:
            self._start()

    def _answer(self, owner: str, data: bytes) -> bytes | None:
        message, _ = unpack(data)
        match message["ask"]:
            case "hello":
                check_environment(self._alive[owner], self._environment, message["versions"])
                return pack({})
            case "planned":
                self._check_plan(owner, message["plan"])
                self._loading.add(owner)
                return pack({})
            case "opened":
                self._check_models(owner, message["models"])
                self._loading.discard(owner)
                self._greeted.add(owner)
                return pack({})
            case "lease":
                return self._lease(owner, data, message["holds"])
            case "grant":
                return self._keeper.pass_on(pack({**message, "workers": self._n_workers}))
            case "model":
                return pack(*self._model(Path(message["folder"])))
            case "renew":
                self._total.take(message)
                if message.get("note"):
                    self._watcher.note(message["note"])
                told, _ = unpack(self._keeper.pass_on(data))
                return pack({**told, "stop": self._is_ending})
            case "ship":
                self._total.take(message)
                return self._keeper.pass_on(data)
            case "bye" | "failed" as what:
                del self._alive[owner]
                self._working.discard(owner)
                self._loading.discard(owner)
                self._workers.end(owner)
                if what == "failed" and not self._is_ending:
                    raise error_of(message)
                return None
        return self._keeper.pass_on(data)

    def _check_plan(self, owner: str, plan: Mapping[str, str]) -> None:
        """Raise a UsageError if a worker's machine has other data or another experiment."""
        differing = [name for name, digest in self._plan.items() if plan.get(name) != digest]
        if differing:
            raise UsageError(
                f"{self._alive[owner]} has other {' and '.join(differing)} than this machine; give "
                f"all machines the same files in {self._order.base}, nothing was asked"
            )

    def _check_models(self, owner: str, models: Mapping[str, str]) -> None:
        """Raise an error if a worker's models are not those of the others, or of earlier ones.

        Raises:
            UsageError: another worker of this driver has others.
            StoreError: the shards hold answers of others.
        """
        is_first = self._models is None
        if self._models is None:
            self._models = self._keeper.ask("models", models=models)[0]["models"]
        changed = [name for name, digest in self._models.items() if models.get(name) != digest]
        if changed and is_first:
            raise StoreError(
                f"the shards of this run hold answers of another {' and '.join(changed)}: it "
                "changed since; undo the change, or choose another folder with --out, nothing was "
                "asked"
            )
        if changed:
            raise UsageError(
                f"{self._alive[owner]} has another {' and '.join(changed)} than those that came "
                "before it; give all machines the same files and weights"
            )

    def _lease(self, owner: str, data: bytes, n_held: int) -> bytes:
        self._working.discard(owner)
        if self._is_ending:
            return pack({"end": True})
        if not self._has_announced:
            waited = time.monotonic() - self._started
            is_missing = not self._greeted.issuperset(self._alive) and waited < _GATHER_SECONDS
            if is_missing or self._loading:
                return pack({"lease": None, "seconds": _IDLE_SECONDS})
            self._announce(n_held)
        answer = self._keeper.pass_on(data)
        told, _ = unpack(answer)
        if told.get("lease") is not None:
            self._working.add(owner)
            self._total.is_waiting = False
        if told.get("lease") is not None or "error" in told:
            return answer
        counts = told["counts"]
        is_freed = self._opened_again(counts["limited"])
        self._total.is_limited = counts["limited"] > 0 and not is_freed
        if counts["leased"] or counts["open"] or is_freed:
            return pack({"lease": None, "seconds": _IDLE_SECONDS})
        return pack({"end": True})

    def _opened_again(self, n_limited: int) -> bool:
        """Free the shards that a cap ended, if others have left something of it since."""
        if not n_limited:
            return False
        told = self._keeper.ask("overview")[0]
        n_used = sum(told["used"].values())
        if n_used == self._n_when_opened or any(told["is_used_up"].values()):
            return False
        self._n_when_opened = n_used
        return bool(self._keeper.ask("open_again")[0]["shards"])

    def _announce(self, n_held: int) -> None:
        """Say before the first call what may be paid beyond a cap, and what may be paid twice."""
        self._has_announced = True
        self._keeper.ask("overview", unshipped=self._order.ship_every + n_held)
        self._watcher.announce(self._promise(plural(self._n_workers, "worker"), n_held))

    def _stop(self) -> None:
        """Let the workers ship what comes in time; whatever goes wrong now is not the reason."""
        self._is_ending = True
        until = time.monotonic() + self._watcher.drain_seconds
        with suppress(MedstressError):
            while self._working and time.monotonic() < until:
                self._round(_ROUND_SECONDS)
