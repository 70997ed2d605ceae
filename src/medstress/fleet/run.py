"""A run whose shards are worked on by many machines, and that one machine completes."""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from medstress.core.errors import OtherRunError
from medstress.core.hashing import content_hash
from medstress.experiment.file.sources import Source, find_source
from medstress.experiment.plan.plan import Portion, Prepared
from medstress.experiment.plan.spending import NO_USAGE, Usage, usage_of
from medstress.files.writing import make_folder, write_bytes
from medstress.fleet.grants import Amounts
from medstress.fleet.keeper import LEASES
from medstress.fleet.leases import PAST, LeaseTable
from medstress.fleet.leasing import OWN, RENEW_SECONDS, Fleet, Leasing, shards_of
from medstress.fleet.ledgers import check_store
from medstress.fleet.order import RUN, Order, plan_of
from medstress.fleet.outcome import Outcome, lost_counts, lost_line, promise_line
from medstress.fleet.phases import Phase, phase_of
from medstress.running.merging import merge_shards
from medstress.running.opened import opened_victims
from medstress.running.prepare import Watcher
from medstress.running.run import check_can_be_cut, run_folder, run_prepared
from medstress.running.unasked import complete_unasked
from medstress.store.reader import stored_manifest
from medstress.store.run_store import FILE, RunStore
from medstress.store.shards import SHARDS

_ELSEWHERE = "elsewhere"
"""Fact of a table of leases: what counts against the limits beside the merged run."""
_LOST = "lost"
"""Another: what was bought again because workers were lost."""
_MERGED = "merged"
"""Another: the plan of the phase that was merged last."""


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
    order = order_of(experiment, fleet, limit, overrides)
    phase = phase_of(order, watcher)
    prepared = phase.part()
    check_can_be_cut(prepared, "--ray")
    folder = run_folder(prepared, out)
    return Spreading(fleet, order, phase, folder, shards_of(folder), watcher).go()


def order_of(
    experiment: str | Path | Source, fleet: Fleet, limit: int | None, overrides: Sequence[str]
) -> Order:
    """Return what workers are told, of a command with one phase; the place of ledgers is checked.

    Raises:
        UsageError, StoreError: there is no such experiment, or no ledger can be written.
    """
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
        renew_seconds=RENEW_SECONDS,
    )
    if order.store is not None:
        check_store(order.store)
    return order


def _absolute(store: str) -> str:
    return store if "://" in store else str(Path(store).resolve())


def check_begun_here(folder: Path, shards: Path) -> None:
    """Refuse a folder whose run was not merged from these shards.

    Raises:
        OtherRunError: one machine began it.
    """
    if not (folder / FILE).is_file():
        return
    if not (shards / OWN).is_dir() or SHARDS not in stored_manifest(folder):
        raise OtherRunError(
            f"{folder} holds a run that one machine began; go on with it without --ray, or choose "
            "another folder with --out",
            folder,
        )


