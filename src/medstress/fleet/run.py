"""A run whose shards are worked on by many machines, and that one machine completes."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from medstress.core.errors import OtherRunError, UsageError
from medstress.core.hashing import content_hash
from medstress.experiment.file.config import LIMITS
from medstress.experiment.file.sources import Source, find_source
from medstress.experiment.plan.plan import Prepared
from medstress.files.writing import make_folder, write_bytes
from medstress.fleet.driver import Driver, Outcome, Workers, lost_counts, outcome_of
from medstress.fleet.grants import Amounts
from medstress.fleet.keeper import LEASE_SECONDS, LEASES
from medstress.fleet.keeper_process import KeeperProcess
from medstress.fleet.leases import LeaseTable
from medstress.fleet.ledgers import check_store, checked, store_at
from medstress.fleet.order import Order, plan_of
from medstress.results.load import stored_manifest
from medstress.results.shards import lost_lines
from medstress.running.merging import merge_shards
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher
from medstress.running.run import check_can_be_cut, run_folder, run_prepared
from medstress.running.shard_limits import check_number
from medstress.running.unasked import complete_unasked
from medstress.store.run_store import FILE, RunStore

OpenWorkers: TypeAlias = Callable[[int], AbstractContextManager[tuple[Workers, int]]]
"""Given the most workers that have something to do: makes workers, and says how many to start."""
_OWN = ".fleet"
"""Folder of leases and ledgers, beside the shards; no glob of them matches it."""
_ELSEWHERE = "elsewhere"
"""Fact of a table of leases: what counts against the limits beside the merged run."""
_LOST = "lost"
"""Another: what was bought again because workers were lost."""
SHIP_EVERY = 1000
_RENEW_SECONDS = 1.0
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What became of a run on many machines."""

    folder: Path
    """The run, if every shard is done; else where it will be."""
    shards: Path
    """The folder with the shards' leases and ledgers."""
    outcome: Outcome | None
    """How the shards ended; None if they were done before."""

    @property
    def is_merged(self) -> bool:
        """Whether the run is there."""
        return self.outcome is None or not self.outcome.n_limited


