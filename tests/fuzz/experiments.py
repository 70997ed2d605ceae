"""The valid experiments that the formats start from: small, without a model, of every kind."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from .mutate import toml_text

NAMES = "name\naspirin\nibuprofen\ntylenol\nwarfarin\nheparin\ninsulin\ncodeine\nmorphine\n"
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
PUBTATOR = (
    "1|t|Aspirin and pain\n1|a|It helps. Pain goes.\n"
    "1\t0\t7\tAspirin\tChemical\tD1\n1\t12\t16\tpain\tDisease\tD2\n1\tCID\tD1\tD2\n\n"
    "2|t|Heparin\n2|a|No entity.\n2\t0\t7\tHeparin\tChemical\tD3\n"
)
BRAT_TEXT = "Aspirin and pain.\nHeparin helps.\n"
BRAT = (
    "T1\tChemical 0 7\tAspirin\nT2\tDisease 12 16\tpain\nR1\tCID Arg1:T1 Arg2:T2\n"
    "T3\tChemical 18 21;21 25\tHep arin\n#1\tAnnotatorNotes T1\tsure\n"
)
PAIRS = "id\ttext_a\ttext_b\tscore\n1\tAspirin helps.\tIt helps.\t3.5\n2\tNo pain.\tPain.\t1\n"
VICTIM = """
def answer(prompts):
    return ["AB"[len(prompt) % 2] for prompt in prompts]

def entities(texts):
    return [["O"] * len(tokens) for tokens in texts]

def similarity(pairs):
    return [0.5 for _ in pairs]
"""


def questions() -> dict[str, Any]:
    """An experiment on questions, with a mock for a victim."""
    return {
        "experiment": {"controls": False, "name": "fuzz", "seeds": [0], "max_failed": 0},
        "dataset": [{"name": "table", "path": "items.jsonl", "on_bad_row": "skip"}],
        "entities": [{"type": "drugs", "vocabulary": "names.csv"}],
        "victim": [{"name": "mock", "backend": "mock", "answer_by": "letter"}],
        "attack": [{"name": "entity_substitution", "sampler": "random", "budget": 2}],
    }


def files() -> dict[str, str]:
    """What lies beside every experiment."""
    return {
        "items.jsonl": json.dumps(QUESTION) + "\n" + json.dumps({**QUESTION, "id": "q2"}) + "\n",
        "names.csv": NAMES,
        "data.iob": IOB,
        "data.pubtator": PUBTATOR,
        "pairs.tsv": PAIRS,
        "victim.py": VICTIM,
    }


def tagged(dataset: str = "iob", file: str = "data.iob") -> dict[str, Any]:
    """An experiment on tagged sentences."""
    return {
        "experiment": {"controls": False, "name": "fuzz", "seeds": [0]},
        "dataset": [{"name": dataset, "path": file, "on_bad_row": "skip"}],
        "victim": [{"name": "v", "backend": "python", "target": "victim.py:entities"}],
        "attack": [{"name": "swap_noise"}],
    }


def pairs() -> dict[str, Any]:
    """An experiment on pairs of sentences."""
    return {
        "experiment": {"controls": False, "name": "fuzz", "seeds": [0]},
        "dataset": [{"name": "pairs", "path": "pairs.tsv", "on_bad_row": "skip"}],
        "victim": [{"name": "v", "backend": "python", "target": "victim.py:similarity"}],
        "attack": [{"name": "case_noise", "max_change": 0.5}],
    }


def command(
    tables: dict[str, Any] | str, changed: dict[str, bytes] | None = None, *extra: str
) -> Callable[[Path], Sequence[str]]:
    """A case's `write`: the experiment, the files beside it, those that are changed."""

    def write(folder: Path) -> Sequence[str]:
        text = tables if isinstance(tables, str) else toml_text(tables)
        for name, content in files().items():
            (folder / name).write_text(content, "utf-8")
        for name, data in (changed or {}).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        if "experiment.toml" not in (changed or {}):
            (folder / "experiment.toml").write_bytes(text.encode("utf-8", "surrogatepass"))
        return ["run", str(folder / "experiment.toml"), "--out", str(folder / "out"), *extra]

    return write
