"""Seconds of one epoch of fine-tuning MiniLM on the train split of BC5CDR.

    python benchmarks/fine_tuning.py FOLDER [--to results/fine_tuning.json]
    python benchmarks/fine_tuning.py FOLDER --dtypes float32 bfloat16   # where the CPU has bfloat16

FOLDER holds train.tsv, devel.tsv and test.tsv of BC5CDR-chemical. Each number format trains in a
process of its own, with the settings of `araujo2020-table2`. Wall time of the steps, checkpoints
included; the strict F1 on devel tells whether a format holds its results, and its time is told
apart.
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

from bench import machine, now

TARGET_SECONDS = 240.0


def experiment(folder: str, dtype: str) -> dict[str, Any]:
    """One epoch on train, scored on devel."""
    return {
        "experiment": {"name": "fine-tuning"},
        "dataset": [{"name": "bc5cdr", "path": folder, "split": "devel"}],
        "attack": [{"name": "swap_noise"}],
        "train": {
            "model": "minilm",
            "data": {"split": "train"},
            "dev": 0,
            "epochs": 1,
            "learning_rate": 3e-4,
            "dtype": dtype,
        },
    }


def measured(folder: str, dtype: str) -> dict[str, Any]:
    """One epoch in this process."""
    import torch

    from medstress.datasets import bc5cdr
    from medstress.datasets.source import DatasetOptions
    from medstress.machine.compute_thread import in_compute_thread
    from medstress.training.learner import find_start
    from medstress.training.loop import fit
    from medstress.training.plan import plan_training

    plan = plan_training(experiment(folder, dtype))
    (model,) = plan.models
    learner = plan.learner(model, find_start(plan.table.model, plan.table.device, Path()))
    n_items = len(plan.items_of(model)(0))
    with tempfile.TemporaryDirectory() as checkpoints:
        cpu = time.process_time()
        (point,) = fit(
            learner, plan.items_of(model), [], plan.schedule(model), Path(checkpoints), say
        )
        cpu = time.process_time() - cpu
    devel = bc5cdr.load(DatasetOptions(path=Path(folder), split="devel")).items
    started = time.perf_counter()
    f1 = in_compute_thread(learner.score)(devel)
    return {
        "dtype": dtype,
        "sentences": n_items,
        "steps": point.steps,
        "threads": torch.get_num_threads(),
        "seconds": round(point.seconds, 1),
        "process_seconds": round(cpu, 1),
        "f1_on_devel": round(f1, 4),
        "scoring_seconds": round(time.perf_counter() - started, 1),
    }


def say(what: str) -> None:
    """One line of progress."""
    print(what, file=sys.stderr, flush=True)


def main() -> None:
    """Measure every number format and print a JSON line for each; --to writes them down."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", help="holds train.tsv, devel.tsv and test.tsv")
    parser.add_argument("--dtypes", nargs="+", default=["float32"])
    parser.add_argument("--to", type=Path, help="JSON file of the result")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measured(given.folder, given.one)))
        return
    before, lines = now(), []
    for dtype in given.dtypes:
        command = [sys.executable, __file__, given.folder, "--one", dtype]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        lines.append(json.loads(done.stdout))
        print(done.stdout, end="", flush=True)
    if given.to:
        result = {
            "format": 1,
            "command": "python benchmarks/fine_tuning.py FOLDER",
            **before,
            "machine": machine(),
            "target_seconds": TARGET_SECONDS,
            "met": lines[0]["seconds"] < TARGET_SECONDS,
            "lines": lines,
        }
        given.to.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