def run_on_workers(
    experiment: str | Path | Source,
    out: str | Path | None,
    fleet: Fleet,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Spread:
    """Run an experiment's trials on many machines, merge them, and complete the run here.

    The same call goes on where an earlier one ended, however it ended. What is about all trials
    (tests, analyses and transfers, criteria) is asked on this machine, of the merged run.

    Args:
        experiment: a TOML file or the name of a shipped recipe, or its text as a `Source`.
        out: the run folder; default ``runs/<name>``. Shards stand in ``<out>-shards``.
        fleet: workers and shards.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; what was shipped is kept.
    """
    watcher = watcher or Watcher()
    source = find_source(experiment)
    order = Order(
        text=source.text,
        name=source.name,
        base=str(source.base),
        overrides=tuple(overrides),
        limit=limit,
        n_shards=fleet.n_shards,
        ship_every=fleet.ship_every,
        store=None if fleet.store is None else _absolute(fleet.store),
        lease_seconds=fleet.lease_seconds,
        renew_seconds=_RENEW_SECONDS,
    )
    if order.store is not None:
        check_store(order.store)
    prepared = order.prepared(watcher)
    check_can_be_cut(prepared, watcher, "--ray")
    folder = run_folder(prepared, out)
    shards = folder.with_name(f"{folder.name}-shards")
    if (folder / FILE).is_file() and not (shards / _OWN).is_dir():
        raise OtherRunError(
            f"{folder} holds a run that one machine began; go on with it without --ray, or choose "
            "another folder with --out",
            folder,
        )
    spread = _Spreading(fleet, order, prepared, folder, shards, watcher)
    if (folder / FILE).is_file():
        spread.complete()
        return Spread(folder=folder, shards=shards, outcome=None)
    return Spread(folder=folder, shards=shards, outcome=spread.run())


def _absolute(store: str) -> str:
    return store if "://" in store else str(Path(store).resolve())


class _Spreading:
    """One call of `run_on_workers`."""

    def __init__(
        self,
        fleet: Fleet,
        order: Order,
        prepared: Prepared,
        folder: Path,
        shards: Path,
        watcher: Watcher,
    ) -> None:
        self._fleet, self._order, self._prepared = fleet, order, prepared
        self._folder, self._shards, self._watcher = folder, shards, watcher

    def run(self) -> Outcome:
        """Run the shards, and merge and complete them if all are done."""
        with self._fleet.open_workers(self._fleet.n_shards) as (workers, n_workers):
            keeper = KeeperProcess(self._shards / _OWN, self._fleet.lease_seconds)
            try:
                outcome = self._drive(keeper, workers, n_workers)
                if outcome.n_limited:
                    return outcome
                told = keeper.ask("overview")[0]
                self._watcher.note("merging")
                folders = self._fetched(keeper)
            finally:
                keeper.close()
        if outcome.n_deaths:
            self._note(_LOST, lost_counts(outcome))
        merged = merge_shards(folders, self._folder, note=self._watcher.note)
        for sentence in merged.notes:
            self._watcher.announce(sentence)
        summed = stored_manifest(self._folder)["performance"]["wall_seconds"]
        elsewhere = {
            # Answers that were lost with their worker were paid for as well.
            "n_queries": max(0, int(told["charged"]["queries"]) - merged.counts.n_answers),
            # Shards ran side by side.
            "seconds": told["seconds"] - summed,
        }
        self._note(_ELSEWHERE, elsewhere)
        self.complete()
        for path in folders:
            shutil.rmtree(path)
        return outcome

    def complete(self) -> None:
        """Run what is about all trials on the merged run; it holds all of them already."""
        prepared = self._prepared
        self._keep_lost()
        if complete_unasked(prepared, self._folder):
            return
        prepared.portion = replace(prepared.portion, **self._noted(_ELSEWHERE))
        with opened_victims(prepared, self._watcher.note):
            run_prepared(prepared, self._folder, watcher=self._watcher)

    def _keep_lost(self) -> None:
        """Write into the merged run what was bought again because workers were lost."""
        lost = self._noted(_LOST)
        with RunStore(self._folder, access=self._prepared.experiment.experiment.access) as store:
            performance = store.manifest()["performance"]
            if performance != {**performance, **lost}:
                store.write_manifest({"performance": {**performance, **lost}})

    def _note(self, key: str, told: Mapping[str, float]) -> None:
        """Keep beside the shards what the merged run does not hold by itself."""
        with closing(LeaseTable(self._shards / _OWN / LEASES)) as table:
            table.note(key, told)

    def _noted(self, key: str) -> dict[str, Any]:
        with closing(LeaseTable(self._shards / _OWN / LEASES)) as table:
            return dict(table.facts().get(key, {}))

    def _drive(self, keeper: KeeperProcess, workers: Workers, n_workers: int) -> Outcome:
        settings = self._prepared.experiment.experiment
        plan = plan_of(self._prepared)
        facts = {"plan": content_hash(plan), "shards": self._order.n_shards}
        facts["store"] = self._order.store
        caps = Amounts(
            **{
                name.removeprefix("max_"): value
                for name in LIMITS
                if (value := getattr(settings, name)) is not None and name != "max_seconds"
            }
        )
        told, _ = keeper.ask("begin", shards=self._order.n_shards, facts=facts, caps=caps.as_json())
        self._check_same(told["facts"], facts)
        overview = keeper.ask("overview")[0]
        left = self._order.n_shards - overview["counts"]["done"]
        until = None
        if settings.max_seconds is not None:
            until = time.monotonic() + settings.max_seconds - overview["seconds"]
        if not left:
            return outcome_of(overview, n_keepers=0)
        keeper.ask("open_again")
        n_workers = min(n_workers, left)
        seconds = max(_RENEW_SECONDS, n_workers / _REPORTS_A_SECOND)
        driver = Driver(
            replace(self._order, renew_seconds=min(seconds, self._fleet.lease_seconds / 4)),
            plan=plan,
            n_planned=self._prepared.n_trials(len(self._prepared.experiment.victim)),
            keeper=keeper,
            workers=workers,
            n_workers=n_workers,
            watcher=self._watcher,
            until=until,
        )
        return driver.run(told["reported"], left)

    def _check_same(self, known: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Raise an OtherRunError if the folder's shards are of another plan."""
        words = {"plan": "the experiment", "shards": "--shards", "store": "--store"}
        changed = [word for key, word in words.items() if known[key] != now[key]]
        if changed:
            began = f"; it began with --shards {known['shards']}"
            raise OtherRunError(
                f"{self._shards} holds shards of another run: {' and '.join(changed)} changed"
                f"{began}. Choose another folder with --out, or remove {self._shards}",
                self._shards,
            )

    def _fetched(self, keeper: KeeperProcess) -> list[Path]:
        """Write the newest ledgers as run folders, and return these."""
        store = None if self._order.store is None else store_at(self._order.store)
        folders, access = [], self._prepared.experiment.experiment.access
        for shard, shipped in keeper.ask("ledgers")[0]["ledgers"]:
            name = shipped["name"]
            ledger = keeper.ask("fetch", name=name)[1] if store is None else store.get(name)
            folder = self._shards / str(shard)
            make_folder(folder, access)
            write_bytes(folder / FILE, checked(ledger, shipped["digest"], name), access)
            folders.append(folder)
        return folders


def outcome_lines(spread: Spread) -> list[str]:
    """Return what the user should know of the shards, in lines."""
    outcome = spread.outcome
    if outcome is None:
        return []
    lines: list[str] = []
    if outcome.n_deaths:
        lines += lost_lines(lost_counts(outcome))
    if outcome.n_limited:
        lines.append(
            f"a limit of the run ended it: {outcome.n_done} of "
            f"{outcome.n_done + outcome.n_limited} shards are done; the same command with a "
            "higher limit goes on"
        )
    return lines
