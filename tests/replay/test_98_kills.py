"""98 kills at random moments: every run goes on to the root of the run that nobody killed.

The first are of processes that begin as a user's do, and import for most of their time; the others
are of forks of a process that has done all that before, so that nearly every kill meets a run.
"""

import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress

import pytest

from medstress.experiment.audit.verify import verify_folder

N_KILLS = 98
KILLS_A_FOLDER = 7
OF_WHOLE_PROCESSES = 7
DELAY = 0.01
FORKS = """
import gc, json, os, sys, threading
from medstress.cli.app import medstress_cli
from medstress.cli.process import leave

said = os.fdopen(os.dup(1), "w")
os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
assert medstress_cli(json.loads(sys.stdin.readline())) == 0
assert threading.active_count() == 1
gc.freeze()  # forks share what is not touched
for line in sys.stdin:
    if (pid := os.fork()) == 0:
        leave(medstress_cli(json.loads(line)))
    print(pid, file=said, flush=True)
    print(os.waitpid(pid, 0)[1], file=said, flush=True)
"""
"""Runs a command itself, and every further one in a fork, whose process and end it says."""


class Forks:
    """Runs commands in forks of one process, which has run one: all is imported and loaded."""

    def __init__(self, arguments, environment):
        self._process = subprocess.Popen(
            [sys.executable, "-c", FORKS],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,  # so that `select` sees every line that was not read
        )
        self._tell(arguments)

    def run(self, arguments, seconds):
        """Run a command, and kill it after so many seconds; whether it was killed."""
        self._tell(arguments)
        pid = int(self._process.stdout.readline())
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            with suppress(ProcessLookupError):  # it may end at this very moment
                os.kill(pid, signal.SIGKILL)
        status = int(self._process.stdout.readline())
        assert status in (0, signal.SIGKILL)
        return status != 0

    def end(self):
        """End it with its last command."""
        self._process.communicate()

    def _tell(self, words):
        self._process.stdin.write(json.dumps(words).encode() + b"\n")


def clocked(run, *given):
    began = time.monotonic()
    run(*given)
    return time.monotonic() - began


@pytest.mark.kills
@pytest.mark.timeout(900)
def test_98_kills_at_random_moments_lead_to_one_root(
    request, workbench, tmp_path, monkeypatch, capsys
):
    bench = workbench.Bench(tmp_path)
    bench.tables["experiment"]["controls"] = ["no_op"]
    bench.tables["attack"] = bench.tables["attack"][:2]
    for name, value in bench.environment().items():
        monkeypatch.setenv(name, value)
    unbroken = tmp_path / "unbroken"
    forks = Forks(bench.arguments(out=unbroken), bench.environment(delay=DELAY))
    request.addfinalizer(forks.end)

    def forked(out, seconds):
        return forks.run(bench.arguments(out=out), seconds)

    def whole(out, seconds):
        process = bench.start(out=out, delay=DELAY)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            os.kill(process.pid, signal.SIGKILL)
        workbench.stop(process)
        assert process.returncode in (0, -signal.SIGKILL)
        return process.returncode != 0

    rng, n_kills, n_folders, n_begun = random.Random("98 kills"), 0, 0, 0
    forked(unbroken, 300)  # answered when that run is complete
    expected = verify_folder(unbroken).root
    seconds = {run: clocked(run, tmp_path / run.__name__, 300) for run in (whole, forked)}
    while n_kills < N_KILLS:
        n_folders += 1
        out = tmp_path / f"run{n_folders}"
        run = whole if n_kills < OF_WHOLE_PROCESSES else forked
        for _ in range(KILLS_A_FOLDER):
            if not run(out, rng.uniform(0, seconds[run])):
                break
            n_kills += 1
            n_begun += (out / "run.sqlite").exists()
        assert bench.run(out=out) == 0
        found = verify_folder(out)
        assert found.holds, found.broken
        assert found.root == expected, n_folders
        with capsys.disabled():
            print(f"{n_folders} folders, {n_kills} kills, {n_begun} of runs that had begun: 1 root")
    assert n_begun > N_KILLS / 2
