"""Frozen experiments on questions whose options name drugs."""

from __future__ import annotations

from .inputs import CHOOSING, NAMES, questions


def drug_questions(n: int, rest: str, name: str = "frozen") -> dict[str, str]:
    """Files of an experiment on questions with drugs as options."""
    head = f"""[experiment]
controls = false
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
controls = false
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
controls = false
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
