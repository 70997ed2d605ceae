"""Runs on the published data sets, and the calls and tokens that their trials consumed.

The data are not part of this repository: they are looked for in --data, in the environment
variable MEDSTRESS_DATA, or in shared/data beside the repository.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
from pathlib import Path
from typing import Any

from common import at_least, published_data

from medstress.api.run import Run, run
from medstress.backends.local.transformers import TransformersBackend
from medstress.core.calls import Score
from medstress.core.items import Candidate
from medstress.experiment.prepare import Watcher, opened_victims, prepare
from medstress.experiment.run import execute
from medstress.store.codec import decode_edits
from medstress.store.prompts import Prompts
from medstress.store.reader import RunReader

DATASETS = {
    "medqa": (
        "qa/medqa_train_part.jsonl",
        "qa/medqa_usmle_train_choices_annotation.json",
        "qstab",
    ),
    "medmcqa": (
        "qa/medmcqa_train_leaner_typed.parquet",
        "qa/medmcqa_train_leaner_choices_annotation.json",
        "medmcqa",
    ),
}
"""Name -> (questions, annotations, prompt)."""


def arguments(description: str | None, n_items: int) -> argparse.ArgumentParser:
    """The arguments all benchmarks on these data have."""
    parser = argparse.ArgumentParser(description=description)
    # A default that is text is read as well, so that missing data are told before all else.
    data = os.environ.get(
        "MEDSTRESS_DATA", str(Path(__file__).resolve().parents[2] / "shared/data")
    )
    parser.add_argument(
        "--data", type=published_data, default=data, help="folder with qa/ and vocab/"
    )
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=list(DATASETS))
    parser.add_argument("--items", type=at_least(1), default=n_items, help="of each data set")
    parser.add_argument("--budget", type=at_least(1), default=8)
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("--dtype", default="float32", choices=("float32", "bfloat16"))
    return parser


VOCABULARIES = {
    "drugs": ("FDA_Approved.csv", 1, 0),
    "diseases": ("CTD_unique_disease_names.csv", 0, 1),
}
"""Type -> (file, column, lines before the first name)."""


def settings(name: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """The experiment: drugs and diseases, one victim.

    With `exhaustive` on as many names as the budget allows every item has all its queries, as those
    of a good model do.

    Args:
        name: of the data set.
        given: the arguments.
        folder: where the vocabularies of a few names are written.
    """
    questions, annotations, prompt = DATASETS[name]
    dataset = {
        "name": name,
        "path": str(given.data / questions),
        "annotations": str(given.data / annotations),
        "limit": given.items,
    }
    victim = {
        "backend": "transformers",
        "model": given.model,
        "dtype": given.dtype,
        "answer_by": "letter",
        "prompt": prompt,
    }
    return {
        "experiment": {"controls": False, "name": name, "seeds": [0]},
        "dataset": [dataset],
        "entities": [vocabulary(kind, given, folder) for kind in VOCABULARIES],
        "victim": [victim],
        "attack": [{"name": "entity_substitution", "sampler": "exhaustive"}],
    }


def vocabulary(kind: str, given: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """As many names of a type as the budget allows, evenly from the list.

    None is drawn by its distance, so that the cheapest vectors will do.
    """
    file, column, skipped = VOCABULARIES[kind]
    with (given.data / "vocab" / file).open(encoding="utf-8", newline="") as stream:
        names = [row[column] for row in csv.reader(stream)][skipped:]
    chosen = [names[i * len(names) // given.budget] for i in range(given.budget)]
    folder.mkdir(parents=True, exist_ok=True)
    written = folder / f"{kind}-{given.budget}.txt"
    written.write_text("".join(f"{name}\n" for name in chosen), "utf-8")
    return {"type": kind, "embedding": "ngram", "vocabulary": str(written)}


def run_dataset(
    name: str, given: argparse.Namespace, folder: Path, questions: Path
) -> dict[str, Any]:
    """Run one data set with the real scheduler; returns its counted tokens and seconds.

    The seconds are those of the run alone: the model is loaded, its sharing path checked and its
    weights packed before.

    Args:
        name: of the data set.
        given: the arguments.
        folder: of the run.
        questions: what `answered_questions` wrote.
    """
    wanted = settings(name, given, folder.parent)
    wanted["dataset"] = [{"name": "table", "path": str(questions)}]
    prepared = prepare(wanted)
    with opened_victims(prepared, lambda _: None):
        for victim in prepared.victims:
            if isinstance(victim.backend, TransformersBackend):
                assert victim.backend.path  # asked for the first time it checks
        execute(prepared, folder, watcher=Watcher())
    performance: dict[str, Any] = Run(folder).manifest()["performance"]
    return performance


def answered_questions(name: str, given: argparse.Namespace, folder: Path) -> Path:
    """Write the attackable questions of a data set with what the model answers as their keys.

    What is wrong at baseline is not attacked, and a model that knows nothing is wrong on three of
    four questions.

    Args:
        name: of the data set.
        given: the arguments.
        folder: where the questions are written.
    """
    once = argparse.Namespace(**{**vars(given), "budget": 1})
    asked = settings(name, once, folder)
    done = run(asked, folder / "clean")
    answers = {
        row["item_id"]: row["answer_before"]
        for row in done.trials().iter_rows(named=True)
        if row["answer_before"]
    }
    reader = RunReader(folder / "clean")
    try:
        items = [item for _, item in reader.items().values() if item.id in answers]
    finally:
        reader.close()
    written = folder / "questions.jsonl"
    with written.open("w", encoding="utf-8") as stream:
        for item in items:
            row = {
                "id": item.id,
                "question": item.question,
                "options": list(item.options),
                "answer_idx": answers[item.id],
                "mentions": [
                    {"field": m.field, "start": m.start, "end": m.end, "type": m.type}
                    for m in item.mentions
                    if m.field in item.letters
                ],
            }
            stream.write(json.dumps(row) + "\n")
    return written


def consumed_calls(folder: Path) -> dict[int, dict[Score, None]]:
    """The distinct calls of a run that were consumed, all but early work, by item, in order."""
    reader = RunReader(folder)
    found: dict[int, dict[Score, None]] = {}
    try:
        prompts, items = Prompts(reader.manifest), reader.items()
        edits: dict[tuple[int, str, int | None], str | None] = {}
        for row in reader.exchanges():
            if row.purpose == "ahead":
                continue
            place = (row.trial, row.purpose, row.query)
            # Only the first call of a query carries its edits.
            edits = {place: edits.get(place, row.edits)}
            known, (dataset, item) = edits[place], items[row.item]
            candidate = Candidate(item=item, edits=decode_edits(known) if known else ())
            call = prompts.call(row.victim, dataset, candidate, row.call or 0)
            assert isinstance(call, Score)
            found.setdefault(row.item, {})[call] = None
    finally:
        reader.close()
    return found
