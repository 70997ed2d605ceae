"""Runs on a Ray that is started on this machine: a minute or two each, before a release."""

import os
import random
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from late import needs
from medstress.api.run import Run
from medstress.core.errors import UsageError
from medstress.experiment import on_ray
from medstress.experiment.verify import verify_folder

pytestmark = [
    needs("ray"),
    pytest.mark.release,
    pytest.mark.kills,
    pytest.mark.timeout(1800),
    pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="needs /proc"),
]
LOOPBACK = ("0100007F", "0" * 16 + "FFFF00000100007F", "0" * 24 + "01000000")
"""127.0.0.1 as IPv4, the same as IPv6, and ::1, as /proc/net writes them."""


@pytest.fixture
def bench(bench):
    bench.tables["victim"][0]["batch_size"] = 1
    return bench


@pytest.fixture
def alone(bench, monkeypatch):
    """The root of the run of one process, and how many calls it made."""
    log = bench.root / "alone.jsonl"
    monkeypatch.setenv("VICTIM_LOG", str(log))
    assert bench.run(out=bench.root / "alone") == 0
    return Run(bench.root / "alone").summary()["root"], len(bench.received(log))


@pytest.fixture
def start(bench):
    """`medstress run --ray local` in a process of its own."""
    begun = []

    def begin(n_shards=4, delay=0.05):
        words = bench.arguments("--ray", "local", "--shards", str(n_shards))
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        command = [sys.executable, "-m", "medstress", *words]
        begun.append(
            subprocess.Popen(command, env=bench.environment(delay), cwd=bench.root, **pipes)
        )
        return begun[-1]

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def wait(true, process, seconds=240.0):
    """Poll until something holds."""
    until = time.monotonic() + seconds
    while not true():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until, "waited too long"
        time.sleep(0.02)


def of_cluster():
    """The processes that were started for a cluster here."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if f"{on_ray._MARK}=".encode() in (folder / "environ").read_bytes():
                    found.append(int(folder.name))
            except OSError:
                pass
    return found


def listeners(processes):
    """The addresses at which processes take connections."""
    of_socket = {}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            parts = line.split()
            if parts[3] == "0A":
                of_socket[parts[9]] = parts[1].partition(":")[0]
    found = []
    for process in processes:
        for descriptor in Path(f"/proc/{process}/fd").iterdir():
            try:
                name = str(descriptor.readlink())
            except OSError:
                continue
            if name.startswith("socket:[") and name[8:-1] in of_socket:
                found.append(of_socket[name[8:-1]])
    return found


def test_twenty_workers_that_are_killed_cost_what_they_had_in_flight(bench, alone, start):
    root, n_alone = alone
    process, luck = start(), random.Random(7)
    for _ in range(20):
        seen = len(bench.received())
        more = luck.randint(1, 5)
        wait(lambda n=seen + more: len(bench.received()) >= n, process)
        os.kill(bench.received()[-1][0], signal.SIGKILL)
    _, err = process.communicate(timeout=500)
    assert process.returncode == 0, err
    assert len({process for process, _ in bench.received()}) > 10
    assert n_alone <= len(bench.received()) <= n_alone + 20 + 2
    assert Run(bench.out).summary()["root"] == root
    assert verify_folder(bench.out).holds


def test_a_cluster_here_is_for_us_alone_and_ends_with_its_driver(bench, alone, start):
    root, n_alone = alone
    process = start()
    wait(lambda: len(bench.received()) > n_alone // 4, process)
    own = of_cluster()
    addresses = listeners([*own, process.pid])
    assert len(addresses) > 4
    assert set(addresses) <= set(LOOPBACK)
    worker = Path(f"/proc/{bench.received()[-1][0]}/environ").read_bytes().split(b"\0")
    assert b"RAY_AUTH_MODE=token" in worker
    process.kill()
    process.communicate()
    until = time.monotonic() + 20
    while of_cluster() and time.monotonic() < until:
        time.sleep(0.2)
    assert not of_cluster()
    done = start(delay=0)
    _, err = done.communicate(timeout=500)
    assert done.returncode == 0, err
    assert Run(bench.out).summary()["root"] == root
    assert len(bench.received()) <= n_alone + 2  # what two workers had in flight
    assert not of_cluster()


def test_an_interrupt_stores_what_is_in_flight(bench, alone, start):
    root, n_alone = alone
    process = start()
    wait(lambda: len(bench.received()) > n_alone // 4, process)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=120)
    assert process.returncode == 130
    done = start(delay=0)
    _, err = done.communicate(timeout=500)
    assert done.returncode == 0, err
    assert Run(bench.out).summary()["root"] == root
    assert len(bench.received()) == n_alone


def test_a_port_without_a_listener_is_refused():
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(UsageError, match="no cluster can be reached"):
        on_ray._ray(f"127.0.0.1:{port}")
