"""The experiments of the goldens: small, of every kind, without torch and without a network.

They have a label for every data set and attack, and word vectors from a file; `ngram` alone uses
the built-in embedding.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from inputs import (
    CHOOSING,
    DRUGS,
    ILLNESSES,
    IOB,
    PAIRS,
    ROLES,
    RULES,
    SYNONYMS,
    TAGGING,
    pubtator,
    questions,
    vectors,
    vignettes,
)

RUN = ("run", "e.toml", "--out", "run", "--quiet")


@dataclass(frozen=True, kw_only=True)
class Golden:
    """One experiment."""

    files: dict[str, str]
    """What it reads, by path."""
    steps: Sequence[Sequence[str]] = (RUN,)
    """Command lines, each in a process of its own where the first word is `killed`."""
    codes: Sequence[int] = (0,)
    """Exit codes of the steps."""
    run: str = "run"
    """The folder that is read."""


def substitution(
    rest: str, n: int = 8, *, seeds: str = "[0, 1]", embedding: str = "vectors.txt", **made: bool
) -> dict[str, str]:
    """Files of an experiment on questions whose options name drugs."""
    head = f"""[experiment]
name = "golden"
seeds = {seeds}
[[dataset]]
name = "table"
path = "items.jsonl"
label = "cases"
[[entities]]
type = "drugs"
vocabulary = "drugs.txt"
embedding = "{embedding}"
"""
    return {
        "items.jsonl": questions(n, **made),
        "drugs.txt": "\n".join(DRUGS) + "\n",
        "illnesses.txt": "\n".join(ILLNESSES) + "\n",
        "vectors.txt": vectors(24),
        "choosing.py": CHOOSING,
        "rules.jsonl": RULES,
        "e.toml": head + rest,
    }


def victim(name: str, more: str = "") -> str:
    """A Python function as victim."""
    target = f'target = "choosing.py:{name}"'
    return f'[[victim]]\nname = "{name}"\nbackend = "python"\n{target}\n{more}'


def entity(label: str, keys: str, name: str = "entity_substitution") -> str:
    """An attack with its label."""
    return f'[[attack]]\nname = "{name}"\nlabel = "{label}"\n{keys}\n'


SAMPLERS = (
    entity("random", 'sampler = "random"\nbudget = 5')
    + entity("near", "n = -5\nbudget = 5")
    + entity("far", "n = 5\nbudget = 5")
    + entity("nearest", 'sampler = "nearest"\nbudget = 5')
    + entity("farthest", 'sampler = "farthest"\nbudget = 5')
)
LETTER = substitution(
    '[[victim]]\nname = "mock"\nbackend = "mock"\nanswer_by = "letter"\n' + SAMPLERS
)
TEXT = substitution(
    """[[victim]]
name = "mock"
backend = "mock"
answer_by = "text"
prompt = "cloze"
text_score = "per_token"
"""
    + entity("random", 'sampler = "random"\nbudget = 4')
    + entity("near", "n = -5\nbudget = 4")
)
GENERATE = substitution(
    """[[victim]]
name = "written"
backend = "scripted"
model = "rules.jsonl"
answer_by = "generate"
"""
    + entity("random", 'sampler = "random"\nbudget = 4')
    + entity("far", "n = 5\nbudget = 4")
)
FUNCTION = substitution(
    victim("careful")
    + SAMPLERS
    + entity("every name", 'sampler = "exhaustive"')
    + entity("sixteen", 'sampler = "random"\nbudget = 16'),
    12,
)
TARGETED = substitution(
    victim("soft")
    + entity("replaced", 'sampler = "random"\nbudget = 8\ngoal = "replaced"')
    + entity("letter", 'sampler = "random"\nbudget = 8\ngoal = "C"')
    + entity("salient", 'n = 10\nbudget = 8\nvictim_span = "saliency"')
    + entity("marked", 'n = -3\nbudget = 8\nvariants = "mark"\nmax_edit_distance = {tokens = 2}')
    + entity("drawn option", 'sampler = "nearest"\nbudget = 6\nvictim_span = "random"')
)
ZOO = substitution(
    victim("soft")
    + entity("zoo", "budget = 8\ncandidates = 2", "discrete_zoo")
    + entity(
        "important words",
        'budget = 12\nword_ranking = "importance"\nsimilarity_threshold = 0.01',
        "discrete_zoo",
    )
    + entity("targeted", 'budget = 12\ngoal = "replaced"', "discrete_zoo")
)
PUBLISHED = substitution(
    victim("soft")
    + "".join(
        entity(f"{choices} {what}", f'{keys}\nchoices = "{choices}"\nbudget = 6', name)
        for choices in ("as_published", "as_released")
        for what, name, keys in (
            ("near", "entity_substitution", "n = -10"),
            ("random", "entity_substitution", 'sampler = "random"'),
            ("zoo", "discrete_zoo", ""),
        )
    )
)
MANY = substitution(
    """[[entities]]
