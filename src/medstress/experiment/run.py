"""The one path: run, resume, extend, retry, run a shard, and ask more of what a folder holds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar
from uuid import uuid4

from medstress.analyses.run import Run
from medstress.core.errors import StoreError, UnreachableError, UsageError, setting
from medstress.core.queries import JUDGE
from medstress.engine.progress import Progress, Watcher
from medstress.engine.scheduler import Scheduler
from medstress.engine.work import VICTIM
from medstress.experiment import criteria
from medstress.experiment import manifest as manifests
from medstress.experiment.config import LIMITS, Experiment
from medstress.experiment.follow_ups import (
    CARRIED,
    Asking,
    Stage,
    follow_up_hashes,
    keep_similarities,
    superseded,
)
from medstress.experiment.manifest import (
    RUN,
    Fingerprint,
    Held,
    Opening,
    Verb,
    Wish,
    check_whole,
    decide,
)
from medstress.experiment.own_runs import (
    OwnRun,
    is_own_run,
    keep_own,
    own_run,
    who_is_asked,
)
from medstress.experiment.plan import (
    Prepared,
    Usage,
    check_same_targets,
    claim_answers,
    go_on,
    limits_of,
    reached,
    take_shard,
    usage_of,
)
from medstress.experiment.prepare import opened_victims, prepare
from medstress.experiment.reading import Source, resolve
from medstress.store.chain import SUPERSEDED
from medstress.store.database import FILE, LOCK
from medstress.store.reader import RunReader, read, stored_manifest
from medstress.store.run_store import A_MOMENT, RunStore, lock_folder
from medstress.store.shards import STOPPED_BY, Shard, shard_of
from medstress.store.shared_cache import open_shared

if TYPE_CHECKING:
    from filelock import FileLock


T = TypeVar("T")
_MEASURED = ("versions", "endpoints")
"""Entries of the manifest that say how answers came; a run that asks nothing keeps them."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a limit ended a command: so many of a stage's works had ended."""

    stage: str
    n_ended: int
    n_planned: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of a folder."""

    folder: Path
    opening: Opening
    is_complete: bool
    usage: Usage
    """Of all processes of the folder's run."""
    stop: Stop | None = None
    """None if everything was asked."""
    measured: tuple[str, str] = ("", "")
    """When the run began and when it was complete."""

    @property
    def nothing_asked(self) -> str | None:
        """The sentence that comes first where nothing was left to ask; None otherwise."""
        if self.opening.verb is not Verb.NOTHING:
            return None
        begun, ended = self.measured
        return f"Nothing was asked: this run was measured from {begun} to {ended}."


