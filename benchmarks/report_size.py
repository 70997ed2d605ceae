"""Measure reports of large runs: bytes of page and cases, seconds, peak memory.

Writes a run folder whose trials are made up (no model is asked), with the questions, edits and
answers of a real one's size, and renders its report.

    python benchmarks/report_size.py --trials 10000
    python benchmarks/report_size.py --trials 100000
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import sqlite3
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from medstress.api.run import run
from medstress.report.cases.building import cases_of
from medstress.report.cases.embedding import embed
from medstress.report.page import render_report
from medstress.results.load import open_run
from medstress.results.rows import trial_rows
from medstress.store.chain import RUN_CHAIN, link
from medstress.store.trial_digest import finish
from medstress.summary.summary import summarise_run

LIMITS = {10_000: 5_000_000, 100_000: 20_000_000}
"""Trials -> most bytes of the report."""
TEXT = """patient presents with fever cough fatigue pain history of hypertension diabetes smoking
examination reveals tenderness murmur oedema laboratory studies show elevated creatinine potassium
leucocytes the most appropriate next step in management is which following"""
WORDS = tuple(TEXT.split())
FIRST = ("abi", "bela", "cori", "dana", "evo", "fluda", "gra", "hepi", "ivo", "jura", "kelo")
LAST = ("mycin", "prazole", "statin", "olol", "pril", "sartan", "azepam", "cillin")
NAMES = tuple(a + b for b in LAST for a in FIRST)
VICTIM = """
def answer(prompts):
    return ["A"] * len(prompts)