type = "diseases"
vocabulary = "illnesses.txt"
embedding = "vectors.txt"
"""
    + victim("careful", "parameters = 1e8\n")
    + victim("soft", "parameters = 1e9\n")
    + """[[victim]]
name = "defended"
backend = "python"
target = "choosing.py:soft"
version = "of its own, so that no other answers for it"
wrap = ["shuffled_options", {name = "majority", k = 3}]
"""
    + entity("random", 'sampler = "random"\nbudget = 6')
    + entity("nearest", 'sampler = "nearest"\nbudget = 6')
    + "[analysis]\ntransfer = true\n",
    8,
    seeds="[0, 1, 2]",
    illnesses=True,
)
CONTROLLED = substitution(
    victim("careful") + entity("random", 'sampler = "random"\nbudget = 4'), 8, seeds="[0]"
)
CONTROLLED["e.toml"] = CONTROLLED["e.toml"].replace(
    'name = "golden"\n', 'name = "golden"\ncontrols = true\n', 1
)
PASSAGE = substitution(
    victim("soft", 'prompt = "open_book"\n')
    + entity("in the passage", 'sampler = "random"\nbudget = 5\nfield = "passage"')
    + entity("in the options", 'sampler = "random"\nbudget = 5')
    + entity("without", "", "passage_none")
    + entity("another", "", "passage_other"),
    passages=True,
)
KILLED = substitution(
    victim("killed", "batch_size = 1\n")
    + entity("random", 'sampler = "random"\nbudget = 6')
    + entity("near", "n = -5\nbudget = 6")
)
SHARDS = substitution(
    victim("careful")
    + victim("soft")
    + entity("random", 'sampler = "random"\nbudget = 6')
    + entity("nearest", 'sampler = "nearest"\nbudget = 6'),
    20,
)
NGRAM = substitution(
    victim("careful")
    + entity("near", "n = -5\nbudget = 5")
    + entity("farthest", 'sampler = "farthest"\nbudget = 5'),
    embedding="ngram",
)

SENTENCES = """[experiment]
name = "golden"
seeds = [0, 1]
"""
TAGGED = {
    "data.iob": IOB,
    "tagging.py": TAGGING,
    "synonyms.csv": SYNONYMS,
    "words.txt": "patients\nfever\nsevere bleeding\n",
    "e.toml": SENTENCES
    + """controls = true
[[dataset]]
name = "iob"
path = "data.iob"
label = "sentences"
[[victim]]
name = "tags"
backend = "python"
target = "tagging.py:tags"
"""
    + entity("swap", 'scope = "all"', "swap_noise")
    + entity("keyboard", 'scope = "words"\nwords = "words.txt"', "keyboard_noise")
    + entity("capitals", 'to = "upper"\nscope = "entities"', "case_noise")
    + entity("scan", 'scope = "all"', "ocr_noise")
    + entity("hyphens", 'scope = "all"', "hyphen_noise")
    + entity("short", 'synonyms = "synonyms.csv"', "abbreviation")
    + entity("synonym", 'synonyms = "synonyms.csv"', "synonym")
    + entity("search", 'scope = "all"\nsearch = "greedy"\nbudget = 5', "swap_noise"),
}
DOCUMENT = {
    "docs.txt": pubtator(),
    "tagging.py": TAGGING,
    "synonyms.csv": SYNONYMS,
    "e.toml": SENTENCES
    + """controls = false
