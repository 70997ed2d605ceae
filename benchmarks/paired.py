"""CPU time and peak memory of this checkout against another one, in paired runs.

    git worktree add --detach ../before 7b482d0
    python benchmarks/paired.py ../before --repeats 3

Both run the same experiment on the other checkout's sample questions with the mock victim, and read
it back. Printed are the medians over the repeats of the ratios (this / other).
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]
EXPERIMENT = """
[experiment]
name = "paired"
controls = false
seeds = [0, 1, 2, 3, 4, 5, 6, 7]
[[dataset]]
name = "jsonl"
path = "items.jsonl"
[[entities]]
name = "drugs"
type = "drugs"
vocabulary = "drugs"
embedding = "ngram"
[[entities]]
name = "diseases"
type = "diseases"
vocabulary = "diseases"
embedding = "ngram"
[[victim]]
name = "mock"
backend = "mock"
[[attack]]
name = "entity_substitution"
n = [-20, 20]
[[attack]]
name = "entity_substitution"
sampler = "random"
"""
COMMANDS = {
    "run": ("run", "e.toml", "--out", "run", "--quiet"),
    "summary": ("summary", "run", "--json"),
    "report": ("report", "run"),
}


def main() -> None:
    """Print a line for each command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="another checkout")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in COMMANDS}
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        sample = "src/medstress/datasets/data/sample.jsonl"
        shutil.copyfile(given.other / sample, work / "items.jsonl")
        (work / "e.toml").write_text(EXPERIMENT, "utf-8")
        for i in range(given.repeats):
            sides = [HERE, given.other.resolve()]
            used = {}
            for side in sides if i % 2 else sides[::-1]:
                shutil.rmtree(work / "run", ignore_errors=True)
                used[side] = [spent(side, work, command) for command in COMMANDS.values()]
            for name, ours, theirs in zip(found, used[sides[0]], used[sides[1]], strict=True):
                found[name].append((ours[0] / theirs[0], ours[1] / theirs[1]))
    for name, ratios in found.items():
        cpu, memory = (statistics.median(each) for each in zip(*ratios, strict=True))
        print(f"{name}: CPU time {cpu:.3f}, peak memory {memory:.3f}")


def spent(checkout: Path, work: Path, command: tuple[str, ...]) -> tuple[float, int]:
    """CPU seconds and peak memory of one command, run with a checkout's code."""
    environment = {**os.environ, "PYTHONPATH": str(checkout / "src"), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "medstress", *command],
        cwd=work,
        env=environment,
        stdout=subprocess.DEVNULL,
    )
    _, status, used = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{checkout}: medstress {' '.join(command)} ended with status {status}")
    return used.ru_utime + used.ru_stime, used.ru_maxrss


if __name__ == "__main__":
    main()
