"""Runs on a Ray that is started on this machine: some twenty seconds each, before a release."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time

import pytest

from medstress.api.run import Run
from medstress.core.errors import UsageError
from medstress.fleet import ray_workers as module

pytest.importorskip("ray", reason="needs the extra `ray`")
pytestmark = [pytest.mark.release, pytest.mark.kills]


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    made = workbench.Bench(tmp_path)
    made.tables["victim"][0]["batch_size"] = 1
    for name, value in made.environment(delay=0.02).items():
        monkeypatch.setenv(name, value)
    return made


def exported(folder):
    """All rows of a run but their times."""
    found = []
    for table in ("trials", "exchanges"):
        file = folder.parent / f"{folder.name}.{table}.jsonl"
        Run(folder).export(table, file)
        rows = [json.loads(line) for line in file.read_text("utf-8").splitlines()]
        found.append([{key: row[key] for key in row if key != "seconds"} for row in rows])
    return found


def started(bench, out, *flags):
    """`medstress run` in a process of its own."""
    arguments = bench.arguments(*flags, out=out)
    return subprocess.Popen(
        [sys.executable, "-m", "medstress", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def actor_of(log):
    """The process that the victim ran in last."""
    lines = log.read_text("utf-8").splitlines() if log.exists() else []
    return json.loads(lines[-1])[0] if lines else None


def test_a_run_on_ray_whose_worker_is_killed_is_that_of_one_process(bench):
    assert bench.run(out=bench.root / "alone") == 0
    n_alone = len(bench.received())
    bench.log.unlink()
    flags = ("--ray", "local", "--workers", "2", "--shards", "5", "--ship-every", "10")
    process = started(bench, bench.root / "many", *flags)
    until = time.monotonic() + 120
    while len(bench.received()) < n_alone // 3 and time.monotonic() < until:
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    os.kill(actor_of(bench.log), signal.SIGKILL)
    _, err = process.communicate(timeout=240)
    assert process.returncode == 0, err
    assert "1 lease ended with the worker" in err
    assert exported(bench.root / "many") == exported(bench.root / "alone")
    assert len(bench.received()) - n_alone <= 10 + 1


def ended(*arguments, cwd):
    """What a command in a process of its own says."""
    done = subprocess.run(
        [sys.executable, "-m", "medstress", *map(str, arguments), "--quiet"],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_tuning_on_ray_is_that_of_one_process(bench, workbench):
    bench.write_items(workbench.questions(30))
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [{"name": "entity_substitution", "budget": 3}]
    bench.tables["tune"] = {"grid": [-30, -5, 5, 30]}
    file, many, alone = bench.write(), bench.root / "many", bench.root / "alone"
    shown = ended("tune", file, "--out", alone, cwd=bench.root)
    n_alone = len(bench.received())
    flags = ("--ray", "local", "--workers", "2", "--shards", "5")
    told = ended("tune", file, "--out", many, *flags, cwd=bench.root)
    assert told.replace(str(many), "") == shown.replace(str(alone), "")
    for part in ("tuning", "."):
        here, there = (many / part).resolve(), (alone / part).resolve()
        assert exported(here) == exported(there)
        assert Run(here).summary()["root"] == Run(there).summary()["root"]
    assert (many / "tune.json").read_text() == (alone / "tune.json").read_text()
    assert len(bench.received()) == 2 * n_alone


def test_a_machine_that_is_no_cluster_is_refused(said, monkeypatch):
    """It takes the connection and says nothing."""
    import socket

    monkeypatch.setattr(module, "_PROBE_SECONDS", 8.0)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(UsageError) as error, module.ray_workers(address, 1, 0.0, 1):
            pass
    assert "no cluster can be reached" in str(error.value)
    assert time.monotonic() - began < 60


def test_more_gpus_than_there_are_are_refused():
    with pytest.raises(UsageError, match="no room"), module.ray_workers("local", 1, 64.0, 1):
        pass
    assert threading.current_thread() is threading.main_thread()
