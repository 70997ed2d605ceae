"""What merging shards takes: 8 shards of a million queries, joined to one run folder.

Makes the folders of `benchmarks/overhead.py` cut into shards, then merges them in a process of its
own:

    python benchmarks/merge.py --queries 1000000 --shards 8
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from overhead import BUDGET, experiment, write_inputs


def merge(folders: list[Path], to: Path) -> dict[str, Any]:
    """Merge in this process; seconds and largest resident MiB."""
    from medstress.running.merging import merge_shards
    from medstress.store.opening import open_for_reading

    used = time.process_time()
    for folder in folders:
        open_for_reading(folder / "run.sqlite").db.close()  # what every reading command checks
    opening = time.process_time() - used
    begun, used = time.monotonic(), time.process_time()
    counts = merge_shards(folders, to).counts
    return {
        "trials": counts.n_trials,
        "answers": counts.n_answers,
        "bought_twice": counts.bought_twice,
        "seconds": round(time.monotonic() - begun, 2),
        "cpu_seconds": round(time.process_time() - used, 2),
        "of_these_opening": round(opening, 2),
        "mib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }


def make_shards(place: Path, n_queries: int, n_shards: int) -> list[Path]:
    """Run an experiment in shards, each in a folder of its own."""
    from medstress.core.shards import Shard
    from medstress.running.run import run_experiment

    write_inputs(place, max(n_queries // BUDGET, 1))
    return [
        run_experiment(experiment(place), place / f"shard-{number}", shard=Shard(n_shards, number))
        for number in range(1, n_shards + 1)
    ]


def measure(n_queries: int, n_shards: int) -> dict[str, Any]:
    """Make shards, and merge them in another process."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folders = make_shards(place, n_queries, n_shards)
        to = place / "merged"
        command = [sys.executable, __file__, "--to", str(to), *map(str, folders)]
        done = subprocess.run(command, check=True, capture_output=True)
        size = (to / "run.sqlite").stat().st_size
        told = {"queries": n_queries, "shards": n_shards, "mb": round(size / 1e6)}
        return {**told, **json.loads(done.stdout)}


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="merge these, in this process")
    parser.add_argument("--to", type=Path, help="the folder to write, with FOLDERS")
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=8)
    given = parser.parse_args()
    if given.folders:
        print(json.dumps(merge(given.folders, given.to)))
        return
    print(json.dumps(measure(given.queries, given.shards)))


if __name__ == "__main__":
    main()
