"""Shows the statistics right by simulation: coverage, sizes, power.

    python benchmarks/simulated.py                     # 10,000 runs a cell, minutes on one core
    python benchmarks/simulated.py --runs 500          # a quick look, printed and not kept
    python benchmarks/simulated.py --only shares names
    python benchmarks/simulated.py --page-only

Numbers go to benchmarks/results/statistics/, and docs/results/statistics.md is written from them.
Every cell has random numbers of its own, so the same command gives the same numbers. What exceeds
its limit is on the page; nothing fails here.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from typing import Any

import simulated_confidence as confidence
import simulated_coverage as coverage
import simulated_names as names
import simulated_slices as slices
import simulated_tests as tests
import simulated_victims as victims
from simulated_page import DATA, PAGE, draw, parts_of, read, render

RUNS = 10_000
FEWER = {"calibration": 1_000, "changes": 4_000}
"""Runs of the parts that are slow; the page says how many."""

PARTS: dict[str, Callable[[int], Any]] = {
    "shares": coverage.shares,
    "pairs": coverage.pairs,
    "losses": coverage.losses,
    "clusters": coverage.clusters,
    "broken": coverage.broken,
    "victims": victims.victim_cells,
    "sizes": tests.sizes_of_tests,
    "families": tests.families,
    "powers": tests.powers,
    "names": names.names,
    "two_way": names.two_way,
    "slices": slices.slices,
    "calibration": confidence.calibrations,
    "changes": confidence.changes,
}


def rounded(value: Any) -> Any:
    """The same with six decimals, which is more than 10,000 runs tell."""
    if isinstance(value, dict):
        return {key: rounded(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(each) for each in value]
    return round(value, 6) if isinstance(value, float) else value


def main() -> None:
    """Simulate, keep the numbers, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--runs", type=int, default=RUNS, help=f"runs a cell (default {RUNS:,})")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--page-only", action="store_true", help="write the page from what is kept")
    asked = parser.parse_args()
    if not asked.page_only:
        _simulate(asked.only, asked.runs)
    if asked.runs == RUNS:
        draw(read())
        PAGE.write_text(render(), "utf-8")


def _simulate(parts: list[str], runs: int) -> None:
    found = {} if runs == RUNS else read()
    DATA.mkdir(parents=True, exist_ok=True)
    for name in parts:
        start, fewer = time.perf_counter(), min(runs, FEWER.get(name, runs))
        found[name] = {"runs": fewer, "cells": rounded(PARTS[name](fewer))}
        print(f"{name}: {time.perf_counter() - start:.0f} s", flush=True)
        if runs == RUNS:
            lines = json.dumps(found[name]).replace("}, {", "},\n {")
            (DATA / f"{name}.json").write_text(lines + "\n", "utf-8")
    if runs != RUNS and set(PARTS) <= set(found):
        for title, text in parts_of(found).items():
            print(f"\n{title}\n{text}")


if __name__ == "__main__":
    main()
