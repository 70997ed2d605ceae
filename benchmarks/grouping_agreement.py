"""Drug-mention and disease-mention groups by the gazetteer, against the published annotations.

A published question belongs to a group where one of its wrong options has a label among the group's
semantic types; ours, where the gazetteer finds a mention of the group in one. Compared are
questions, and wrong options one by one. Prints Markdown; only counts, no text of any question:

    python benchmarks/grouping_agreement.py --data FOLDER_WITH_qa
"""

from __future__ import annotations

import argparse
import os
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from medstress.core.items import Question
from medstress.datasets import medmcqa, medqa
from medstress.datasets.source import DatasetOptions
from medstress.entities.grouping import typed_options
from medstress.entities.recognisers.gazetteer import Gazetteer, shipped_sources
from medstress.entities.recognisers.recogniser import recognise
from medstress.entities.semantic_types import GROUPS, types_of


def main() -> None:
    """Read both data sets, compare, print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=os.environ.get("MEDSTRESS_DATA"))
    folder = parser.parse_args().data
    if folder is None or not (Path(folder) / "qa").is_dir():
        parser.error("give --data, or set MEDSTRESS_DATA: the folder that holds qa/")
    qa = Path(folder) / "qa"
    started = time.process_time()
    gazetteer = Gazetteer(shipped_sources())
    print(f"{gazetteer.spec()['n_names']:,} names, built in {_since(started)} s of CPU\n")
    sets = {
        "MedQA, part of train": medqa.load(
            DatasetOptions(
                path=qa / "medqa_train_part.jsonl",
                annotations=qa / "medqa_usmle_train_choices_annotation.json",
                split="train",
            )
        ).questions,
        "MedMCQA, typed part of train": medmcqa.load(
            DatasetOptions(
                path=qa / "medmcqa_train_leaner_typed.parquet",
                annotations=qa / "medmcqa_train_leaner_choices_annotation.json",
            )
        ).questions,
    }
    lines = []
    for label, published in sets.items():
        started = time.process_time()
        ours = annotate(published, gazetteer)
        print(f"{label}: {len(ours):,} questions annotated in {_since(started)} s of CPU")
        lines += list(table(label, published, ours))
    head = ["data", "group", "unit", "n", "both", "published only", "gazetteer only", "neither"]
    head += ["accuracy", "precision", "recall", "kappa"]
    print("\n| " + " | ".join(head) + " |\n| " + " | ".join("---" for _ in head) + " |")
    print("\n".join(lines))


def annotate(published: tuple[Question, ...], gazetteer: Gazetteer) -> tuple[Question, ...]:
    """The same questions with our mentions instead of the published ones."""
    bare = [replace(item, mentions=()) for item in published]
    return recognise(bare, gazetteer, types_of(list(GROUPS)))


def table(label: str, published: tuple[Question, ...], ours: tuple[Question, ...]) -> Iterator[str]:
    """Two rows a group: questions, wrong options."""
    for group in GROUPS:
        types = types_of(group)
        questions: Counter[tuple[bool, bool]] = Counter()
        options: Counter[tuple[bool, bool]] = Counter()
        for theirs, mine in zip(published, ours, strict=True):
            one, other = typed_options(theirs, types), typed_options(mine, types)
            questions[bool(one), bool(other)] += 1
            for letter in theirs.letters.replace(theirs.key, ""):
                options[letter in one, letter in other] += 1
        for unit, counts in (("questions", questions), ("wrong options", options)):
            cells = [label, group, unit, *agreement(counts)]
            yield "| " + " | ".join(cells) + " |"


def agreement(counts: Counter[tuple[bool, bool]]) -> list[str]:
    """Counts of the confusion table, then accuracy, precision, recall and Cohen's kappa."""
    both, missed = counts[True, True], counts[True, False]
    extra, neither = counts[False, True], counts[False, False]
    n = both + missed + extra + neither
    observed = (both + neither) / n
    chance = ((both + missed) * (both + extra) + (neither + extra) * (neither + missed)) / n**2
    rates = [observed, both / (both + extra), both / (both + missed)]
    rates.append((observed - chance) / (1 - chance))
    return [f"{count:,}" for count in (n, both, missed, extra, neither)] + [
        f"{rate:.3f}" for rate in rates
    ]


def _since(started: float) -> str:
    return f"{time.process_time() - started:.1f}"


if __name__ == "__main__":
    main()
