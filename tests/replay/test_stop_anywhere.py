"""A run that stops before any single write of its store ends like one that never stopped.

The real kills of `test_kills.py` fall where the time is spent; here every place has its turn.
"""

import os
import time
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from medstress.api.run import run
from medstress.backends.threads import is_working
from medstress.core import registry
from medstress.experiment import manifest
from medstress.experiment import run as running
from medstress.store.run_store import RunStore

WRITES = (
    "write_manifest",
    "arm_id",
    "begin_trials",
    "consumed",
    "finish_trial",
    "dispatching",
    "answered",
    "commit",
)


class Crash(BaseException):
    """The process is gone: nobody may handle this, and what was not committed is lost."""


class Stopping(RunStore):
    """A store that raises before its n-th write."""

    stop_at: int | None = None
    n_writes = 0
    is_stopped = False

    def close(self) -> None:
        if not self.is_stopped:
            super().close()
            return
        self._db.abandon()
        self._lock.release()


def counted(name):
    def write(self, *args):
        if not self.is_stopped:
            if Stopping.n_writes == Stopping.stop_at:
                self.is_stopped = True
                raise Crash
            Stopping.n_writes += 1
        return getattr(RunStore, name)(self, *args)

    return write


for _name in WRITES:
    setattr(Stopping, _name, counted(_name))


@pytest.fixture
def small(bench, workbench, monkeypatch):
    """Few questions, so that every write can have its turn."""
    bench.write_items([row for row in workbench.questions(6) if row["id"] in ("q0", "q5")])
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [bench.attack("random", budget=2), bench.attack("nearest", budget=2)]
    bench.tables["victim"][0]["batch_size"] = 2
    monkeypatch.setattr(running, "RunStore", Stopping)
    # Hundreds of runs: spare each the look at git and at the installed packages.
    monkeypatch.setattr(manifest, "versions", dict)
    monkeypatch.setattr(registry, "entry_points", lambda **_: ())
    memory = Path("/dev/shm")
    base = str(memory) if os.access(memory, os.W_OK) else None
    with TemporaryDirectory(dir=base) as folder:
        bench.runs = Path(folder)  # no waiting for a disk
        yield bench


def go(bench, out, stop_at=None):
    """Run in this process; returns whether it was stopped."""
    Stopping.stop_at, Stopping.n_writes = stop_at, 0
    try:
        run(bench.write(), out)
    except Crash:
        # A real crash ends the threads as well; here one may still be on its batch.
        while is_working():
            time.sleep(0.001)
        return True
    return False


@pytest.mark.kills
def test_a_crash_before_any_write_changes_no_trial_and_reports_every_lost_call(
    small, workbench, monkeypatch
):
    monkeypatch.setenv("VICTIM_LOG", str(small.root / "whole.jsonl"))
    whole = small.runs / "whole"
    assert not go(small, whole)
    n_writes, expected = Stopping.n_writes, small.rows(whole)
    assert len(expected) == 2 * 2
    assert n_writes > 20
    prompts = {prompt for _, prompt in small.received(small.root / "whole.jsonl")}
    n_lost = 0
    for stop_at in range(n_writes):
        out, log = small.runs / f"at{stop_at}", small.root / f"at{stop_at}.jsonl"
        monkeypatch.setenv("VICTIM_LOG", str(log))
        assert go(small, out, stop_at)
        after = workbench.snapshot(out, small.runs / "copy")
        n_first = len(small.received(log))
        assert not go(small, out)
        assert small.rows(out) == expected
        end = workbench.snapshot(out, small.runs / "copy")
        received = [prompt for _, prompt in small.received(log)]
        prompt_of = small.prompts_by_key(out, prompts | set(received))
        unanswered = Counter(received[:n_first])
        unanswered.subtract(prompt_of[key] for key in after.answered)
        assert min(unanswered.values(), default=0) >= 0
        in_flight = Counter(prompt_of[key] for key in after.dispatched)
        assert +unanswered == in_flight
        asked_again = Counter(received[n_first:])
        assert asked_again == Counter(prompt_of[key] for key in end.answered - after.answered)
        assert end.interrupted == after.dispatched
        assert end.dispatched == ()
        n_lost += len(end.interrupted)
    assert n_lost > 0
