"""Reading a run: what has to be loaded for it."""

from __future__ import annotations

import subprocess
import sys

LOADED = """
import sys
import medstress.store.trials, medstress.analyses.run
ours = [name for name in sys.modules if name.partition(".")[0] == "medstress"]
heavy = {"attacks", "tasks", "engine", "experiment", "kinds", "backends"}
print(len(ours), *(name for name in ours if heavy & set(name.split("."))))
"""


def test_reading_a_run_loads_no_attack_and_no_task() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LOADED], capture_output=True, text=True, check=True
    )
    n_loaded, *heavy = done.stdout.split()
    assert not heavy
    assert int(n_loaded) <= 70