[[dataset]]
name = "pubtator"
path = "docs.txt"
label = "abstracts"
types = {Chemical = "Drug"}
"""
    + "".join(
        f'[[victim]]\nname = "{name}"\nbackend = "python"\ntarget = "tagging.py:{name}"\n'
        'labels = {Chemical = "Drug"}\n'
        for name in ("tags", "context")
    )
    + entity("strict", 'synonyms = "synonyms.csv"\nchoice = "drawn"', "synonym")
    + entity("swap", 'scope = "all"', "swap_noise")
    + entity(
        "random search", 'scope = "entities"\nsearch = "random"\nbudget = 4', "keyboard_noise"
    ),
}
SIMILAR = {
    "pairs.tsv": PAIRS,
    "tagging.py": TAGGING,
    "synonyms.csv": SYNONYMS,
    "e.toml": SENTENCES
    + """controls = false
[[dataset]]
name = "pairs"
path = "pairs.tsv"
label = "twins"
"""
    + "".join(
        f'[[victim]]\nname = "{name}"\nbackend = "python"\ntarget = "tagging.py:{name}"\n'
        for name in ("overlap", "lengths")
    )
    + entity("first", 'scope = "all"', "swap_noise")
    + entity("either", 'scope = "all"\nside = "random"\nmax_change = 0.3', "swap_noise")
    + entity("synonym", 'synonyms = "synonyms.csv"\nside = "second"', "synonym")
    + entity("search", 'scope = "all"\nsearch = "greedy"\nbudget = 4', "keyboard_noise"),
}


def medfuzz(test: str) -> dict[str, str]:
    """Files of an experiment in which scripted roles talk."""
    roles = "".join(
        f'[role.{name}]\nbackend = "python"\ntarget = "roles.py:{name}"\n'
        for name in ("attacker", "judge")
    )
    return {
        "items.jsonl": vignettes(),
        "roles.py": ROLES,
        "e.toml": f"""[experiment]
name = "golden"
seeds = [0]
controls = false
[[dataset]]
name = "table"
path = "items.jsonl"
label = "vignettes"
[[victim]]
name = "target"
backend = "python"
target = "roles.py:target"
{roles}"""
        + entity("three attempts", "attempts = 3\nruns = 2", "medfuzz")
        + entity("every item", "attempts = 2\nruns = 1\nattack_all = true", "medfuzz")
        + test,
    }


MEDFUZZ = medfuzz('[test]\nnull = "matched"\nmax_calls = 400\nadjust = "holm"\n')

SHARD = tuple(
    ("run", "e.toml", "--shard", f"{k}/5", "--out", f"part-{k}", "--quiet") for k in range(1, 6)
)
GOLDENS = {
    "letter": Golden(files=LETTER),
    "text": Golden(files=TEXT),
    "generate": Golden(files=GENERATE),
    "function": Golden(files=FUNCTION),
    "targeted": Golden(files=TARGETED),
    "discrete_zoo": Golden(files=ZOO),
    "published": Golden(files=PUBLISHED),
    "many": Golden(files=MANY),
    "controls": Golden(files=CONTROLLED),
    "passage": Golden(files=PASSAGE),
    "tagged": Golden(files=TAGGED),
    "documents": Golden(files=DOCUMENT),
    "pairs": Golden(files=SIMILAR),
    "medfuzz": Golden(files=MEDFUZZ),
    "killed": Golden(files=KILLED, steps=(("killed", *RUN), RUN), codes=(-9, 0)),
    "shards": Golden(
        files=SHARDS,
        steps=(*SHARD, ("merge", *(f"part-{k}" for k in range(1, 6)), "--out", "run")),
        codes=(0,) * 6,
    ),
    "ngram": Golden(files=NGRAM),
}