def perform(
    experiment: str | Path | Mapping[str, Any] | Experiment | Source,
    out: str | Path | None = None,
    wish: Wish = RUN,
    *,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
    wait: float = A_MOMENT,
) -> Outcome:
    """Run, resume or extend an experiment or a shard of it.

    Args:
        experiment: a TOML file or the name of a shipped recipe, its text as a `Source`, a dict of
            the same shape, or a checked `Experiment`.
        out: the run folder; default ``runs/<name>``, of a shard ``runs/<name>-shards/<number>``.
        wish: to begin again, to retry, or which part of the plan to run.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.
        wait: seconds to wait for another process that works in the folder.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    watcher = watcher or Watcher()
    bench = prepare(experiment, limit=limit, overrides=overrides, watcher=watcher)
    if wish.shard is not None:
        check_can_be_cut(bench)
    folder = run_folder(bench, out, wish.shard)
    if wish.fresh:
        check_may_be_deleted(folder)
    with locked(folder, wait=wait) as lock:

        def work(absent: UsageError | None) -> Outcome:
            if wish.shard is not None:
                take_shard(bench, wish.shard)
            return execute(bench, folder, wish, lock=lock, watcher=watcher, absent=absent)

        return with_models(bench, folder, wish, watcher, work)


def with_models(
    bench: Prepared,
    folder: Path,
    wish: Wish,
    watcher: Watcher,
    work: Callable[[UsageError | None], T],
) -> T:
    """Do work with the models of an experiment open.

    Models come before the store: if one cannot be opened, --fresh has deleted nothing. A finished
    run can be called again while its server is down.

    Args:
        bench: the experiment.
        folder: of its run.
        wish: what the command asks for.
        watcher: callbacks for progress.
        work: is given the error of a server that is not there, to raise unless nothing is asked.
    """
    try:
        with opened_victims(bench, watcher.note, baselines=wish.fresh):
            return work(None)
    except UnreachableError as error:
        if wish.fresh or not stored_manifest(folder).get("complete"):
            raise
        with opened_victims(bench, watcher.note, greets=False, baselines=False):
            return work(error)


def check_can_be_cut(prepared: Prepared) -> None:
    """Refuse shards of an experiment that is tuned.

    Raises:
        UsageError: it is tuned.
    """
    if prepared.experiment.tune is not None:
        raise UsageError(
            f"{setting('shard')}: tuning comes before shards: run `medstress tune`, write the n of "
            "tune.json into [[attack]], and leave [tune] out"
        ).with_flag("--shard", None)


def run_folder(
    prepared: Prepared, out: str | Path | None, shard: Shard | None = None, suffix: str = ""
) -> Path:
    """Return the folder of a run; default ``runs/<name><suffix>``, of a shard
    ``runs/<name>-shards/<number>``.

    Raises:
        UsageError: the path is empty, which would mean the working folder.
    """
    if out is None:
        if shard is not None:
            suffix = f"-shards/{shard.number}"
        return Path("runs") / f"{prepared.experiment.experiment.name}{suffix}"
    if not str(out).strip():
        raise UsageError(f"{setting('out')}: expected a folder, got an empty text")
    return Path(out)


def check_may_be_deleted(folder: Path, *inner: str) -> None:
    """Refuse to throw away a folder that holds files but no run.

    Args:
        folder: of the run.
        inner: folders in it that may hold runs as well.

    Raises:
        StoreError: it does.
    """
    if any((place / FILE).is_file() for place in (folder, *(folder / name for name in inner))):
        return
    # The lock of a run that was killed early may be there.
    if folder.exists() and any(path.name != LOCK for path in folder.iterdir()):
        raise StoreError(
            f"{setting('fresh')}: {folder} holds files but no run, so it is left as it is"
        )


@contextmanager
def locked(
    folder: Path, others: Sequence[str] = (), *, wait: float = A_MOMENT
) -> Iterator[FileLock]:
    """Hold a folder's lock; a folder in which no run was begun is left as it was.

    Args:
        folder: of the run.
        others: names of further files that will be written in it.
        wait: seconds to wait for another process that works in it.
    """
    is_new = not folder.exists()
    lock = lock_folder(folder, others=others, wait=wait)
    try:
        yield lock
    finally:
        is_refused = not (folder / FILE).exists()
        if is_refused:
            with suppress(PermissionError):  # Windows keeps an open file, and removes it afterwards
                (folder / LOCK).unlink(missing_ok=True)
        lock.release()
        if is_refused and is_new:
            with suppress(OSError):  # somebody has put a file there
                folder.rmdir()


def execute(
    bench: Prepared,
    folder: Path,
    wish: Wish = RUN,
    stages: Sequence[Stage] | None = None,
    *,
    lock: FileLock | None = None,
    watcher: Watcher,
    absent: UsageError | None = None,
) -> Outcome:
    """Bring a folder to where an experiment wants it.

    Args:
        bench: the experiment with its models open.
        folder: of the run.
        wish: what the command asks for.
        stages: what is asked after the trials, or of them as they are; default: what the
            experiment asks.
        lock: of the folder, if the caller holds it.
        watcher: callbacks for progress.
        absent: raised unless nothing is asked.

    Raises:
        UsageError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    settings = bench.experiment.experiment
    if lock is not None:
        lock.acquire(timeout=0)  # the store releases one hold when it closes
    with (
        open_shared(settings.cache, bench.base) as shared,
        RunStore(
            folder,
            lock=lock,
            fresh=wish.fresh,
            alone=bench.portion.shard is not None,
        ) as store,
    ):
        bench.shared = shared
        claim_answers(bench)
        is_own, n_before = is_own_run(store), store.computed_totals()[0]
        opening = _open(store, bench, wish, absent)
        if opening.more:
            watcher.note(f"more: {', '.join(opening.more)}")
        if opening.verb is Verb.BEGIN or (is_own and not wish.asks_again):
            is_own = keep_own(store, bench, watcher)  # after a kill, too, it is one's own
        if is_own:  # a stranger's answers stay there
            _share_again(store, bench)
        if not wish.asks_again:
            for line in (line for part in bench.datasets for line in part.understood):
                watcher.announce(line)  # rows that are misread are paid for as well
        stop = None
        if opening.verb is not Verb.NOTHING:
            own = stages_of(bench) if stages is None else stages
            stop = _drive(store, bench, wish, own, watcher)
        manifest = store.manifest()
        is_complete = bool(manifest.get("complete"))
        if is_complete and not wish.dry_run:
            store.keep_root()
        store.commit()
        # A folder from elsewhere is one's own once one has asked something there.
        joins = not wish.asks_again and opening.verb is not Verb.BEGIN
        if is_own or (joins and store.computed_totals()[0] > n_before):
            keep_own(store, None if wish.asks_again else bench, watcher)
        return Outcome(
            folder=folder,
            opening=opening,
            is_complete=is_complete,
            usage=usage_of(store, bench),
            stop=stop,
            measured=(str(manifest.get("started")), str(manifest.get("finished"))),
        )


