"""Size and first paint of the report of a run of 10,000 trials, and of one of 100,000.

Makes the runs with an instant victim that errs on six of a hundred prompts, so that a fifth of the
attacks succeed (cases of 120 words, four attacks and their controls, two victims), renders the
report as `medstress report` does and opens it in Chromium, each time in a new profile:

    python benchmarks/report_page.py                 # both; about ten minutes on 2 cores
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
import random
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median
from typing import Any

from bench import machine

ROOT = Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "scripts"))

RESULTS = ROOT / "benchmarks" / "results" / "report_page.json"
BOUNDS_MB = {10_000: 5.0, 100_000: 20.0}
PAINT_SECONDS = 1.0
ATTACKS = (-20, None, 5, 20)
"""Exponents n; None is the random draw."""
VICTIMS = ("first", "second")
TRIALS_AN_ITEM = 2 * len(ATTACKS) * len(VICTIMS)
"""An attack and its control, for every victim."""
N_NAMES = 1000
VICTIM = """
import re
from hashlib import sha256


def answer(prompts):
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    key = "ABCD"[int(re.search(r"case ([0-9]+)", prompt)[1]) % 4]
    luck = sha256(re.sub(r"\\W+", "", prompt).lower().encode()).digest()[0] / 256
    best = key if luck > 0.06 else "ABCD"["BCDA".index(key)]
    return {"scores": {letter: 0.55 if letter == best else 0.15 for letter in "ABCD"}}
"""
WORDS = (
    "a man woman child of old years comes to the clinic with pain in left right chest knee back "
    "after two three days weeks fever cough nausea and no history smoking takes daily tablets for "
    "pressure sugar sleep examination shows soft abdomen clear lungs normal gait mild swelling "
    "blood count within limits ultrasound reveals small stone scan unremarkable she he reports"
)


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
    import medstress as ms

    (folder / "victim.py").write_text(VICTIM, "utf-8")
    names = sorted({_name(random.Random(i)) for i in range(2 * N_NAMES)})[:N_NAMES]
    (folder / "names.txt").write_text("".join(f"{name}\n" for name in names), "utf-8")
    with (folder / "questions.jsonl").open("w", encoding="utf-8") as file:
        for row in _questions(-(-n_trials // TRIALS_AN_ITEM), names):
            file.write(json.dumps(row) + "\n")
    victim = {"backend": "python", "target": f"{folder / 'victim.py'}:answer"}
    attack = {"name": "entity_substitution", "budget": 4}
    run = ms.run(
        {
            "experiment": {"name": f"trials-{n_trials}", "seeds": [0], "flip_check": False},
            "dataset": {"name": "jsonl", "path": str(folder / "questions.jsonl")},
            "entities": {
                "type": "drugs", "vocabulary": str(folder / "names.txt"), "embedding": "ngram",
            },
            "victim": [{"name": name, "version": name, **victim} for name in VICTIMS],
            "attack": [
                attack | ({"sampler": "random"} if n is None else {"sampler": "pdws", "n": n})
                for n in ATTACKS
            ],
        },
        folder / "run",
    )  # fmt: skip
    page = folder / "report.html"
    start = time.perf_counter()
    page.write_text(run.report(), encoding="utf-8")
    return page, time.perf_counter() - start


def _questions(n: int, names: list[str]) -> Iterator[dict[str, Any]]:
    for i in range(n):
        draw = random.Random(i)
        options = draw.sample(names, 4)
        yield {
            "id": f"case-{i}",
            "context": " ".join(draw.choice(WORDS.split()) for _ in range(110)) + ".",
            "stem": f"Which drug is best in case {i}?",
            "options": options,
            "answer_idx": "ABCD"[i % 4],
            "mentions": [
                {"field": letter, "start": 0, "end": len(option), "type": "T121"}
                for letter, option in zip("ABCD", options, strict=True)
            ],
        }


def _name(draw: random.Random) -> str:
    syllables = ("ba", "cor", "dex", "flu", "gra", "hep", "ivo", "lam", "met", "nor", "pra", "zol")
    return "".join(draw.choice(syllables) for _ in range(3)) + draw.choice(("in", "ol", "ide"))


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
        with tempfile.TemporaryDirectory() as folder:
            page, seconds = make_report(Path(folder), n_trials)
            line = {
                "trials": n_trials,
                **measure(page, arguments.repeats),
                "rendered_seconds": round(seconds, 1),
                "bound_megabytes": BOUNDS_MB.get(n_trials),
                "bound_first_paint_seconds": PAINT_SECONDS,
            }
        print(json.dumps(line), flush=True)
        most = line["bound_megabytes"]
        missed |= line["first_paint_seconds"] > PAINT_SECONDS
        missed |= most is not None and line["megabytes"] > most
        found.append(line)
    written = {"machine": machine(), "pages": found}
    RESULTS.write_text(json.dumps(written, indent=1) + "\n", encoding="utf-8")
    return int(missed)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, nargs="+", default=list(BOUNDS_MB))
    parser.add_argument("--page", type=Path, nargs="+", default=[])
    parser.add_argument("--repeats", type=int, default=5)
    sys.exit(main(parser.parse_args()))