"""
ATTACKS = ("random", "nearest", "farthest")


def questions(n: int, words: int) -> Iterator[dict[str, Any]]:
    """Yield questions with four drugs and a vignette of as many words."""
    draw = random.Random(0)
    for i in range(n):
        options = [f"{draw.choice(NAMES)} {i}{letter}" for letter in "abcd"]
        yield {
            "id": f"made-up-{i:05}",
            "context": " ".join(draw.choices(WORDS, k=words)) + ".",
            "stem": f"What treats case {i}?",
            "options": options,
            "answer_idx": "A",
            "mentions": [
                {"field": letter, "start": 0, "end": len(text), "type": "T121"}
                for letter, text in zip("ABCD", options, strict=True)
            ],
        }


def plant(folder: Path, trials: int, words: int, share: float) -> Path:
    """Run a small experiment, and make its trials many.

    Args:
        folder: an empty folder.
        trials: how many, over three attacks and four seeds.
        words: of a vignette.
        share: of trials that succeed.

    Returns:
        The run folder.
    """
    n_items = -(-trials // (len(ATTACKS) * 4))
    rows = list(questions(n_items, words))
    (folder / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "names.txt").write_text("\n".join(NAMES))
    (folder / "victim.py").write_text(VICTIM)
    experiment = {
        "experiment": {"name": "large", "controls": False, "seeds": [0, 1, 2, 3]},
        "dataset": {"name": "jsonl", "path": str(folder / "items.jsonl"), "label": "made up"},
        "entities": {
            "type": "drugs",
            "vocabulary": str(folder / "names.txt"),
            "embedding": "ngram",
        },
        "victim": {
            "name": "made up",
            "backend": "python",
            "target": f"{folder / 'victim.py'}:answer",
        },
        "attack": [
            {
                "name": "entity_substitution",
                "label": sampler,
                "sampler": sampler,
                "budget": 8,
            }
            for sampler in ATTACKS
        ],
    }
    run(experiment, folder / "run", limit=4)
    _multiply(folder / "run" / "run.sqlite", rows, trials, share)
    return folder / "run"


def _multiply(path: Path, rows: list[dict[str, Any]], trials: int, share: float) -> None:
    """Replace the trials of a run by made-up ones."""
    draw = random.Random(1)
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode = DELETE")
    dataset, mentions = "made up", [[letter, 0, 1, "T121"] for letter in "ABCD"]
    arms = [arm for (arm,) in db.execute("SELECT id FROM arms ORDER BY id")]
    for table in (
        *("findings", "verdicts", "exchanges", "trials", "answers", "items", "commits"),
        *("interrupted", "dispatched"),
    ):
        db.execute(f"DELETE FROM {table}")
    for i, row in enumerate(rows):
        body = {
            "id": row["id"], "context": row["context"], "stem": row["stem"],
            "options": row["options"], "key": "A", "mentions": mentions, "metadata": {},
        }  # fmt: skip
        values = (i + 1, dataset, row["id"], f"blake2b-128:{i:032x}", json.dumps(body))
        db.execute("INSERT INTO items VALUES (?, ?, ?, ?, ?)", values)
    answers = [
        json.dumps(["c", None, None, [0.1 + 0.6 * (k == j) for k in range(4)]]) for j in range(4)
    ]
    for j, answer in enumerate(answers):
        db.execute(
            "INSERT INTO answers VALUES (?, ?, ?, ?, 0.01, 100, 1)",
            (j + 1, j.to_bytes(16, "big"), 1, answer),
        )
    for number in range(1, trials + 1):
        item = (number - 1) // len(arms) % len(rows)
        _plant_trial(db, number, arms[number % len(arms)], item + 1, rows[item], draw, share)
    link(db, RUN_CHAIN)
    db.commit()
    db.close()


def _plant_trial(
    db: sqlite3.Connection,
    number: int,
    arm: int,
    item: int,
    row: dict[str, Any],
    draw: random.Random,
    share: float,
) -> None:
    """Insert one trial with its queries."""
    flipped, wrong = draw.random() < share, draw.choice("BCD")
    asked = draw.randint(1, 8) if flipped else 8
    end = len(row["options"]["ABCD".index(wrong)])
    edits = [[[wrong, 0, end, draw.choice(NAMES).capitalize()]] for _ in range(asked)]
    scores = {letter: [-0.4 if x == letter else -2.3 for x in "ABCD"] for letter in "ABCD"}
    result = {
        "before": ["A", scores["A"], None, None], "n_asked": asked, "n_unreadable": 0,
        "n_unchanged": 0, "n_ties": 0, "n_excluded": {"equal_to_option": 3},
    }  # fmt: skip
    if flipped:
        result |= {
            "after": [wrong, scores[wrong], None, None], "edits": edits[-1],
            "first_success": asked, "first_unrefuted_success": asked, "repeats": True,
            "validity_reason": "rule",
        }  # fmt: skip
    trial = f"blake2b-128:{draw.getrandbits(128):032x}"
    db.execute("INSERT INTO trials VALUES (?, ?, ?, ?, 0)", (number, trial, arm, item))
    calls = [("baseline", 0, 1, None)] + [
        ("attack", i + 1, 1, json.dumps(edit)) for i, edit in enumerate(edits)
    ]
    if flipped:
        calls[-1] = (*calls[-1][:2], "ABCD".index(wrong) + 1, calls[-1][3])
    db.executemany(
        "INSERT INTO exchanges VALUES (?, 0, ?, 'victim', ?, ?, 0, ?, NULL, ?, NULL, NULL)",
        [(number, seq, *call) for seq, call in enumerate(calls)],
    )
    finish(db, number, 0, "flipped" if flipped else "held", json.dumps(result))


def measure(folder: Path) -> dict[str, Any]:
    """Render the report of a run folder and return sizes, seconds and peak memory."""
    found: dict[str, Any] = {}
    with open_run(folder) as stored:
        started = time.perf_counter()
        summary = summarise_run(stored)
        found["summary_seconds"] = time.perf_counter() - started
        cases = cases_of(stored)
        started = time.perf_counter()
        page = render_report(summary, trial_rows(stored), stored.manifest, cases=cases)
        found["page_seconds"] = time.perf_counter() - started
        started = time.perf_counter()
        held = embed(cases, "salt")
        found["seconds_of_its_cases"] = time.perf_counter() - started
    found |= {
        "trials": held.n_trials,
        "successes": held.n_successes,
        "cases": len(held.trials),
        "cases_bytes": len(held.script.encode()),
        "page_bytes": len(page.encode()),
        "notes": list(held.notes),
        "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }
    return found


def main() -> int:
    """Measure one run; exit 1 if its report is larger than it may be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trials", type=int, default=10_000)
    parser.add_argument("--words", type=int, default=120, help="of a vignette (MedQA: about 120)")
    parser.add_argument("--share", type=float, default=0.4, help="of trials that succeed")
    parser.add_argument("--keep", metavar="FOLDER", help="write the run there and keep it")
    args = parser.parse_args()
    with TemporaryDirectory() as temporary:
        folder = Path(args.keep or temporary)
        folder.mkdir(parents=True, exist_ok=True)
        found = measure(plant(folder, args.trials, args.words, args.share))
    print(json.dumps(found))
    limit = min((most for n, most in LIMITS.items() if args.trials <= n), default=None)
    return int(limit is not None and found["page_bytes"] > limit)


if __name__ == "__main__":
    sys.exit(main())