def stages_of(bench: Prepared) -> list[Stage]:
    """Return what an experiment asks after its trials."""
    table, analysis, stages = bench.experiment.test, bench.experiment.analysis, list[Stage]()
    if table is not None or JUDGE in {part.name for part in bench.roles}:
        from medstress.experiment.significance import FAITHFULNESS, SIGNIFICANCE

        stages += [FAITHFULNESS] if table is None else [FAITHFULNESS, SIGNIFICANCE]
    if analysis.transfer or analysis.reuse:
        stages.append(CARRIED)
    return stages


def _share_again(store: RunStore, bench: Prepared) -> None:
    """Give the shared cache what the run holds and a killed process had not given it."""
    if bench.shared is None:
        return
    models = {victim.label: victim.backend.identity for victim in bench.victims}
    models |= {part.label: part.backend.identity for part in bench.roles}
    unused = None if bench.roles else VICTIM
    for page in store.computed():
        known = bench.shared.lookup([key for _, _, key, *_ in page])
        for role, victim, key, answer, seconds in page:
            by = role or unused
            model = models.get(victim if by == VICTIM else f"role.{by}")
            if key not in known and model is not None:
                bench.shared.keep(model, {key: answer}, seconds)
        if len(known) == len(page):
            break  # it has the earlier ones, too
    bench.shared.flush()


def _open(store: RunStore, bench: Prepared, wish: Wish, absent: UsageError | None) -> Opening:
    """Decide what happens to the folder, and write its manifest before the first call."""
    stored, has_answers = store.manifest(), not store.is_unanswered()
    if stored and (has_answers or wish.asks_again):
        bench.keep_labels(stored["parts"]["attacks"])
        check_same_targets(bench, stored, store.folder)
    if stored and shard_of(stored) == bench.portion.shard is not None:
        go_on(bench, stored)
    described = _described(bench, stored, store.folder, has_answers=has_answers)
    held, own_purposes = None, {one for stage in stages_of(bench) for one in stage.purposes}
    if stored:
        held = Held(
            folder=store.folder,
            fingerprint=Fingerprint.read(stored),
            shard=shard_of(stored),
            has_answers=has_answers,
            n_lost=store.n_lost(own_purposes) if wish.retry_failed else 0,
            is_complete=bool(stored.get("complete")),
            items=store.item_hashes(),
        )
    victims = [victim.label for victim in bench.victims]
    items = {
        part.label: [
            item.id
            for item in part.questions
            if bench.portion.owns(item)
            and any(bench.portion.asks(label, item) for label in victims)
        ]
        for part in bench.datasets
    }
    opening = decide(Fingerprint.read(described), held, wish, items)
    if opening.verb not in (Verb.NOTHING, Verb.ASK):
        if absent is not None:
            raise absent
        criteria.check_baselines(bench)
        if stored.get("complete"):  # what is asked more is judged by the baselines as they are now
            now = {**stored, "complete": False}
            described = _described(bench, now, store.folder, has_answers=has_answers)
            opening = decide(Fingerprint.read(described), held, wish, items)
    if opening.deletes:
        store.begin_anew()
        stored, described = {}, _described(bench, {}, store.folder, has_answers=False)
    manifests.go_on(store, [*bench.victims, *bench.roles], stored)
    if wish.asks_again:
        return opening
    if stored and not bench.kind.draws_names:
        for part in bench.datasets:
            # Documents may be named later; they do not change a sentence's identity.
            store.renew_items(part.label, part.questions)
    if opening.verb is Verb.NOTHING:
        store.write_manifest({k: v for k, v in described.items() if k not in _MEASURED})
    else:
        own = {} if bench.portion.shard else {"id": stored.get("id") or uuid4().hex}
        store.write_manifest(
            {
                **described,
                **own,
                "started": stored.get("started") or manifests.now(),
                "finished": None,
                "complete": False,
                "performance": stored.get("performance") or {"wall_seconds": 0.0},
            }
        )
    store.commit()
    if opening.verb is Verb.RETRY:
        store.forget_failed(own_purposes)
    return opening


