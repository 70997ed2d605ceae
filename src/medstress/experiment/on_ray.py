"""Run an experiment as shards on a Ray cluster.

Each shard is a task that runs it in a folder which all machines share, and which goes on there when
Ray starts it again after its worker died. The driver merges the shards and completes the run. Ray
places processes and carries a few numbers; the lock of the folder keeps two workers apart.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any

from medstress.backends.threads import available_cores
from medstress.core.errors import (
    BackendError,
    DataError,
    MedstressError,
    StoreError,
    UsageError,
    reason,
)
from medstress.core.extras import importing, versions
from medstress.core.words import plural
from medstress.engine.progress import Progress, Watcher
from medstress.experiment.config import Experiment
from medstress.experiment.manifest import Wish
from medstress.experiment.merging import merge_shards
from medstress.experiment.models import payers
from medstress.experiment.prepare import prepare
from medstress.experiment.reading import Source, find_source
from medstress.experiment.run import Outcome, check_can_be_cut, perform, run_folder
from medstress.store.database import FILE
from medstress.store.shards import MOST_SHARDS, Shard, read_shard

LOCAL, AUTO = "local", "auto"
MAX_RETRIES = 20
"""How often Ray begins a shard again whose worker died; each time it goes on where it was."""
_WAIT_SECONDS = 180.0
"""How long a shard waits for the lock of a worker that died: a shared disk may keep it a while."""
_CONNECT_SECONDS = 5.0
_OLDEST = (2, 52)
"""The first Ray that asks for a token."""
_PLACE = re.compile(r"(?:ray://)?(?P<host>[^/:\s]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
_ON_GPUS = ("transformers", "sentence_transformers", "llama_cpp")
_ERRORS: tuple[type[MedstressError], ...] = (UsageError, DataError, BackendError)
"""What else ends a shard is a `StoreError`."""
_MARK = "MEDSTRESS_RAY"
"""Variable by which the processes of a cluster that was started here are known."""
_REAPER = """
import os, shutil, sys, time
mark, folder = sys.stdin.readline().split(maxsplit=1)
sys.stdin.read()
while True:
    left = []
    for name in filter(str.isdecimal, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/environ", "rb") as stream:
                if mark.encode() in stream.read():
                    left.append(int(name))
        except OSError:
            pass
    if not left:
        break
    for process in left:
        try:
            os.kill(process, 9)
        except OSError:
            pass
    time.sleep(0.1)
shutil.rmtree(folder.strip(), ignore_errors=True)
"""
"""Ends when its driver does, however that ends, and then ends what has the mark of its cluster."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardEnd:
    """How a task ended."""

    number: int
    """Of the shard."""
    n_ended: int = 0
    """Its trials that ended."""
    n_failed: int = 0
    """Of these, trials that failed."""
    stopped_by: tuple[str, ...] = ()
    """Limits of the experiment that ended it before its last trial."""
    error: MedstressError | None = None
    """That ended it; not raised, because Ray would wrap it in its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """What became of an experiment on a cluster."""

    folder: Path
    """Of the run."""
    shards: Path
    """Of its shards."""
    outcome: Outcome | None
    """Of the merged run; None if a limit ended a shard early: a higher one goes on."""


def run_on_ray(
    experiment: str | Path | Source,
    out: str | Path | None,
    address: str,
    n_shards: int,
    *,
    retry_failed: bool = False,
    limit: int | None = None,
    overrides: Sequence[str] = (),
    watcher: Watcher | None = None,
) -> Spread:
    """Run an experiment as shards on a cluster, merge them, and complete the run here.

    Called again it goes on, whatever died before. A folder that holds the merged run already is
    completed, or extended, on this machine alone.

    Args:
        experiment: its file, or its text as a `Source`; what it names must be at the same paths on
            all machines.
        out: the run folder, on a disk that all machines share; the shards are next to it, in
            ``<out>-shards``.
        address: `local` starts Ray on this machine; `auto` finds the cluster that this machine
            belongs to; else HOST:PORT.
        n_shards: parts of the plan.
        retry_failed: run failed trials again.
        limit: most items of each data set.
        overrides: as the command line's --set.
        watcher: callbacks for progress.

    Raises:
        UsageError, DataError, StoreError, BackendError: one sentence; nothing stored is lost.
    """
    if not 1 <= n_shards <= MOST_SHARDS:
        raise UsageError(f"--shards: expected 1 to {MOST_SHARDS:,}, got {n_shards}")
    watcher = watcher or Watcher()
    ray = _ray(address)
    source = find_source(experiment)
    prepared = prepare(source, limit=limit, overrides=overrides, watcher=watcher)
    check_can_be_cut(prepared)
    folder = run_folder(prepared, out).absolute()
    shards = folder.with_name(f"{folder.name}-shards")
    places = [shards / str(number) for number in range(1, n_shards + 1)]
    given: dict[str, Any] = {"limit": limit, "overrides": list(overrides)}
    if (folder / FILE).is_file():
        watcher.announce(f"{folder} holds a run: what it lacks is asked on this machine alone")
    else:
        shards.mkdir(parents=True, exist_ok=True)
        with _cluster(ray, address) as n_gpus:
            task = ray.remote(
                num_cpus=1,
                num_gpus=_gpus(prepared.experiment, n_gpus),
                max_retries=MAX_RETRIES,
                retry_exceptions=False,
            )(run_shard)
            tasks = {
                task.remote(source, str(place), n_shards, versions(), retry_failed, given): number
                for number, place in enumerate(places, 1)
            }
            ends = _collected(ray, tasks, prepared.n_trials(), watcher)
        if any(end.stopped_by for end in ends):
            return Spread(folder=folder, shards=shards, outcome=None)
        for place in places:
            if not (place / FILE).is_file():
                raise StoreError(
                    f"--ray {address}: {place} was written on another machine and is not here; "
                    "give --out on a disk that all machines share"
                )
        for line in merge_shards(places, folder, note=watcher.note).notes:
            watcher.announce(line)
    outcome = perform(source, folder, Wish(retry_failed=retry_failed), watcher=watcher, **given)
    return Spread(folder=folder, shards=shards, outcome=outcome)


def run_shard(
    source: Source,
    place: str,
    n_shards: int,
    expected: dict[str, str],
    retry_failed: bool,
    given: dict[str, Any],
) -> ShardEnd:
    """Run a shard to its end, or go on with it; called in a worker.

    Args:
        source: the experiment.
        place: the folder of the shard, whose name is its number.
        n_shards: parts of the plan.
        expected: the driver's versions.
        retry_failed: run failed trials again.
        given: more arguments of `perform`.
    """
    folder = Path(place)
    shard = Shard(n_shards, int(folder.name))
    try:
        _check_worker(folder, expected)
        wish = Wish(retry_failed=retry_failed, shard=shard)
        perform(source, folder, wish, wait=_WAIT_SECONDS, **given)
        stored = read_shard(folder)
    except MedstressError as error:
        kind = next((one for one in _ERRORS if isinstance(error, one)), StoreError)
        own = kind(f"shard {shard} on {socket.gethostname()}: {error}")
        return ShardEnd(number=shard.number, error=own)
    return ShardEnd(
        number=shard.number,
        n_ended=stored.n_ended,
        n_failed=stored.n_failed,
        stopped_by=() if stored.is_finished else stored.stopped_by,
    )


def _check_worker(folder: Path, expected: dict[str, str]) -> None:
    """Check that a worker has the driver's versions and disk.

    Raises:
        UsageError: it has not.
    """
    here = versions()
    for name in dict.fromkeys((*expected, *here)):
        if here.get(name) != expected.get(name):
            raise UsageError(
                f"it has {name} {here.get(name, 'not')}, and the driver "
                f"{expected.get(name, 'has it not')}; install the same on all machines"
            )
    if not folder.parent.is_dir():
        raise UsageError(
            f"{folder.parent} is not there; give --out on a disk that all machines share"
        )


def _gpus(experiment: Experiment, n_gpus: float) -> int:
    """Return the GPUs of a task: one if a model that it opens may use one, and there are any."""
    tables = payers(experiment).values()
    uses = any(table.backend in _ON_GPUS and table.device != "cpu" for table in tables)
    return int(uses and n_gpus >= 1)


def _collected(ray: Any, tasks: dict[Any, int], n_trials: int, watcher: Watcher) -> list[ShardEnd]:
    """Wait for all tasks; after an error or an interrupt let the others store what is in flight.

    Raises:
        StoreError: a worker of one shard died too often.
        MedstressError: what ended a shard.
    """
    ends, n_shards = list[ShardEnd](), len(tasks)
    progress = Progress(n_planned=n_trials)
    try:
        while tasks:
            watcher.note(f"{len(ends)} of {plural(n_shards, 'shard')} done")
            watcher.progress(progress)
            for end in _ended(ray, tasks):
                if end.error is not None:
                    raise end.error
                ends.append(end)
                progress.n_done += end.n_ended
                progress.n_failed += end.n_failed
    except BaseException:
        for task in tasks:
            with suppress(Exception):
                ray.cancel(task)  # raises KeyboardInterrupt in its worker
        with suppress(Exception):
            ray.wait(list(tasks), num_returns=len(tasks), timeout=watcher.drain_seconds)
        raise
    return ends


def _ended(ray: Any, tasks: dict[Any, int]) -> Iterator[ShardEnd]:
    """Wait a second, and yield how tasks ended; they are taken from the table."""
    number = 0
    try:
        for task in ray.wait(list(tasks), num_returns=len(tasks), timeout=1.0)[0]:
            number = tasks.pop(task)
            yield ray.get(task)
    except ray.exceptions.RayTaskError:
        raise  # a bug, with the worker's traceback
    except ray.exceptions.RayError as error:
        what = f"the worker of shard {number} was lost {MAX_RETRIES + 1} times"
        raise StoreError(
            f"{what if number else 'the Ray cluster is gone'} ({reason(error)}); what was stored "
            "is kept, and the same command goes on"
        ) from error


def _ray(address: str) -> Any:
    """Return the module of Ray, for an address that is one.

    Raises:
        UsageError: Ray is not installed or too old, the address is none, or nothing takes a
            connection there.
    """
    place = _PLACE.fullmatch(address)
    if address not in (LOCAL, AUTO) and (place is None or int(place["port"]) > 0xFFFF):
        raise UsageError(f"--ray {address}: expected local, auto or HOST:PORT")
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    os.environ.setdefault("RAY_task_oom_retries", str(MAX_RETRIES))  # else without end
    if address == LOCAL:
        # Read when Ray is imported: then it takes 127.0.0.1 for an address and listens there alone.
        os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"
        os.environ["RAY_AUTH_MODE"] = "token"
        os.environ.setdefault("RAY_AUTH_TOKEN", token_hex(32))
    else:
        os.environ.setdefault("RAY_NUM_REDIS_GET_RETRIES", "1")  # else it waits for minutes
    with importing("--ray: the package ray", "ray"):
        ray: Any = import_module("ray")
    if address == LOCAL and tuple(map(int, re.findall("[0-9]+", ray.__version__)[:2])) < _OLDEST:
        raise UsageError(
            f"--ray local: expected ray 2.52 or later, which asks for a token, got "
            f"{ray.__version__}"
        )
    if place is not None:
        try:
            there = (place["host"].strip("[]"), int(place["port"]))
            socket.create_connection(there, _CONNECT_SECONDS).close()
        except OSError as error:
            raise _unreachable(address, reason(error)) from error
    return ray


def _unreachable(address: str, why: str) -> UsageError:
    if address == LOCAL:
        return UsageError(f"--ray local: Ray cannot be started here: {why}")
    return UsageError(
        f"--ray {address}: no cluster can be reached there ({why}); start one with `ray start "
        "--head`, with the same RAY_AUTH_MODE and token as here, or give --ray local"
    )


@contextmanager
def _cluster(ray: Any, address: str) -> Iterator[float]:
    """Connect to a cluster, or start one on this machine that ends with the block.

    Yields:
        How many GPUs it has.

    Raises:
        UsageError: no cluster answers, or one that is started here can be reached from elsewhere.
    """
    quiet = {"configure_logging": False, "log_to_driver": False}
    with _started(address) as own:
        try:
            with _own_signals():
                ray.init(address=address, **quiet, **own)
        except Exception as error:
            raise _unreachable(address, reason(error)) from error
        try:
            if own and ray.util.get_node_ip_address() not in ("127.0.0.1", "::1"):
                raise UsageError(
                    f"--ray {address}: ray {ray.__version__} listens to other machines, too; "
                    "install another version, or start a cluster yourself"
                )
            yield float(ray.cluster_resources().get("GPU", 0.0))
        finally:
            with suppress(Exception):
                ray.shutdown()


@contextmanager
def _started(address: str) -> Iterator[dict[str, Any]]:
    """Yield how Ray is started here: on loopback, and so that none of its processes outlives us."""
    if address != LOCAL:
        yield {}
        return
    mark = token_hex(32)
    with tempfile.TemporaryDirectory(prefix="ray-", ignore_cleanup_errors=True) as folder:
        reaper = subprocess.Popen(
            [sys.executable, "-c", _REAPER],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        assert reaper.stdin is not None
        reaper.stdin.write(f"{mark} {folder}\n")
        reaper.stdin.flush()
        os.environ[_MARK] = mark
        try:
            yield {
                "num_cpus": available_cores(),
                "include_dashboard": False,
                "_node_ip_address": "127.0.0.1",
                "_temp_dir": folder,
            }
        finally:
            del os.environ[_MARK]
            reaper.stdin.close()
            reaper.wait()


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handlers of signals, which Ray replaces when it starts."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
