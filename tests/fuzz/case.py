"""One input of the fuzzer, and the valid experiments that inputs start from: small, no model."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from .mutate import toml_text

DONE, FAILED_TRIALS, REFUSED, MISSED = 0, 1, 2, 3
"""Documented codes. The second: more failed trials than `max_failed`; never with the word bug."""
CODES = frozenset({DONE, FAILED_TRIALS, REFUSED})
Write = Callable[[Path], Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A data set read with `on_bad_row = "skip"`: none of its rows may vanish."""

    dataset: str
    """Its registered name."""
    file: str
    given: int
    """Rows that the file holds, counted by other means than the reader's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A valid input with one thing wrong."""

    name: str
    """What is wrong, in a few words."""
    write: Write
    """Writes the files into an empty folder; returns the arguments of `medstress`."""
    codes: frozenset[int] = CODES
    rows: Rows | None = None
    """What is counted, where rows are."""


QUESTION = {
    "id": "q1",
    "question": "A man coughs. What helps?",
    "options": ["aspirin", "tylenol"],
    "answer_idx": "A",
    "mentions": [
        {"field": "A", "start": 0, "end": 7, "type": "drugs"},
        {"field": "B", "start": 0, "end": 7, "type": "drugs"},
    ],
    "year": 2020,
}
IOB = "Aspirin\tB-Chemical\nhelps\tO\n\nSevere\tB-Disease\npain\tI-Disease\n.\tO\n"
PAIRS = "id\ttext_a\ttext_b\tscore\n1\tAspirin helps.\tIt helps.\t3.5\n2\tNo pain.\tPain.\t1\n"
VICTIM = """
def answer(prompts):
    return ["AB"[len(prompt) % 2] for prompt in prompts]

def fooled(prompts):
    return ["AB"["heparin" in prompt or "insulin" in prompt] for prompt in prompts]

def entities(texts):
    return [["O"] * len(tokens) for tokens in texts]

def similarity(pairs):
    return [0.5 for _ in pairs]
"""
FILES = {
    "items.jsonl": json.dumps(QUESTION) + "\n" + json.dumps({**QUESTION, "id": "q2"}) + "\n",
    "names.csv": "name\naspirin\nibuprofen\ntylenol\nwarfarin\nheparin\ninsulin\ncodeine\n",
    "data.iob": IOB,
    "pairs.tsv": PAIRS,
    "victim.py": VICTIM,
}
"""What lies in the folder of every experiment."""


def _experiment(dataset: str, path: str, victim: dict[str, Any], *attacks: Any) -> dict[str, Any]:
    return {
        "experiment": {"controls": False, "name": "fuzz", "seeds": [0], "max_failed": 0},
        "dataset": [{"name": dataset, "path": path, "on_bad_row": "skip"}],
        "victim": [victim],
        "attack": list(attacks),
    }


def questions(dataset: str = "table", path: str = "items.jsonl") -> dict[str, Any]:
    """An experiment on questions, with a mock for a victim."""
    victim = {"name": "mock", "backend": "mock", "answer_by": "letter"}
    attack = {"name": "entity_substitution", "sampler": "random", "budget": 2}
    return {
        **_experiment(dataset, path, victim, attack),
        "entities": [{"type": "drugs", "vocabulary": "names.csv", "embedding": "ngram"}],
    }


def tagged(dataset: str = "iob", path: str = "data.iob") -> dict[str, Any]:
    """An experiment on tagged sentences."""
    victim = {"name": "v", "backend": "python", "target": "victim.py:entities"}
    return _experiment(dataset, path, victim, {"name": "swap_noise"})


def pairs() -> dict[str, Any]:
    """An experiment on pairs of sentences."""
    victim = {"name": "v", "backend": "python", "target": "victim.py:similarity"}
    return _experiment("pairs", "pairs.tsv", victim, {"name": "case_noise", "max_change": 0.5})


def command(
    tables: dict[str, Any], changed: Mapping[str, bytes] | None = None, *extra: str
) -> Write:
    """A case's `write`: the experiment, and files in its folder, changed ones last."""

    def write(folder: Path) -> Sequence[str]:
        texts = {**FILES, "experiment.toml": toml_text(tables)}
        data = {name: text.encode("utf-8", "surrogatepass") for name, text in texts.items()}
        for name, content in {**data, **(changed or {})}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        return ["run", str(folder / "experiment.toml"), "--out", str(folder / "out"), *extra]

    return write
