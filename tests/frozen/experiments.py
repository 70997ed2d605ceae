"""The frozen experiments: small, of every kind, without torch and without a network."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path

from .capture import Case
from .inputs import (
    CHEMICAL_NAMES,
    CHOOSING,
    IOB,
    NAMES,
    PAIRS,
    SYNONYMS,
    TAGGING,
    pubtator,
    questions,
    speaking,
    tiny,
)

RUN = ("run", "e.toml", "--out", "run", "--quiet")


def drug_questions(n: int, rest: str, name: str = "frozen") -> dict[str, str]:
    """Files of an experiment on questions with drugs as options."""
    head = f"""[experiment]
name = "{name}"
seeds = [0, 1]
[[dataset]]
name = "jsonl"
path = "items.jsonl"
label = "cases"
[[entities]]
type = "drugs"
vocabulary = "names.txt"
embedding = "ngram"
"""
    return {
        "items.jsonl": questions(n),
        "names.txt": NAMES,
        "choosing.py": CHOOSING,
        "e.toml": head + rest,
    }


SUBSTITUTION = drug_questions(
    8,
    """
[[victim]]
name = "careful"
backend = "python"
target = "choosing.py:careful"
batch_size = 3
parameters = 1e8
family = "made up"
[[victim]]
name = "mock"
backend = "mock"
answer_by = "letter"
parameters = 1e9
family = "made up"
group = "generalist"
[[attack]]
name = "entity_substitution"
label = "random"
sampler = "random"
budget = 5
[[attack]]
name = "entity_substitution"
label = "pdws near"
n = -5
budget = 5
[[attack]]
name = "entity_substitution"
label = "pdws far"
n = 5
budget = 5
[[attack]]
name = "entity_substitution"
sampler = "nearest"
budget = 5
[[attack]]
name = "entity_substitution"
sampler = "farthest"
budget = 5
""",
    "substitution",
)

BUDGETS = drug_questions(
    6,
    """
[[victim]]
name = "soft"
backend = "python"
target = "choosing.py:soft"
[[attack]]
name = "entity_substitution"
label = "one query"
sampler = "random"
budget = 1
[[attack]]
name = "entity_substitution"
label = "sixteen queries"
sampler = "random"
budget = 16
[[attack]]
name = "entity_substitution"
label = "every name"
sampler = "exhaustive"
[[attack]]
name = "entity_substitution"
label = "saliency"
sampler = "pdws"
n = 10
victim_span = "saliency"
budget = 8
goal = "replaced"
variants = "mark"
max_edit_distance = {tokens = 2}
[[attack]]
name = "discrete_zoo"
label = "zoo"
budget = 8
candidates = 2
[[attack]]
name = "discrete_zoo"
label = "zoo by importance"
budget = 12
word_ranking = "importance"
similarity_threshold = 0.01
[[attack]]
name = "discrete_zoo"
label = "zoo as published"
choices = "as_published"
budget = 8
""",
    "budgets",
)

TRANSFER = drug_questions(
    8,
    """
[[victim]]
name = "careful"
backend = "python"
target = "choosing.py:careful"
parameters = 1e8
[[victim]]
name = "soft"
backend = "python"
target = "choosing.py:soft"
parameters = 1e9
[[victim]]
name = "defended"
backend = "python"
target = "choosing.py:soft"
version = "a cache of its own, so that no other victim answers first"
wrap = ["shuffled_options", {name = "majority", k = 3}]
[[attack]]
name = "entity_substitution"
label = "random"
sampler = "random"
budget = 8
[[attack]]
name = "entity_substitution"
sampler = "nearest"
budget = 8
[analysis]
transfer = true
universality = [1, 3]
prompt_similarity = true
embedder = "ngram"
""",
    "transfer",
)

TUNING = drug_questions(
    20,
    """
[[victim]]
name = "careful"
backend = "python"
target = "choosing.py:careful"
[[attack]]
name = "entity_substitution"
budget = 4
[tune]
grid = [-30, -5, 5, 30]
share = 0.4
""",
    "tuning",
)

ANSWERING = {
    **drug_questions(
        5,
        """