def _described(
    bench: Prepared, stored: Mapping[str, Any], folder: Path, *, has_answers: bool
) -> dict[str, Any]:
    """Return the entries of the manifest that say what the experiment is."""
    return {
        **manifests.describe(bench, manifests.fingerprint_parts(bench)),
        **criteria.entries(bench, stored, has_answers=has_answers),
        "follow_ups": follow_up_hashes(bench, folder),
        "n_planned": bench.n_trials(),
    }


def _drive(
    store: RunStore, bench: Prepared, wish: Wish, stages: Sequence[Stage], watcher: Watcher
) -> Stop | None:
    """Ask the trials, then stage after stage; return where a limit ended it."""
    bench.started, bench.drain_seconds = time.monotonic(), watcher.drain_seconds
    is_shard = bench.portion.shard is not None
    before = [dict(backend.counters) for backend in bench.backends]
    stop = None
    try:
        if not wish.asks_again:
            if is_shard:
                store.write_manifest({STOPPED_BY: []})
            n = bench.n_trials()
            progress, stop = _ask(store, bench, watcher, "trials", bench.trials(), n)
            if is_shard and progress.stopped:
                store.write_manifest({STOPPED_BY: reached(store, bench)})
        if stop is None and not is_shard:
            stop = _follow_up(store, bench, wish, stages, watcher)
    finally:
        if not wish.asks_again:  # the speed of a run is that of its trials
            _account(store, bench, time.monotonic() - bench.started, before)
    if stop is None and not is_shard and not wish.asks_again:
        store.write_manifest({"complete": True, "finished": manifests.now()})
    return stop


def _follow_up(
    store: RunStore, bench: Prepared, wish: Wish, stages: Sequence[Stage], watcher: Watcher
) -> Stop | None:
    """Ask and compute what needs the trials; return where a limit ended it."""
    store.commit()
    if not (stages or bench.experiment.analysis.prompt_similarity):
        return None
    run = Run.open(store.folder)
    for stage in stages:
        works = list(stage.works(bench, run))
        ended = run.folder.read(RunReader.answered_follow_ups)
        for line in stage.words(bench, run, works, ended):
            watcher.note(line)
            watcher.announce(line)
        left = [(one, n) for one in works if one.id not in ended and (n := stage.most(one))]
        if left:
            from medstress.experiment.dry_run import follow_up_lines

            for line in follow_up_lines(bench, left, store.folder):
                watcher.announce(line)
        if wish.dry_run:
            continue
        if wish.asks_again:
            store.ask_again(work.id for work in works)
        # Of an experiment's own, all trials have ended: what is open was begun by a stage, which
        # replaces it unless it asks it; a later stage takes back its own.
        left_open = set() if wish.asks_again else store.open_ids()
        before = set(store.manifest().get(SUPERSEDED, ()))
        own = {work.id for work in works}
        now = (before | left_open) - own | superseded(stage, works, run.folder.inquiries)
        replaced = {SUPERSEDED: sorted(now)} if now != before else {}
        store.write_manifest({**stage.entries(bench, run), **replaced})
        watcher.note(f"{stage.name}: {len(works):,}")
        if works:
            _, stop = _ask(store, bench, watcher, stage.name, works, len(works))
            store.commit()
            if stop is not None:
                return stop
    if not wish.asks_again:
        keep_similarities(store, bench, run, watcher.note)
    return None


