"""Writes docs/results/validity.md: the simulated coverage of valid rates, and what of near is left.

    python benchmarks/validity_page.py --simulate 1000    # minutes on one core; kept as JSON
    python benchmarks/validity_page.py --survives 100     # two minutes; kept as JSON
    python benchmarks/validity_page.py --near RUN         # reads a run folder; kept as JSON
    python benchmarks/validity_page.py                    # the page again from what is kept

A run folder needs an arm that draws nearest names and one that draws at random (`near_regime.py`).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import simulated_near
import simulated_validity as simulated
from near_regime import lines_of, survival_of_run

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "benchmarks" / "results" / "validity"
PAGE = ROOT / "docs" / "results" / "validity.md"


def main() -> None:
    """Run what is asked for, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--simulate", type=int, metavar="RUNS", help="runs a design")
    parser.add_argument("--survives", type=int, metavar="RUNS", help="runs of near and random arms")
    parser.add_argument("--near", type=Path, metavar="DIR", help="a run with a near arm")
    parser.add_argument("--name", default="run", help="what the page calls that run")
    args = parser.parse_args()
    KEPT.mkdir(parents=True, exist_ok=True)
    if args.simulate:
        _keep("coverage", [each.as_json() for each in simulated.cells(args.simulate)])
    if args.survives:
        _keep("survives", [each.as_json() for each in simulated_near.cells(args.survives)])
    if args.near:
        known = _kept("near") or {}
        _keep("near", {**known, args.name: survival_of_run(args.near)})
    PAGE.write_text("\n".join(_page()) + "\n", "utf-8")


def _keep(name: str, found: Any) -> None:
    (KEPT / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n", "utf-8")


def _kept(name: str) -> Any:
    path = KEPT / f"{name}.json"
    return json.loads(path.read_text("utf-8")) if path.is_file() else None


def _page() -> list[str]:
    text = (ROOT / "benchmarks" / "results" / "validity" / "page.md").read_text("utf-8")
    before, after = text.split("<!-- coverage -->\n")
    middle, after = after.split("<!-- near -->\n")
    near, end = after.split("<!-- survives -->\n")
    return [
        *before.splitlines(),
        *_coverage(_kept("coverage") or []),
        *middle.splitlines(),
        *lines_of(_kept("near") or {}),
        *near.splitlines(),
        *_survives(_kept("survives") or []),
        *end.splitlines(),
    ]


def _coverage(cells: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| synonyms among names | invalid successes | labels | truth | covers | width |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for alike in (False, True):
        words = "every item once" if not alike else f"{simulated.SEEDS} trials an item, alike"
        found = [each for each in cells if each["alike"] is alike]
        if found:
            lines.append(f"| *{words}, {found[0]['runs']:,} runs a row* | | | | | |")
        lines += [
            f"| {each['share']:.0%} | {_two(each['invalid'])} | {each['n_labels']} | "
            f"{_two(each['truth'])} | {_three(each['coverage'])} | {_two(each['width'])} |"
            for each in found
        ]
    return lines


def _survives(cells: list[dict[str, Any]]) -> list[str]:
    lines = [
        "| synonyms among near names | labels | truth | runs | ten labels an arm | covers | width "
        "| bounds cover |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    lines += [
        f"| {each['share']:.0%} | {each['n_labels']} | {_two(each['truth'])} | {each['runs']} | "
        f"{_two(each['estimated'])} | {_three(each['coverage'])} | {_two(each['width'])} | "
        f"{_two(each['bounded'])} |"
        for each in cells
    ]
    return lines


def _two(value: float) -> str:
    return f"{value:.2f}".removeprefix("0")


def _three(value: float) -> str:
    return f"{value:.3f}".removeprefix("0")


if __name__ == "__main__":
    main()