[[dataset]]
name = "sample"
limit = 4
[[victim]]
name = "by letter"
backend = "mock"
answer_by = "letter"
prompt = {cases = "qstab", default = "medmcqa"}
[[victim]]
name = "by text"
backend = "mock"
answer_by = "text"
prompt = "cloze"
text_score = "per_token"
[[victim]]
name = "written"
backend = "scripted"
model = "rules.jsonl"
answer_by = "generate"
shots = 2
shots_from = "sample"
[[attack]]
name = "entity_substitution"
sampler = "random"
budget = 3
""",
        "answering",
    ),
    "rules.jsonl": '{"pattern": "[a-z]mycin", "reply": "I would say (B)."}\n'
    '{"pattern": "statin", "reply": "hard to tell"}\n'
    '{"pattern": ".", "reply": "The answer is A."}\n',
    "annotated.toml": """[experiment]
name = "annotated"
[[dataset]]
name = "sample"
limit = 4
[[entities]]
type = "drugs"
recogniser = "gazetteer"
vocabulary = "names.txt"
embedding = "ngram"
distance = "euclidean"
""",
    "drawn.toml": drug_questions(
        0,
        """
[[attack]]
name = "entity_substitution"
sampler = "random"
budget = 3
""",
        "drawn",
    )["e.toml"],
    "vignettes.toml": """[experiment]
name = "vignettes"
seeds = [0, 1]
[[dataset]]
name = "jsonl"
path = "items.jsonl"
[[attack]]
name = "swap_noise"
scope = "all"
[[attack]]
name = "keyboard_noise"
scope = "all"
rate = 0.5
""",
}

FAILING = drug_questions(
    8,
    """
[[victim]]
name = "broken"
backend = "python"
target = "choosing.py:broken"
batch_size = 1
[[victim]]
name = "wordy"
backend = "python"
target = "choosing.py:wordy"
parser = "standalone"
[[attack]]
name = "entity_substitution"
sampler = "random"
budget = 4
""",
    "failing",
)

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


def role(*names: str) -> str:
    """Tables of scripted roles."""
    tables = ""
    for name in names:
        kind = "judge" if name in ("judge", "second") else "attacker"
        head = "[[role.judge]]" if kind == "judge" else "[role.attacker]"
        tables += f'{head}\nbackend = "python"\ntarget = "roles.py:{name}"\n'
    return tables


def conversations(rest: str, name: str, seeds: str = "[0]") -> str:
    """An experiment in which a scripted target talks."""
    return f"""[experiment]
name = "{name}"
seeds = {seeds}
[[dataset]]
name = "jsonl"
path = "items.jsonl"
[[victim]]
name = "target"
backend = "python"
target = "roles.py:target"
{rest}"""


MEDFUZZ = {
    "items.jsonl": tiny(5),
    "roles.py": speaking(
        5,
        '{"tiny-0": "teacher", "tiny-3": "farmer"}, wrong=["tiny-4"]',
        ["He works as a clerk.", "!Gone.", "He is a farmer or a teacher."],
    ),
    "e.toml": conversations(
        role("attacker", "judge", "second")
        + """[[attack]]
name = "medfuzz"
attempts = 3
runs = 2
gates = ["options", "insertions", "panel"]
[[attack]]
name = "medfuzz"
label = "marked"
attempts = 2
runs = 1
gate_mode = "mark"
attack_all = true
""",
        "medfuzz",
        "[0, 1]",
    ),
}

SIGNIFICANCE = {
    "items.jsonl": tiny(3),
    "roles.py": speaking(
        3,
        '{"tiny-0": "lighthouse", "tiny-2": "lighthouse"}, admits=True',
        ["He works as a clerk.", "He works as a lighthouse keeper."],
    ),
    "e.toml": conversations(
        role("attacker", "judge")
        + """[[attack]]