def _ask(
    store: RunStore, bench: Prepared, watcher: Watcher, what: str, works: Iterable[Any], n: int
) -> tuple[Progress, Stop | None]:
    """Ask n works within what is left of the run's limits; return where a limit ended it."""
    scheduler = Scheduler(
        store,
        roles={part.name: part.backend for part in bench.roles},
        limits=limits_of(store, bench),
        shared=bench.shared,
        on_progress=watcher.progress,
    )
    scheduler.progress.of = "" if what == "trials" else what
    progress = scheduler.run(works, n)
    n_ended = progress.n_done + progress.n_skipped
    return progress, None if n_ended == n else Stop(what, n_ended, n)


def _account(
    store: RunStore, bench: Prepared, seconds: float, before: Sequence[Mapping[str, int]]
) -> None:
    """Add this process's time and tokens to the run's; `before` holds its first counters."""
    performance = store.manifest()["performance"]
    performance["wall_seconds"] += seconds
    for backend, at_start in zip(bench.backends, before, strict=True):
        for name, count in backend.counters.items():
            performance[name] = performance.get(name, 0) + count - at_start.get(name, 0)
    endpoints = manifests.endpoints([*bench.victims, *bench.roles])
    store.write_manifest({"performance": performance, "endpoints": endpoints})


# -- more about the trials of a run ----------------------------------------------------------------


def ask(
    asking: Asking,
    experiment: str | Path | Mapping[str, Any] | None = None,
    *,
    overrides: Sequence[str] = (),
    confirm: Callable[[Sequence[str]], None] = lambda _: None,
    dry_run: bool = False,
    watcher: Watcher | None = None,
) -> str | None:
    """Ask more of the trials of a run; what was asked before is not asked again.

    Models, servers and keys come from the experiment, never from the folder. The folder must be a
    run of this experiment: its items, victims, roles and attacks are compared by content first.

    Args:
        asking: what is asked, of which run.
        experiment: the file, recipe or dict that the folder is a run of; default: what this user
            ran in this folder on this machine.
        overrides: as the command line's --set.
        confirm: is shown who is asked, where the experiment is not given; raises to refuse.
        dry_run: say what would be asked, and ask nothing.
        watcher: callbacks for progress.

    Returns:
        A sentence on the limit that ended it, or why nothing was asked; None if all was.

    Raises:
        UsageError: the experiment cannot be used, or is not known.
        StoreError: the folder is a run of another experiment.
    """
    watcher, folder = watcher or Watcher(), asking.folder
    source: str | Path | Mapping[str, Any] | Source | None = experiment

    def who_ran(reader: RunReader) -> Any:
        check_whole(folder, shard_of(reader.manifest))
        return source or own_run(folder, reader.manifest, reader.commits_after)

    own = read(folder, who_ran)
    if isinstance(own, OwnRun):
        own.check_targets()
        source, overrides = own.experiment, (*own.overrides, *overrides)
        if not dry_run:
            checked, _, _ = resolve(source, overrides, complete=asking.complete)
            confirm([*who_is_asked(checked), asking.most(checked)])
    assert source is not None
    bench = prepare(source, overrides=overrides, watcher=watcher, complete=asking.complete)
    wish = Wish(asks_again=True, dry_run=dry_run)
    with locked(folder) as lock, opened_victims(bench, watcher.note, baselines=False):
        stop = execute(bench, folder, wish, asking.stages, lock=lock, watcher=watcher).stop
    if stop is None:
        return asking.end()
    table = bench.experiment.experiment
    limits = {name: getattr(table, name) for name in LIMITS if getattr(table, name) is not None}
    which = " or ".join(f"{name} = {value:g}" for name, value in limits.items()) or "a limit"
    return (
        f"stopped at {which}: {stop.stage} is done for {stop.n_ended} of {stop.n_planned}; raise "
        f"the limit (--set experiment.{next(iter(limits), 'max_queries')}=...) and repeat the "
        "command to continue"
    )
