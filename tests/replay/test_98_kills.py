"""98 kills at random moments: every run goes on to the root of the run that nobody killed."""

from __future__ import annotations

import os
import random
import signal
import time

import pytest

from medstress.audit.verify import verify_folder

N_KILLS = 98
KILLS_A_FOLDER = 7
DELAY = 0.02


@pytest.mark.kills
@pytest.mark.timeout(1800)
def test_98_kills_at_random_moments_lead_to_one_root(workbench, tmp_path, monkeypatch, capsys):
    bench = workbench.Bench(tmp_path)
    bench.tables["experiment"]["controls"] = ["no_op"]
    bench.tables["attack"] = bench.tables["attack"][:2]
    for name, value in bench.environment().items():
        monkeypatch.setenv(name, value)
    assert bench.run(out=tmp_path / "unbroken") == 0
    expected = verify_folder(tmp_path / "unbroken").root
    began = time.monotonic()
    workbench.finish(bench.start(out=tmp_path / "timed", delay=DELAY))
    seconds = time.monotonic() - began
    rng, n_kills, n_folders, n_begun = random.Random("98 kills"), 0, 0, 0
    while n_kills < N_KILLS:
        n_folders += 1
        out = tmp_path / f"run{n_folders}"
        for _ in range(KILLS_A_FOLDER):
            process = bench.start(out=out, delay=DELAY)
            time.sleep(rng.uniform(0, seconds))
            has_ended = process.poll() is not None
            if not has_ended:
                os.kill(process.pid, signal.SIGKILL)
                n_kills += 1
                n_begun += (out / "run.sqlite").exists()
            workbench.stop(process)
            if has_ended:
                break
        assert workbench.finish(bench.start(out=out))[0] == 0
        found = verify_folder(out)
        assert found.holds, found.broken
        assert found.root == expected, n_folders
        with capsys.disabled():
            print(f"{n_folders} folders, {n_kills} kills, {n_begun} of runs that had begun: 1 root")
