"""Workers as actors of Ray; the only module that knows it.

Ray places processes and carries bytes. It restarts nothing (`max_restarts=0`): a lost worker's
shard is leased again. No object of ours is pickled: arguments and results are bytes, and the class
of the actors is found by its name, in the medstress that is installed on the worker's machine.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any

from medstress.core.errors import StoreError, UsageError, reason
from medstress.files.extras import importing
from medstress.fleet.worker import Worker

_CONNECT_SECONDS = 5.0
"""Time for a machine to take a connection."""
_PROBE_SECONDS = 30.0
"""Time for a cluster to answer; through ray:// it starts a process first, and takes twice that."""
_PLACE = re.compile(r"(?:ray://)?(?P<host>[^/:\s]+|\[[0-9a-fA-F:]+\]):(?P<port>[0-9]{1,5})")
_PROBE = (
    "import ray, sys; ray.init(address=sys.argv[1], configure_logging=False, log_to_driver=False); "
    "ray.shutdown()"
)
LOCAL, AUTO = "local", "auto"


class Actor:
    """One worker in a process of Ray's."""

    def __init__(self, told: bytes) -> None:
        self._worker = Worker(told)

    def exchange(self, answer: bytes) -> bytes:
        """See `Channel.exchange`."""
        return self._worker.exchange(answer)

    def process(self) -> bytes:
        """Return the number of the process."""
        return str(os.getpid()).encode()


class RayWorkers:
    """Makes actors in one cluster; see `medstress.fleet.driver.Workers`."""

    def __init__(self, ray: Any, gpus: float) -> None:
        self._ray = ray
        self._actor = ray.remote(num_cpus=1, num_gpus=gpus, max_restarts=0, max_task_retries=0)(
            Actor
        )
        self.actors: dict[str, Any] = {}
        self._awaited: dict[Any, str] = {}

    def start(self, owner: str, told: bytes) -> None:
        """See `Workers`."""
        self.actors[owner] = self._actor.remote(told)
        self.send(owner, b"")

    def send(self, owner: str, answer: bytes) -> None:
        """See `Workers`."""
        self._awaited[self.actors[owner].exchange.remote(answer)] = owner

    def receive(self, seconds: float) -> Iterable[tuple[str, bytes | None]]:
        """See `Workers`."""
        for one in self._ready(seconds):
            owner = self._awaited.pop(one)
            try:
                yield owner, self._ray.get(one)
            except self._ray.exceptions.RayError:
                self.actors.pop(owner, None)
                yield owner, None

    def _ready(self, seconds: float) -> list[Any]:
        try:
            ready, others = self._ray.wait(list(self._awaited), num_returns=1, timeout=seconds)
            if ready and others:
                ready += self._ray.wait(others, num_returns=len(others), timeout=0)[0]
        except Exception as error:
            raise StoreError(
                f"the Ray cluster is gone ({reason(error)}); what was shipped is kept, and the "
                "same command goes on"
            ) from error
        return list(ready)

    def end(self, owner: str) -> None:
        """See `Workers`."""
        if (actor := self.actors.pop(owner, None)) is not None:
            self._ray.kill(actor)
        self._awaited = {one: name for one, name in self._awaited.items() if name != owner}


@contextmanager
def ray_workers(
    address: str, n_workers: int | None, gpus: float, most: int
) -> Iterator[tuple[RayWorkers, int]]:
    """Connect to a cluster, or start one on this machine, and leave it at the end.

    Args:
        address: `local` starts Ray on this machine; `auto` finds the cluster that this machine
            belongs to; else `host:port` or `ray://host:port`.
        n_workers: how many; None: one for each processor of the cluster, or as many as its GPUs
            allow.
        gpus: GPUs a worker.
        most: the most workers that have something to do.

    Yields:
        The workers, and how many to make.

    Raises:
        UsageError: Ray is not installed, no cluster answers, or it has no room for a worker.
    """
    ray = check_cluster(address)
    quiet = {"configure_logging": False, "log_to_driver": False}
    with _own_signals():
        try:
            if address == LOCAL:
                n = n_workers or os.cpu_count() or 1
                ray.init(address=LOCAL, num_cpus=max(n, 1), include_dashboard=False, **quiet)
            else:
                ray.init(address=address, **quiet)
        except Exception as error:
            raise _unreachable(address, reason(error)) from error
    try:
        found = ray.cluster_resources()
        room = int(found.get("CPU", 0))
        if gpus > 0:
            room = min(room, int(found.get("GPU", 0) // gpus))
        if room < 1:
            wants = "one processor" + (f" and {gpus:g} GPUs" if gpus else "")
            raise UsageError(
                f"--ray {address}: the cluster has no room for a worker, which takes {wants}; it "
                f"has {found.get('CPU', 0):g} processors and {found.get('GPU', 0):g} GPUs"
            )
        yield RayWorkers(ray, gpus), min(n_workers or room, room, most)
    finally:
        with suppress(Exception):
            ray.shutdown()


def check_cluster(address: str) -> Any:
    """Check that a cluster answers, if one is named, and return the module of Ray.

    Raises:
        UsageError: Ray is not installed, the address is none, or nothing answers there.
    """
    ray = find_ray(address)
    _reach(address)
    return ray


def find_ray(address: str) -> Any:
    """Return the module of Ray, for an address that is one.

    Raises:
        UsageError: Ray is not installed, or the address is none.
    """
    _check_address(address)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
    with importing("--ray: the package ray", "ray"):
        ray: Any = import_module("ray")
    return ray


def _check_address(address: str) -> None:
    if address in (LOCAL, AUTO):
        return
    place = _PLACE.fullmatch(address.strip())
    if place is None or int(place["port"]) > 0xFFFF:
        raise UsageError(f"--ray {address}: expected local, auto, HOST:PORT or ray://HOST:PORT")


def _reach(address: str) -> None:
    """Check that a cluster answers, in another process: Ray may wait for minutes, or abort.

    Raises:
        UsageError: none does.
    """
    if address == LOCAL:
        return
    if (place := _PLACE.fullmatch(address.strip())) is not None:
        host = place["host"].strip("[]")
        try:
            socket.create_connection((host, int(place["port"])), _CONNECT_SECONDS).close()
        except OSError as error:
            raise _unreachable(address, reason(error)) from error
    seconds = _PROBE_SECONDS * (2 if address.startswith("ray://") else 1)
    try:
        probe = subprocess.run(
            [sys.executable, "-c", _PROBE, address],
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise _unreachable(address, f"no answer for {seconds:g} s") from None
    if probe.returncode != 0:
        said = [line for line in probe.stderr.splitlines() if line.strip()]
        raise _unreachable(address, said[-1] if said else "it ended without a word")


def _unreachable(address: str, why: str) -> UsageError:
    # Only of a cluster that it finds by itself does Ray know whether it wants a token.
    token = "" if address == AUTO else ", set RAY_AUTH_MODE=token if it wants a token"
    return UsageError(
        f"--ray {address}: no cluster can be reached there ({why}); start one with `ray start "
        f"--head`{token}, or give --ray local"
    )


@contextmanager
def _own_signals() -> Iterator[None]:
    """Keep the handlers of signals, which Ray replaces."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
