"""What merging shards takes: 8 shards of a million queries, joined to one run folder.

Makes the folders of `benchmarks/overhead.py` cut into shards, then merges them in a process of its
own:

    python benchmarks/merge.py --queries 1000000 --shards 8

With `--exchanges parquet` the exchanges go to Parquet files. `--read` also completes the merged run
and summarises it, each in a process of its own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import overhead
from overhead import BUDGET, experiment, write_inputs


def merge(folders: list[Path], to: Path, exchanges: Any) -> dict[str, Any]:
    """Merge in this process; seconds and largest resident MiB."""
    from medstress.running.merging import merge_shards
    from medstress.store.opening import open_for_reading

    used = time.process_time()
    for folder in folders:
        open_for_reading(folder / "run.sqlite").db.close()  # what every reading command checks
    opening = time.process_time() - used
    begun, used = time.monotonic(), time.process_time()
    merged = merge_shards(folders, to, exchanges=exchanges)
    return {
        "trials": merged.n_ended,
        "answers": merged.counts.n_answers,
        "bought_twice": merged.counts.bought_twice,
        "seconds": round(time.monotonic() - begun, 2),
        "cpu_seconds": round(time.process_time() - used, 2),
        "of_these_opening": round(opening, 2),
        "mib": _resident(),
    }


def read(folder: Path, how: str) -> dict[str, Any]:
    """Use a merged run in this process; seconds and largest resident MiB."""
    begun = time.monotonic()
    if how == "ledger":  # what every reading command does first
        from medstress.results.load import open_run

        with open_run(folder) as run:
            n = sum(1 for _ in run.exchanges())
            told = {"exchanges": n, **run.totals()}
    elif how == "summary":
        from medstress.api.run import Run

        told = {"root": Run(folder).summary()["root"]}
    elif how == "verify":
        from medstress.audit.verify import verify_folder

        found = verify_folder(folder)
        told = {"broken": str(found.broken), "judged": found.n_judged}
    else:
        from medstress.running.run import run_experiment

        run_experiment(experiment(folder.parent), folder)
        told = {}
    return {**told, "seconds": round(time.monotonic() - begun, 2), "mib": _resident()}


def _resident() -> int:
    # Not `getrusage`, which knows the size of the process that started this one.
    status = Path("/proc/self/status").read_text("utf-8")
    return round(int(status.split("VmHWM:")[1].split()[0]) / 1024)


def make_shards(place: Path, n_queries: int, n_shards: int) -> list[Path]:
    """Run an experiment in shards, each in a folder of its own."""
    from medstress.core.shards import Shard
    from medstress.running.run import run_experiment

    write_inputs(place, max(n_queries // overhead.BUDGET, 1))
    return [
        run_experiment(experiment(place), place / f"shard-{number}", shard=Shard(n_shards, number))
        for number in range(1, n_shards + 1)
    ]


def measure(n_queries: int, n_shards: int, exchanges: str, reads: list[str]) -> dict[str, Any]:
    """Make shards, and merge and read them in other processes."""
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        folders = make_shards(place, n_queries, n_shards)
        to = place / "merged"
        told: dict[str, Any] = {"queries": n_queries, "shards": n_shards, "exchanges": exchanges}
        told |= _other("--exchanges", exchanges, "--to", to, *folders)
        sizes = [path.stat().st_size for path in to.rglob("*") if path.is_file()]
        told["mb"] = round(sum(sizes) / 1e6)
        more = ("--to", to, "--budget", overhead.BUDGET)
        return told | {how: _other("--read", how, *more) for how in reads}


def _other(*arguments: object) -> Any:
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folders", nargs="*", type=Path, help="merge these, in this process")
    parser.add_argument("--to", type=Path, help="the folder to write, with FOLDERS")
    parser.add_argument("--queries", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--budget", type=int, default=BUDGET, help="queries of a trial")
    parser.add_argument("--exchanges", choices=("parquet", "sqlite"), default="sqlite")
    parser.add_argument(
        "--read", nargs="*", choices=("run", "ledger", "summary", "verify"), default=[]
    )
    given = parser.parse_args()
    overhead.BUDGET = given.budget
    if given.folders:
        print(json.dumps(merge(given.folders, given.to, given.exchanges)))
    elif given.to:
        print(json.dumps(read(given.to, *given.read)))
    else:
        print(json.dumps(measure(given.queries, given.shards, given.exchanges, given.read)))


if __name__ == "__main__":
    main()