class Spreading:
    """The trials of one phase: shared out, merged, and completed on this machine."""

    def __init__(
        self,
        fleet: Fleet,
        order: Order,
        phase: Phase,
        folder: Path,
        shards: Path,
        watcher: Watcher,
        *,
        extends: Mapping[str, str] | None = None,
        is_last: bool = True,
    ) -> None:
        """Begin; nothing is asked yet.

        Args:
            fleet: workers and shards.
            order: what the workers of the phase are told.
            phase: what it asks.
            folder: of the merged run.
            shards: folder of leases, ledgers and shards.
            watcher: callbacks for progress.
            extends: the plan of the phase whose shards this one goes on with.
            is_last: whether nothing will be added to the merged run, so that it may ask more.
        """
        self._fleet, self._order, self._phase = fleet, order, phase
        self._folder, self._shards, self._watcher = folder, shards, watcher
        self._prepared, self._is_last = phase.part(), is_last
        self.plan = plan_of(self._prepared)
        self._extends = None if extends is None else content_hash(extends)

    def go(self) -> Spread:
        """Do what is left of the phase.

        Raises:
            OtherRunError: the folder holds a run that one machine began.
        """
        check_begun_here(self._folder, self._shards)
        is_there = (self._folder / FILE).is_file()
        if self._is_past():
            return Spread(folder=self._folder, shards=self._shards, outcome=None)
        if is_there and (self._extends is None or self._noted(_MERGED) == self._hash):
            self.complete()
            return Spread(folder=self._folder, shards=self._shards, outcome=None)
        spread = Spread(folder=self._folder, shards=self._shards, outcome=self.run())
        for line in outcome_lines(spread):
            self._watcher.announce(line)
        return spread

    def run(self) -> Outcome:
        """Run the shards, and merge and complete them if all are done."""
        settings = self._prepared.experiment.experiment
        folders: list[Path] = []

        def keep(shard: int, ledger: bytes) -> None:
            folder = self._shards / str(shard)
            make_folder(folder, settings.access)
            write_bytes(folder / FILE, ledger, settings.access)
            folders.append(folder)

        outcome, told = Leasing(
            fleet=self._fleet,
            order=self._order,
            place=self._shards,
            watcher=self._watcher,
            plan=self.plan,
            n_planned=self._prepared.n_trials(),
            caps=caps_of(self._prepared),
            seconds=seconds_of(self._prepared),
            extends=self._extends,
            promise=partial(promise_line, self._order.n_shards, self._order.ship_every),
        ).run(keep)
        if outcome.n_limited:
            return outcome
        self._watcher.note("merging")
        if outcome.n_deaths:
            self._note(_LOST, lost_counts(outcome))
        merged = merge_shards(
            folders,
            self._folder,
            # Another phase goes on with it, or another driver was faster.
            renew=self._order.phase["name"] != RUN or (self._folder / FILE).is_file(),
            note=self._watcher.note,
        )
        for sentence in merged.notes:
            self._watcher.announce(sentence)
        held, charged = self._held(), told["charged"]
        elsewhere = {
            # Answers that were lost with their worker were paid for as well.
            "n_queries": max(0, int(charged["queries"]) - held.n_queries),
            "n_tokens": max(0, int(charged["tokens"]) - held.n_tokens),
            "usd": max(0.0, charged["usd"] - held.usd),
            # Shards ran side by side.
            "seconds": told["seconds"] - held.seconds,
        }
        self._note(_ELSEWHERE, elsewhere)
        self._note(_MERGED, self._hash)
        self.complete()
        for path in folders:
            shutil.rmtree(path)
        return outcome

    def complete(self) -> None:
        """Run what is about all trials on the merged run; it holds all of them already."""
        self._keep_lost()
        if complete_unasked(self._prepared, self._folder) or not self._is_last:
            return
        with opened_victims(self._phase.whole, self._watcher.note):
            prepared = self._phase.part()
            prepared.portion = counted(prepared.portion, self._elsewhere())
            run_prepared(prepared, self._folder, watcher=self._watcher)

    def used(self) -> Usage:
        """Return what the phase has used up, for the limits of the next one."""
        return joined_usage(self._held(), self._elsewhere())

    def _held(self) -> Usage:
        """Return what the merged run has used up by itself."""
        access = self._prepared.experiment.experiment.access
        with RunStore(self._folder, access=access) as store:
            return usage_of(store, self._prepared)

    @property
    def _hash(self) -> str:
        return content_hash(self.plan)

    def _is_past(self) -> bool:
        """Return whether another phase has gone on with these shards."""
        return self._hash in (self._noted(PAST) or ())

    def _elsewhere(self) -> Usage:
        return replace(NO_USAGE, **(self._noted(_ELSEWHERE) or {}))

    def _keep_lost(self) -> None:
        """Write into the merged run what was bought again because workers were lost."""
        lost = self._noted(_LOST) or {}
        with RunStore(self._folder, access=self._prepared.experiment.experiment.access) as store:
            performance = store.manifest()["performance"]
            if performance != {**performance, **lost}:
                store.write_manifest({"performance": {**performance, **lost}})

    def _note(self, key: str, told: Any) -> None:
        """Keep beside the shards what the merged run does not hold by itself."""
        with closing(LeaseTable(self._shards / OWN / LEASES)) as table:
            table.note(key, told)

    def _noted(self, key: str) -> Any:
        file = self._shards / OWN / LEASES
        if not file.is_file():
            return None
        with closing(LeaseTable(file)) as table:
            return table.facts().get(key)


def counted(portion: Portion, more: Usage) -> Portion:
    """Return a portion against whose limits more counts."""
    return replace(
        portion,
        n_queries=portion.n_queries + more.n_queries,
        n_tokens=portion.n_tokens + more.n_tokens,
        usd=portion.usd + more.usd,
        seconds=portion.seconds + more.seconds,
    )


def joined_usage(one: Usage, other: Usage) -> Usage:
    """Return what two have used up together."""
    return Usage(
        n_queries=one.n_queries + other.n_queries,
        n_tokens=one.n_tokens + other.n_tokens,
        usd=one.usd + other.usd,
        seconds=one.seconds + other.seconds,
    )


def caps_of(prepared: Prepared) -> Amounts:
    """Return what is left of the limits of the experiment for a phase."""
    settings, before = prepared.experiment.experiment, prepared.portion
    pairs = {
        "queries": (settings.max_queries, before.n_queries),
        "tokens": (settings.max_tokens, before.n_tokens),
        "usd": (settings.max_usd, before.usd),
    }
    return Amounts(**{k: max(0, cap - n) for k, (cap, n) in pairs.items() if cap is not None})


def seconds_of(prepared: Prepared) -> float | None:
    """Return what is left of the time for asking; None without a limit."""
    most = prepared.experiment.experiment.max_seconds
    return None if most is None else most - prepared.portion.seconds


def outcome_lines(spread: Spread) -> list[str]:
    """Return what the user should know of the shards, in lines."""
    outcome = spread.outcome
    if outcome is None:
        return []
    lines: list[str] = []
    if outcome.n_deaths:
        lines.append(lost_line(outcome))
    if outcome.n_limited:
        lines.append(
            f"a limit of the run ended it: {outcome.n_done} of "
            f"{outcome.n_done + outcome.n_limited} shards are done; the same command with a "
            "higher limit goes on"
        )
    return lines
