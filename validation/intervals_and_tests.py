"""Simulates the statistics: coverage of intervals, sizes of tests.

    python validation/intervals_and_tests.py               # 10,000 runs a cell, minutes on one core
    python validation/intervals_and_tests.py --runs 500    # a quick look
    python validation/intervals_and_tests.py --only shares slices

Writes a JSON file for each part. Every cell has random numbers of its own, so the same command
gives the same numbers. docs/results/statistics.md has them, from the files in studies/statistics.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import drawn_names
import intervals
import scores
import slices
import victims

import sizes

PARTS: dict[str, Callable[[int], Any]] = {
    "shares": intervals.shares,
    "pairs": intervals.pairs,
    "losses": intervals.losses,
    "clusters": intervals.clusters,
    "broken": intervals.broken,
    "victims": victims.victim_cells,
    "sizes": sizes.sizes_of_tests,
    "families": sizes.families,
    "names": drawn_names.names,
    "two_way": drawn_names.two_way,
    "slices": slices.slices,
    "documents": scores.documents,
    "breaking": scores.breaking,
    "falls": scores.falls,
    "worst": scores.worst,
}


def rounded(value: Any) -> Any:
    """The same with six decimals, which is more than 10,000 runs tell."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


def main() -> None:
    """Simulate and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--runs", type=int, default=10_000, help="a cell")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--to", type=Path, default=Path("runs/validation/statistics"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        start = time.perf_counter()
        cells = {"runs": given.runs, "cells": rounded(PARTS[name](given.runs))}
        # A line for each cell.
        text = json.dumps(cells).replace("}, {", "},\n {") + "\n"
        (given.to / f"{name}.json").write_text(text, "utf-8")
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
    print(given.to)


if __name__ == "__main__":
    main()
