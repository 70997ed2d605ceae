"""Frozen experiments on tagged texts and sentence pairs, trained models among them."""

from __future__ import annotations

from pathlib import Path

from medstress.store.run_store import RunStore

from .inputs import CHEMICAL_NAMES, IOB, PAIRS, SYNONYMS, TAGGING, pubtator

TAGGED = {
    "data.iob": IOB,
    "tagging.py": TAGGING,
    "synonyms.csv": SYNONYMS,
    "words.txt": "patients\nfever\nsevere bleeding\n",
    "e.toml": """[experiment]
name = "tagged"
seeds = [0, 1]
controls = true
[[dataset]]
name = "iob"
path = "data.iob"
[[victim]]
name = "tags"
backend = "python"
target = "tagging.py:tags"
[[attack]]
name = "swap_noise"
scope = "all"
[[attack]]
name = "keyboard_noise"
scope = "words"
words = "words.txt"
[[attack]]
name = "case_noise"
to = "upper"
scope = "entities"
[[attack]]
name = "ocr_noise"
scope = "all"
[[attack]]
name = "hyphen_noise"
scope = "all"
[[attack]]
name = "abbreviation"
synonyms = "synonyms.csv"
[[attack]]
name = "synonym"
synonyms = "synonyms.csv"
[[attack]]
name = "swap_noise"
label = "search"
scope = "all"
search = "greedy"
budget = 5
""",
    "perturbed.toml": """[experiment]
name = "perturbed"
seeds = [0]
[[dataset]]
name = "iob"
path = "data.iob"
[[attack]]
name = "swap_noise"
scope = "lexicon"
""",
}

DOCUMENTS = {
    "docs.txt": pubtator(),
    "tagging.py": TAGGING,
    "synonyms.csv": SYNONYMS,
    "chemicals.txt": CHEMICAL_NAMES,
    "e.toml": """[experiment]
name = "documents"
seeds = [0, 1]
[[dataset]]
name = "pubtator"
path = "docs.txt"
types = {Chemical = "Drug"}
[[victim]]
name = "tags"
backend = "python"
target = "tagging.py:tags"
labels = {Chemical = "Drug"}
[[victim]]
name = "context"
backend = "python"
target = "tagging.py:context"
labels = {Chemical = "Drug"}
[[attack]]
name = "synonym"
label = "strict"
synonyms = "synonyms.csv"
choice = "drawn"
[[attack]]
name = "synonym"
label = "related"
mode = "related"
synonyms = "synonyms.csv"
vocabulary = "chemicals.txt"
[[attack]]
name = "non_entity_noise"
noise = "swap_noise"
scope = "all"
[[attack]]
name = "keyboard_noise"
label = "random search"
scope = "entities"
search = "random"
budget = 4
""",
}

SIMILAR = {
    "pairs.tsv": PAIRS,
    "tagging.py": TAGGING,
    "synonyms.csv": SYNONYMS,
    "e.toml": """[experiment]
name = "similar"
seeds = [0, 1]
[[dataset]]
name = "pairs"
path = "pairs.tsv"
[[victim]]
name = "overlap"
backend = "python"
target = "tagging.py:overlap"
[[victim]]
name = "lengths"
backend = "python"
target = "tagging.py:lengths"
[[attack]]
name = "swap_noise"
label = "first"
scope = "all"
[[attack]]
name = "swap_noise"
label = "either"
scope = "all"
side = "random"
max_change = 0.3
[[attack]]
name = "synonym"
synonyms = "synonyms.csv"
side = "second"
[[attack]]
name = "keyboard_noise"
label = "search"
scope = "all"
search = "greedy"
budget = 4
""",
}
SIMILAR["perturbed.toml"] = """[experiment]
name = "perturbed"
seeds = [0]
[[dataset]]
name = "pairs"
path = "pairs.tsv"
[[attack]]
name = "swap_noise"
scope = "all"
"""

KINDS = ("original-0", "original-1", "swap_noise-0", "swap_noise-1")
TRAINED = {
    "data.iob": IOB,
    "tagging.py": TAGGING,
    "e.toml": """[experiment]
name = "trained"
seeds = [0]
[[dataset]]
name = "iob"
path = "data.iob"
"""
    + "".join(
        f'[[victim]]\nname = "{kind}"\nbackend = "python"\n'
        f'target = "tagging.py:{kind.replace("-", "_")}"\n'
        for kind in KINDS
    )
    + """[[attack]]
name = "swap_noise"
scope = "all"
[[attack]]
name = "case_noise"
to = "upper"
scope = "all"
""",
}


def say_that_it_trained(root: Path) -> None:
    """Write into the run folder what `medstress train` would have written of its models."""
    curve = [{"epoch": i, "loss": 1 / i, "score": 0.5 + i / 10} for i in (1, 2, 3)]
    notes = {
        "model": "made up",
        "n_train": 40,
        "n_dev": 4,
        "adversarial": [{"name": "swap_noise", "attacks": ["swap_noise"], "redrawn": False}],
        "models": [
            {
                "victim": kind,
                "model": kind[:-2],
                "seed": int(kind[-1]),
                "measure": "f1",
                "curve": curve,
            }
            for kind in KINDS
        ],
        "cautions": [],
    }
    with RunStore(root / "run") as store:
        store.write_manifest({"training": notes})
        store.keep_root()
