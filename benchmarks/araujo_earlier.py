"""What the earlier edition had trained on and found, beside this one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from araujo_cells import named, shown, table
from araujo_judged import LABELS, ORIGINAL, Results, data_of, rows_of

from medstress.results.formats import NONE

FILE = Path(__file__).resolve().parent / "araujo" / "earlier.json"
"""Sizes and main numbers of the earlier edition; its files are in the history."""

WHY = """## What changed since the earlier edition

* Verdicts of the earlier edition on trained models stood on one training seed, and its intervals
  said nothing of other seeds. Now every kind has three, which are drawn with the items.
* Its synonyms were the nearest names by MiniLM, the model under attack, for every mention, acronyms
  as strings. Now listed names come first; verdicts say what they judge.
* Its models trained on synonyms had read most names of the test; *held-out names* are trained on
  none, neither in the copy nor in the originals, of which they read fewer for that.
* A model trained on a copy reads twice as much; *original twice* does so too.
* Claim 1 was called supported by a mean of three attacks each of which contradicts it.
* It tested 20 pairs of a split of its own as if they were the paper's; that is gone.
* To fit three seeds of six kinds of models into hours, this edition trains on fewer sentences and
  tests fewer. Numbers of the two editions therefore differ for that reason as well.
"""


def earlier(results: Results) -> str:
    """The section; numbers of this edition only where they have been run."""
    facts: dict[str, Any] = json.loads(FILE.read_text("utf-8"))
    sizes = [
        [
            f"Table {name[5]}, {LABELS[data_of(name, folds=True)]}",
            f"{then['n_train']:,}",
            f"{then['n_items']:,}",
            "; ".join(
                f"{named(kind)} {len(seeds)}"
                for kind, seeds in then["seeds"].items()
                if kind != "untrained"
            ),
            _size(results, name, "n_train"),
            _size(results, name, "n_items"),
        ]
        for name, then in facts.items()
    ]
    heads = [
        "",
        "earlier: trained on",
        "tested on",
        "training seeds",
        "now: trained on",
        "tested on",
    ]
    found = [line for name, then in facts.items() for line in _numbers(results, name, then)]
    return "\n".join(
        [
            WHY,
            table(heads, sizes),
            table(["", "number", "earlier edition", "now"], found),
        ]
    )


def _numbers(results: Results, name: str, then: Mapping[str, Any]) -> Iterator[list[str]]:
    """Scores of the original models, and what the others recover."""
    run = results.get(name)
    title = f"Table {name[5]}, {LABELS[data_of(name, folds=True)]}"
    measure = "pearson" if "biosses" in name else "f1"
    if int(name[5]) < 4:
        scores = rows_of(run, "scores", model=ORIGINAL)
        clean = shown(scores[0][measure]) if scores else NONE
        yield [title, "original, clean", shown(then["clean"][ORIGINAL]), clean]
        for attack, value in then["after"].items():
            now = [row[f"{measure}_after"] for row in scores if row["attack"] == attack]
            yield [
                title,
                f"original, {named(attack)}",
                shown(value),
                shown(now[0] if now else None),
            ]
    for attack, value in then["recovered"].items():
        rows = rows_of(run, "comparison", attack=attack, model=attack, against=ORIGINAL)
        now = shown(rows[0]["recovered"]) if rows else NONE
        yield [title, f"recovered by training on {named(attack)}", shown(value), now]


def _size(results: Results, name: str, key: str) -> str:
    run = results.get(name)
    return f"{run['facts'][key]:,}" if run else "not run"
