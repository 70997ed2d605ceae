"""Size and first paint of the report of a run of 10,000 trials, and of one of 100,000.

Makes the runs as report_size.py does (no model is asked), renders the report as `medstress report`
does and opens it in Chromium, each time in a new profile:

    python benchmarks/report_page.py                 # both
    python benchmarks/report_page.py --trials 10000
    python benchmarks/report_page.py --page runs/mine/report.html

First paint is the first text that one sees (first-contentful-paint), counted from the start of the
navigation; loaded means that all scripts have run. The median of the repeats is printed, one JSON
line a page, and all is written into benchmarks/results/report_page.json. Exits with 1 where a bound
is missed: 1 s to the first paint, 5 MB for 10,000 trials, 20 MB for 100,000.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine
from report_size import LIMITS, plant

from medstress.cli.app import medstress_cli

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))

RESULTS = ROOT / "benchmarks" / "results" / "report_page.json"
PAINT_SECONDS = 1.0
WORDS, SHARE = 120, 0.4
"""Of a vignette, as in MedQA; of the trials that succeed."""


def measure(page: Path, repeats: int) -> dict[str, Any]:
    """Open a page some times and return its size and the medians of its times."""
    from chromium import chromium

    paints, loads = [], []
    with chromium() as browser:
        for _ in range(repeats):
            context = browser.new_context(viewport={"width": 1440, "height": 900})
            tab = context.new_page()
            tab.goto(page.resolve().as_uri(), wait_until="load")
            tab.wait_for_selector("h1")
            paints.append(tab.evaluate(PAINT))
            loads.append(tab.evaluate("performance.getEntriesByType('navigation')[0].loadEventEnd"))
            context.close()
    return {
        "megabytes": round(page.stat().st_size / 1e6, 3),
        "first_paint_seconds": round(median(paints) / 1000, 3),
        "slowest_first_paint_seconds": round(max(paints) / 1000, 3),
        "loaded_seconds": round(median(loads) / 1000, 3),
        "repeats": repeats,
    }


PAINT = """() => new Promise(resolve => new PerformanceObserver((list, observer) => {
  const [found] = list.getEntriesByName('first-contentful-paint');
  if (found) { observer.disconnect(); resolve(found.startTime); }
}).observe({type: 'paint', buffered: true}))"""


def make_report(folder: Path, n_trials: int) -> tuple[Path, float]:
    """Make a run of so many trials and its report; returns it and the seconds of rendering."""
    run_folder = plant(folder, n_trials, WORDS, SHARE)
    page = folder / "report.html"
    start = time.perf_counter()
    if medstress_cli(["report", str(run_folder), "--out", str(page)]):
        sys.exit(f"no report of {run_folder}")
    return page, time.perf_counter() - start


def main(arguments: argparse.Namespace) -> int:
    """Measure, print and write; returns the exit code."""
    found, missed = [], False
    for page in arguments.page:
        line = {"page": page.name, **measure(page, arguments.repeats)}
        print(json.dumps(line), flush=True)
        missed |= line["first_paint_seconds"] > PAINT_SECONDS
    if arguments.page:
        return int(missed)
    for n_trials in arguments.trials:
        most = LIMITS.get(n_trials)
        with tempfile.TemporaryDirectory() as folder:
            page, seconds = make_report(Path(folder), n_trials)
            line = {
                "trials": n_trials,
                **measure(page, arguments.repeats),
                "rendered_seconds": round(seconds, 1),
                "bound_megabytes": most and most / 1e6,
                "bound_first_paint_seconds": PAINT_SECONDS,
            }
        print(json.dumps(line), flush=True)
        missed |= line["first_paint_seconds"] > PAINT_SECONDS
        missed |= most is not None and line["megabytes"] > most / 1e6
        found.append(line)
    written = {"machine": machine(), "pages": found}
    RESULTS.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return int(missed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, nargs="+", default=list(LIMITS))
    parser.add_argument("--page", type=Path, nargs="+", default=[])
    parser.add_argument("--repeats", type=int, default=5)
    sys.exit(main(parser.parse_args()))
