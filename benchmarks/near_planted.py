"""A run on MedMCQA's disease questions whose second right answers are planted, and labelled.

Half of the shipped disease concepts are hidden from the attack's synonyms, so names of a key's
hidden concept are drawn. The victim picks such a name, rightly; it is fooled by other names with
probability .2 where they are spelt like the key, .05 elsewhere. The labels are the truth, for the
sample that the review room draws (its seed is kept with it).
"""

from __future__ import annotations

import json
import random
from difflib import SequenceMatcher
from hashlib import sha256
from pathlib import Path
from typing import Any

import polars as pl

from medstress.api.run import Run, run
from medstress.core.rows import TrialRow
from medstress.entities.names import normalise
from medstress.entities.synonyms import SynonymGroups, load_synonyms
from medstress.entities.tables import shipped_rows
from medstress.results.load import open_run
from medstress.review.room import make_room
from medstress.review.verdicts import reviews_from
from medstress.store.review_store import ReviewStore

N_ITEMS, N_NAMES, BUDGET, SAMPLE, SEED = 800, 2_000, 4, 150, 0
QUESTIONS = "medmcqa_train_leaner_typed.parquet"
ANNOTATIONS = "medmcqa_train_leaner_choices_annotation.json"
LIKE, UNLIKE = 0.2, 0.05

VICTIM = """
import json
import re
import sys
from pathlib import Path

sys.path.insert(0, {folder!r})
from near_planted import is_fooled, plain

known = json.loads((Path(__file__).parent / "known.json").read_text("utf-8"))
by_length = sorted(known, key=len, reverse=True)
words_of = {{question: set(question.split()) for question in known}}


def answer(prompts):
    return [{{"answer": _letter(prompt)}} for prompt in prompts]


def _likest(text):
    # Questions of several sentences are told in another order.
    words = set(text.split())
    return max(known, key=lambda each: len(words_of[each] & words) / len(words_of[each]))


def _letter(prompt):
    text = plain(prompt)
    one = known[next((each for each in by_length if each in text), None) or _likest(text)]
    listed = re.findall(r"^([A-D]): (.*)$", prompt, re.MULTILINE)
    for letter, name in listed:
        is_new = letter != one["key"] and name not in one["options"]
        if is_new and (name.casefold() in one["same"] or is_fooled(one["id"], one["answer"], name)):
            return letter
    return one["key"]
"""


def hidden(concept: str) -> bool:
    """Return whether the attack's synonyms lack a concept."""
    return sha256(concept.encode()).digest()[0] % 2 == 0


def make(out: Path, data: Path) -> None:
    """Run it, and label the sample of its successes.

    Args:
        out: the run folder; its files lie beside it.
        data: folder of MedMCQA.
    """
    rows = [(concept, name, candidate) for concept, name, _, candidate in shipped_rows("diseases")]
    truth = load_synonyms("default", Path())
    table = pl.read_parquet(data / QUESTIONS)
    keys = {normalise(one["answer"]) for one in table.to_dicts()}
    of_keys = {name for key in keys for name in (*truth.synonyms_of(key), key)}
    others = [name for _, name, candidate in rows if candidate == "1"]
    names = sorted(of_keys | set(random.Random(SEED).sample(others, N_NAMES)))
    folder = out.parent / f"{out.name}-files"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "names.txt").write_text("\n".join(names), "utf-8")
    seen = [f"{concept}\t{name}" for concept, name, _ in rows if not hidden(concept)]
    (folder / "seen.tsv").write_text("\n".join(["concept\tname", *seen]), "utf-8")
    (folder / "victim.py").write_text(VICTIM.format(folder=str(Path(__file__).parent)), "utf-8")
    told = {plain(one["question"]): _told(one, truth) for one in table.to_dicts()}
    (folder / "known.json").write_text(json.dumps(told), "utf-8")
    run(_experiment(folder, data), out=out)
    _label(out, truth)


def plain(text: str) -> str:
    """Return a text without differences of white space."""
    return " ".join(text.split())


def _told(one: dict[str, Any], truth: SynonymGroups) -> dict[str, Any]:
    """Return what the victim knows of one question."""
    return {
        "id": one["id"],
        "key": one["answer_idx"],
        "answer": one["answer"],
        "options": list(one["options"].values()),
        "same": sorted(truth.synonyms_of(one["answer"])),
    }


def is_fooled(item: str, key: str, name: str) -> bool:
    """Return whether a name that is wrong fools the victim."""
    key, name = normalise(key), normalise(name)
    drawn = int.from_bytes(sha256(f"{item}/{name}".encode()).digest()[:4]) / 2**32
    is_like = SequenceMatcher(None, key, name).quick_ratio() > 0.6
    return drawn < (LIKE if is_like else UNLIKE)


def _experiment(folder: Path, data: Path) -> dict[str, Any]:
    attack = {"name": "entity_substitution", "budget": BUDGET}
    return {
        "experiment": {"name": "near-planted", "controls": False},
        "dataset": [
            {
                "name": "medmcqa",
                "path": str(data / QUESTIONS),
                "annotations": str(data / ANNOTATIONS),
                "limit": N_ITEMS,
            }
        ],
        "entities": [
            {
                "type": "diseases",
                "vocabulary": str(folder / "names.txt"),
                "embedding": "ngram",
                "synonyms": str(folder / "seen.tsv"),
            }
        ],
        "victim": [
            {"backend": "python", "name": "planted", "target": f"{folder}/victim.py:answer"}
        ],
        "attack": [
            {**attack, "label": "random", "sampler": "random"},
            {**attack, "label": "nearest", "sampler": "nearest"},
        ],
    }


def is_valid(row: TrialRow, key: str, truth: SynonymGroups) -> bool:
    """Return whether the name of a success is no other name of the key."""
    return normalise(row.replacement or "") not in truth.synonyms_of(key)


def _label(out: Path, truth: SynonymGroups) -> None:
    with open_run(out) as opened, ReviewStore(out) as store:
        room = make_room(opened, store, sample=SAMPLE, seed=SEED, controls=0)
        items = opened.items_by_id()
    rows = {row.trial_id: row for row in Run(out).rows()}
    with ReviewStore(out) as store:
        for name, record in room.records.items():
            row = rows[record["trials"][0]]
            key = items[row.dataset, row.item_id].key_text
            word = "yes" if is_valid(row, key, truth) else "no"
            given = {"case": name, "answers": {"key_right": word}, "note": ""}
            store.add(reviews_from(room, given, "planted", "2026-01-01T00:00:00+00:00", "here"))
    left: dict[str, list[bool]] = {}
    for row in rows.values():
        if row.verdict == "flipped":
            key = items[row.dataset, row.item_id].key_text
            left.setdefault(row.attack, []).append(is_valid(row, key, truth))
    for attack, valid in left.items():
        print(f"{attack}: {sum(valid)} of {len(valid)} successes are valid")