name = "medfuzz"
attempts = 2
runs = 1
exemplars = 0
[test]
null = "neutral"
controls = 12
faithfulness_slope = true
slope_samples = 3
""",
        "significance",
    ),
}


def filled_in(column: str, first: str) -> Callable[[Path], None]:
    """What two experts write into the sheet `cases.csv`: the first case otherwise than the rest."""

    def fill(root: Path) -> None:
        with (root / "cases.csv").open(encoding="utf-8", newline="") as stream:
            reader = csv.DictReader(stream)
            rows, names = list(reader), list(reader.fieldnames or ())
        told = []
        for i, row in enumerate(rows):
            for who in ("AB", "CD")[: 1 + i % 2]:
                told.append(row | {"reviewer": who, column: first if i == 0 else "yes"})
        if told:
            told[0] |= {"interest": "clinical", "note": '=odd, but "clear"'}
        with (root / "filled.csv").open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, names)
            writer.writeheader()
            writer.writerows(told)

    return fill


REVIEWED = {
    "items.jsonl": tiny(4),
    "roles.py": speaking(
        4,
        '{"tiny-0": "teacher", "tiny-1": "clerk", "tiny-3": "teacher"}',
        ["He works as a clerk.", "He works as a teacher."],
    ),
    "e.toml": conversations(
        role("attacker") + '[[attack]]\nname = "medfuzz"\nattempts = 2\nruns = 1\n', "reviewed"
    ),
}

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
    import json
    import sqlite3
    from contextlib import closing

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
    with closing(sqlite3.connect(root / "run" / "run.sqlite")) as db:
        db.execute("INSERT INTO manifest VALUES ('training', ?)", (json.dumps(notes),))
        db.commit()


CASES = (
    Case(name="substitution", files=SUBSTITUTION, steps=[RUN]),
    Case(name="budgets", files=BUDGETS, steps=[RUN]),
    Case(name="transfer", files=TRANSFER, steps=[RUN]),
    Case(
        name="tuning",
        files=TUNING,
        steps=[("tune", "e.toml", "--out", "run", "--quiet")],
        runs=("run", "run/tuning"),
        outputs=("run/tune.json",),
    ),
    Case(
        name="answering",
        files=ANSWERING,
        steps=[
            RUN,
            ("annotate", "annotated.toml", "--to", "annotated.jsonl", "--quiet"),
            ("perturb", "drawn.toml", "--to", "drawn.jsonl", "--quiet"),
            ("perturb", "vignettes.toml", "--to", "vignettes.jsonl", "--quiet"),
        ],
        outputs=("annotated.jsonl", "drawn.jsonl", "vignettes.jsonl"),
    ),
    Case(
        name="failing",
        files=FAILING,
        steps=[
            (*RUN, "--set", "experiment.max_queries=25"),
            RUN,
            (*RUN, "--set", "experiment.max_failed=1000"),
        ],
    ),
    Case(
        name="tagged",
        files=TAGGED,
        steps=[
            RUN,
            (
                "perturb",
                "e.toml",
                "--set",
                "attack.search.use=false",
                "--to",
                "all.jsonl",
                "--quiet",
            ),
            ("perturb", "perturbed.toml", "--to", "swapped.iob", "--quiet"),
        ],
        outputs=("all.jsonl", "swapped.iob"),
    ),
    Case(name="documents", files=DOCUMENTS, steps=[RUN]),
    Case(
        name="similar",
        files=SIMILAR,
        steps=[RUN, ("perturb", "perturbed.toml", "--to", "swapped.tsv", "--quiet")],
        outputs=("swapped.tsv",),
    ),
    Case(name="medfuzz", files=MEDFUZZ, steps=[RUN]),
    Case(
        name="significance",
        files=SIGNIFICANCE,
        steps=[
            RUN,
            (
                *("test", "run", "--experiment", "e.toml", "--null", "matched", "--quiet"),
                *("--controls", "9", "--adjust", "holm"),
            ),
        ],
    ),
    Case(
        name="reviewed",
        files=REVIEWED,
        steps=[
            RUN,
            ("review", "run", "--export", "cases.csv"),
            filled_in("human_valid", "no"),
            ("review", "run", "--import", "filled.csv"),
        ],
        outputs=("cases.csv",),
    ),
    Case(name="trained", files=TRAINED, steps=[RUN, say_that_it_trained]),
)
