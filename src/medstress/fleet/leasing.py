"""The shards of one phase are leased to workers until all have ended, or a cap ends them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

from medstress.core.errors import OtherRunError, StoreError, UsageError
from medstress.core.hashing import content_hash
from medstress.fleet.driver import Driver, Workers
from medstress.fleet.grants import Amounts
from medstress.fleet.keeper import LEASE_SECONDS
from medstress.fleet.keeper_process import KeeperProcess
from medstress.fleet.ledgers import checked, digest_of, store_at
from medstress.fleet.models import packed
from medstress.fleet.order import Order
from medstress.fleet.outcome import Outcome, outcome_of
from medstress.running.prepare import Watcher
from medstress.running.shard_limits import check_number

OpenWorkers: TypeAlias = Callable[[int], AbstractContextManager[tuple[Workers, int]]]
"""Given the most workers that have something to do: makes workers, and says how many to start."""
OWN = ".fleet"
"""Folder of leases and ledgers, beside the shards; no glob of them matches it."""
_SHARDS = "-shards"
SHIP_EVERY = 1000
RENEW_SECONDS = 1.0
"""Seconds between the reports of a worker, if there are few."""
_REPORTS_A_SECOND = 100
"""Reports of all workers together; the driver answers about ten times as many messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fleet:
    """How a run is spread over machines."""

    open_workers: OpenWorkers
    """Makes workers."""
    n_shards: int
    """Into how many parts the plan is cut."""
    store: str | None = None
    """Where ledgers travel to: a folder that all machines see, or a URL; None: to this process."""
    ship_every: int = SHIP_EVERY
    """Calls after which a shard's ledger travels."""
    lease_seconds: float = LEASE_SECONDS
    """A worker that was silent for so long has lost its shard once another asks for one."""

    def __post_init__(self) -> None:
        check_number(self.n_shards, "--shards")
        if self.ship_every < 1:
            raise UsageError(f"--ship-every: expected at least 1, got {self.ship_every}")


@contextmanager
def opened_once(fleet: Fleet) -> Iterator[Fleet]:
    """Let all phases of a command have their workers in one place, opened when first needed."""
    with ExitStack() as stack:
        opened: list[tuple[Workers, int]] = []

        @contextmanager
        def open_workers(most: int) -> Iterator[tuple[Workers, int]]:
            if not opened:
                opened.append(stack.enter_context(fleet.open_workers(most)))
            yield opened[0]

        yield replace(fleet, open_workers=open_workers)


def shards_of(folder: Path) -> Path:
    """Return where the shards of a run stand."""
    return folder.with_name(f"{folder.name}{_SHARDS}")


def _out_of(place: Path) -> Path:
    """Return the folder of a run whose leases of some phase stand there.

    >>> [str(_out_of(Path(each))) for each in ("runs/x-shards", "runs/x-shards/tuning")]
    ['runs/x', 'runs/x']
    """
    shards = place if place.name.endswith(_SHARDS) else place.parent
    return shards.with_name(shards.name.removesuffix(_SHARDS))


@dataclass(frozen=True, slots=True, kw_only=True)
class Leasing:
    """What is leased, and to whom."""

    fleet: Fleet
    """Workers."""
    order: Order
    """What they are told."""
    place: Path
    """Leases and ledgers stand in its folder `OWN`."""
    watcher: Watcher
    """Callbacks for progress."""
    plan: Mapping[str, str]
    """Digests that every worker must have, too."""
    n_planned: int
    """Trials, or models, of all shards."""
    promise: Callable[[str, int], str]
    """See `Driver`."""
    caps: Amounts = field(default_factory=Amounts)
    """What all of them may use up."""
    seconds: float | None = None
    """Time for asking."""
    done: Sequence[int] = ()
    """Shards that nothing is left of."""
    extends: str | None = None
    """See `LeaseTable.begin`."""

    def run(self, keep: Callable[[int, bytes], None]) -> tuple[Outcome, dict[str, Any]]:
        """Let the shards be worked on.

        Args:
            keep: receives number and newest ledger of each shard, if all are done.

        Returns:
            How they ended, and the keeper's overview.
        """
        with self.fleet.open_workers(self.order.n_shards) as (workers, n_workers):
            keeper = KeeperProcess(self.place / OWN, self.fleet.lease_seconds)
            try:
                outcome = self._drive(keeper, workers, n_workers)
                told = keeper.ask("overview")[0]
                if not outcome.n_limited:
                    self._fetch(keeper, keep)
            finally:
                keeper.close()
        return outcome, told

    def _drive(self, keeper: KeeperProcess, workers: Workers, n_workers: int) -> Outcome:
        n_shards = self.order.n_shards
        facts = {"plan": content_hash(self.plan), "shards": n_shards, "store": self.order.store}
        told, _ = keeper.ask(
            "begin",
            shards=n_shards,
            facts=facts,
            caps=self.caps.as_json(),
            done=list(self.done),
            extends=self.extends,
        )
        self._check_same(told["facts"], facts)
        overview = keeper.ask("overview")[0]
        left = n_shards - overview["counts"]["done"]
        until = None
        if self.seconds is not None:
            until = time.monotonic() + self.seconds - overview["seconds"]
        if not left:
            return outcome_of(overview, n_keepers=0)
        keeper.ask("open_again")
        n_workers = min(n_workers, left)
        seconds = max(RENEW_SECONDS, n_workers / _REPORTS_A_SECOND)
        driver = Driver(
            replace(self.order, renew_seconds=min(seconds, self.fleet.lease_seconds / 4)),
            plan=self.plan,
            n_planned=self.n_planned,
            keeper=keeper,
            workers=workers,
            n_workers=n_workers,
            watcher=self.watcher,
            promise=self.promise,
            model=self._model,
            until=until,
        )
        return driver.run(told["reported"], left)

    def _check_same(self, known: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raise an error if the folder's shards are of another plan, or cut otherwise."""
        words = {"plan": "the experiment", "shards": "--shards", "store": "--store"}
        changed = [word for key, word in words.items() if known[key] != now[key]]
        if not changed:
            return
        told = f"{self.place} holds shards of another run: {' and '.join(changed)} changed; it "
        told += f"began with --shards {known['shards']}. Choose another folder with --out, or "
        if changed == ["--shards"]:
            raise StoreError(f"{told}go on with these").with_flag("--shards", str(known["shards"]))
        raise OtherRunError(f"{told}remove {self.place}", _out_of(self.place))

    def _fetch(self, keeper: KeeperProcess, keep: Callable[[int, bytes], None]) -> None:
        store = None if self.order.store is None else store_at(self.order.store)
        for shard, shipped in keeper.ask("ledgers")[0]["ledgers"]:
            name = shipped["name"]
            ledger = keeper.ask("fetch", name=name)[1] if store is None else store.get(name)
            keep(shard, checked(ledger, shipped["digest"], name))

    def _model(self, folder: Path) -> tuple[dict[str, Any], bytes]:
        """Pack a trained model for a worker that does not see its folder."""
        data, name = packed(folder), None
        digest = digest_of(data)
        if self.order.store is not None:
            name = f"models/{digest}.zip"
            store_at(self.order.store).put(name, data)
            data = b""
        return {"name": name, "digest": digest}, data
