"""What a query costs besides the victim: an instant function, everything recorded durably.

Runs the real scheduler and store with a victim that answers at once and is never wrong, so that
every attack uses its whole budget. Time is of the process (all threads), memory its largest
resident size, at the end and after the first 20,000 queries of the same run, which show whether
it grows while a run goes on; more queries are more items, which are read before a run starts.
Of several runs the fastest counts, for a machine that others share is slower now and then, and the
memory of the largest:

    python benchmarks/overhead.py --queries 20000 100000
    python benchmarks/overhead.py --queries 20000 1000000 --repeats 3
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

BUDGET = 50
N_NAMES = 2000
BATCH_SIZE = 512
EARLY = 20_000
"""Queries after which memory is looked at for the first time."""


def always_a(prompts: list[str]) -> list[dict[str, str]]:
    """The victim: the key of every made-up question is A."""
    return [{"answer": "A"}] * len(prompts)


def write_inputs(folder: Path, n_items: int) -> None:
    """Questions of about the length of MedMCQA's, and a vocabulary."""
    rows = []
    for i in range(n_items):
        options = [f"compound {i} {letter}" for letter in "abcd"]
        mentions = [
            {"field": letter, "start": 0, "end": len(option), "type": "T121"}
            for letter, option in zip("ABCD", options, strict=True)
        ]
        rows.append(
            {
                "id": f"q{i}",
                "question": f"Which compound is given first in condition number {i} of the list?",
                "options": options,
                "answer_idx": "A",
                "mentions": mentions,
            }
        )
    lines = "".join(json.dumps(row) + "\n" for row in rows)
    (folder / "items.jsonl").write_text(lines, "utf-8")
    names = "".join(f"substance number {i}\n" for i in range(N_NAMES))
    (folder / "names.txt").write_text(names, "utf-8")


def experiment(folder: Path) -> dict[str, Any]:
    """One attack with the random sampler."""
    return {
        "experiment": {"controls": False, "name": "overhead", "seeds": [0]},
        "dataset": [{"name": "table", "path": str(folder / "items.jsonl")}],
        "entities": [
            {"type": "drugs", "vocabulary": str(folder / "names.txt"), "embedding": "ngram"}
        ],
        "victim": [
            {
                "backend": "python",
                "target": f"{Path(__file__).resolve()}:always_a",
                "version": "1",
                "batch_size": BATCH_SIZE,
            }
        ],
        "attack": [{"name": "entity_substitution", "sampler": "random", "budget": BUDGET}],
    }


def measure(n_queries: int) -> dict[str, Any]:
    """One run in this process; what it prepares and what it opens is timed by itself."""
    from medstress.experiment.prepare import Watcher, opened_victims, prepare
    from medstress.experiment.run import execute

    early: list[int] = []

    def look(progress: Any) -> None:
        if not early and progress.n_computed >= EARLY:
            early.append(largest_resident())

    n_items = max(n_queries // BUDGET, 1)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, n_items)
        given = experiment(folder)
        started = time.process_time()
        prepared = prepare(given)
        preparing = time.process_time() - started
        with opened_victims(prepared, lambda _: None):
            wall, started = time.perf_counter(), time.process_time()
            execute(prepared, folder / "run", watcher=Watcher(progress=look))
            seconds = time.process_time() - started
            wall = time.perf_counter() - wall
        resident = largest_resident()
        db = sqlite3.connect(folder / "run" / "run.sqlite")
        asked = db.execute("SELECT COUNT(*) FROM exchanges WHERE purpose = 'attack'").fetchone()[0]
        db.close()
        size = sum(file.stat().st_size for file in (folder / "run").iterdir())
    return {
        "queries": asked,
        "process_seconds": round(seconds, 2),
        "wall_seconds": round(wall, 2),
        "preparing_process_seconds": round(preparing, 2),
        "queries_per_process_second": round(asked / seconds),
        "bytes_per_query": round(size / asked),
        "early_resident_mb": (early or [resident])[0],
        "largest_resident_mb": resident,
    }


def largest_resident() -> int:
    """The largest resident size of this process so far, in MB."""
    return round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    """Print one JSON line a number of queries, each run in a process of its own."""
    from common import at_least  # not there where a run imports this file for its victim

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--queries", nargs="+", type=at_least(1), default=[20_000, 100_000, 1_000_000]
    )
    parser.add_argument(
        "--repeats", type=at_least(1), default=1, help="runs, of which the fastest counts"
    )
    parser.add_argument("--here", action="store_true", help="in this process, for profilers")
    given = parser.parse_args()
    if given.here:
        for n in given.queries:
            print(json.dumps(measure(n)), flush=True)
        return
    rounds = [[elsewhere(n) for n in given.queries] for _ in range(given.repeats)]
    for runs in zip(*rounds, strict=True):
        fastest = min(runs, key=lambda run: float(run["process_seconds"]))
        of_each = [run["queries_per_process_second"] for run in runs]
        largest = max(runs, key=lambda run: int(run["largest_resident_mb"]))
        memory = {name: largest[name] for name in ("early_resident_mb", "largest_resident_mb")}
        print(json.dumps({**fastest, **memory, "of_each_run": of_each}), flush=True)


def elsewhere(n_queries: int) -> dict[str, Any]:
    """`measure` in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--here", "--queries", str(n_queries)],
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        # Threads that wait for one another in a product of small matrices burn process time.
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
