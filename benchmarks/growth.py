"""How time and memory grow with items, budget, vocabulary and victims.

Runs with an instant victim that is never wrong, so that every attack uses its whole budget; each
in a process of its own, whose CPU time (all threads) and largest resident size are taken, with an
empty cache: vectors are made anew. All but one of the four numbers stay as they are. The fastest of
some runs counts, for a machine that others share is slower now and then, and never faster:

    python benchmarks/growth.py
    python benchmarks/growth.py --repeats 9

Prints one JSON line a point and an axis. Where growth is linear, the last units cost as much as
those before them.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from typing import Any

import numpy as np
from common import at_least
from overhead import experiment, write_inputs

USUAL = {"items": 500, "budget": 16, "vocabulary": 2000, "victims": 1}
POINTS = {
    "items": (500, 2000, 4000, 8000),
    "budget": (8, 64, 128, 256),
    "vocabulary": (1000, 8000, 16_000, 32_000),
    "victims": (1, 2, 4, 8, 16),
}


def made_run(items: int, budget: int, vocabulary: int, victims: int) -> dict[str, Any]:
    """Make the inputs, run, and count."""
    from medstress.api.run import run

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder, items)
        names = "".join(f"substance number {i}\n" for i in range(vocabulary))
        (folder / "names.txt").write_text(names, "utf-8")
        given = experiment(folder)
        given["attack"][0]["budget"] = budget
        (victim,) = given["victim"]
        # Versions of their own, or one victim's answers would serve all.
        given["victim"] = [
            {**victim, "name": f"victim {i}", "version": str(i)} for i in range(victims)
        ]
        wall, started = time.perf_counter(), time.process_time()
        done = run(given, folder / "run")
        wall, ended = time.perf_counter() - wall, time.process_time()
        # Before the rows are read back, which is no part of the run.
        resident = getrusage(RUSAGE_SELF).ru_maxrss / 1024
        queries = int(done.trials()["n_asked"].sum())
    return {
        "queries": queries,
        "process_seconds": round(ended - started, 3),
        "wall_seconds": round(wall, 3),
        "largest_resident_mb": round(resident, 1),
    }


def measured(axis: str, xs: Sequence[int], repeats: int) -> list[dict[str, Any]]:
    """The points of an axis, each run `repeats` times, in turns."""
    commands = [[sys.executable, __file__, "--here", json.dumps({**USUAL, axis: x})] for x in xs]
    rounds = [[measured_apart(command) for command in commands] for _ in range(repeats)]
    return [
        {
            "axis": axis,
            "x": x,
            "runs": repeats,
            "queries": runs[0]["queries"],
            "process_seconds": min(run["process_seconds"] for run in runs),
            "largest_resident_mb": max(run["largest_resident_mb"] for run in runs),
        }
        for x, runs in zip(xs, zip(*rounds, strict=True), strict=True)
    ]


def measured_apart(command: Sequence[str]) -> dict[str, Any]:
    """What a process of its own prints, which finds no vectors made before."""
    with tempfile.TemporaryDirectory() as cache:
        done = subprocess.run(
            command,
            check=True,
            text=True,
            stdout=subprocess.PIPE,
            env={**os.environ, "MEDSTRESS_CACHE": cache, "OPENBLAS_NUM_THREADS": "1"},
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def fit(xs: Sequence[float], ys: Sequence[float]) -> dict[str, float]:
    """The line through points by least squares.

    >>> fit([1, 2, 4], [3.0, 5.0, 9.0])
    {'slope': 2.0, 'intercept': 1.0, 'r_squared': 1.0}
    """
    slope, intercept = np.polyfit(np.asarray(xs, float), np.asarray(ys, float), 1)
    rest = np.asarray(ys) - (slope * np.asarray(xs) + intercept)
    spread = np.asarray(ys) - np.mean(ys)
    total = float(spread @ spread)
    return {
        "slope": float(f"{slope:.4g}"),
        "intercept": float(f"{intercept:.4g}"),
        "r_squared": round(1 - float(rest @ rest) / total, 4) if total else 1.0,
    }


def growth(points: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """How one axis grows: a line, and what the last units cost against those before.

    Args:
        points: three or more, at different places.

    Returns:
        Among others `marginal_ratio`, which leaves out what a run costs anyway.
    """
    ordered = sorted(points, key=lambda point: point["x"])
    xs = [point["x"] for point in ordered]
    seconds = [point["process_seconds"] for point in ordered]
    memory = [point["largest_resident_mb"] for point in ordered]
    return {
        "axis": ordered[0]["axis"],
        "runs": ordered[0]["runs"],
        "smallest": xs[0],
        "last_but_one": xs[-2],
        "largest": xs[-1],
        "seconds_fit": fit(xs, seconds),
        "memory_fit": fit(xs, memory),
        "marginal_ratio": marginal(xs, seconds),
        "memory_ratio": round(memory[-1] / memory[0], 3),
    }


def marginal(xs: Sequence[float], seconds: Sequence[float]) -> float | None:
    """Seconds a unit between the last two points, per those from the first to the last but one.

    None where more units did not take longer: such points are too small to tell.

    >>> marginal([1, 2, 4], [11.0, 14.0, 26.0])
    2.0
    """
    before = (seconds[-2] - seconds[0]) / (xs[-2] - xs[0])
    last = (seconds[-1] - seconds[-2]) / (xs[-1] - xs[-2])
    return round(last / before, 3) if min(before, last) > 0 else None


def main() -> None:
    """Print one JSON line a point and an axis."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--axes", nargs="+", choices=POINTS, default=list(POINTS))
    parser.add_argument("--repeats", type=at_least(1), default=1)
    parser.add_argument("--here", type=json.loads, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.here:
        made_run(5, 2, 10, 1)  # pays for what is imported late
        print(json.dumps(made_run(**given.here)))
        return
    for axis in given.axes:
        points = measured(axis, POINTS[axis], given.repeats)
        for point in points:
            print(json.dumps(point), flush=True)
        print(json.dumps(growth(points)), flush=True)


if __name__ == "__main__":
    main()
