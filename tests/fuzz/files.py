"""Data sets, tables of names and experiment files with one thing wrong."""

import gzip
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from medstress.datasets.questions import question_from_row

from .case import CODES, IOB, MISSED, PAIRS, QUESTION, Case, Rows, command, pairs, questions, tagged
from .mutate import (
    TEXTS,
    TOML_RAW,
    encoded,
    json_bytes,
    json_text,
    mutated,
    mutated_lines,
    toml_text,
)

_TWO = ["aspirin", "gout"]
_LISTED = [{"aid": n, "atext": text} for n, text in enumerate(_TWO, start=1)]
_INNER = {"Question": "What?", "Options": {"A": "aspirin", "B": "gout"}, "Correct Option": "B"}
_MENTIONS = {"mentions": [{"field": "A", "start": 0, "end": 7, "type": "drugs"}]}
"""Without them every case would build the gazetteer, which takes seconds."""
FORMS: list[list[dict[str, Any]]] = [
    [{"question": "What helps?", "choices": _TWO, "answer": n, **_MENTIONS} for n in (0, 1)],
    [{"qid": n, "qtext": f"What {n}?", "ra": n, "answers": _LISTED, **_MENTIONS} for n in (1, 2)],
    [{"id": f"q{n}", "data": _INNER, **_MENTIONS} for n in (1, 2)],
    [
        {
            "question": "What?",
            "choices": {"text": _TWO, "label": ["1", "2"]},
            "answerKey": "1",
            **_MENTIONS,
        }
    ],
    [{"question": "What?", "options": "['aspirin', 'gout']", "answer": "gout", **_MENTIONS}],
]
TOKEN_ROWS = [
    {"id": "0", "document_id": "1", "tokens": ["Aspirin", "."], "ner_tags": ["B-Chemical", "O"]},
    {"id": "1", "document_id": "2", "tokens": ["No", "pain"], "ner_tags": ["O", "B-Disease"]},
]
ANNOTATIONS = [{"A": {"text": ["aspirin"], "labels": ["T121"], "boundaries": [[0, 7]]}}]
_ITEM = question_from_row(QUESTION)
_EDIT = {"field": "B", "start": 0, "end": 7, "replacement": "heparin"}
_TRIAL = {"arm": "random", "trial_id": "t", "seed": 0, "repeat": 0, "verdict": "held"}
ATTACK_SET = {
    "format": 1,
    "medstress": "0",
    "source": dict.fromkeys(
        ("experiment", "fingerprint", "started", "victim", "model", "model_hash"), "x"
    ),
    "n_items": 2,
    "n_trials": 2,
    "n_queries": 2,
    "arms": [
        {
            "label": "random",
            "control": None,
            "spec": {"name": "entity_substitution", "goal": "untargeted"},
            "is_blind": True,
            "changes_evidence": False,
        }
    ],
}
ATTACKED_ROWS = [
    {
        **QUESTION,
        "id": f"q{n}",
        "stem": _ITEM.stem,
        "context": _ITEM.context,
        "item_hash": _ITEM.hash,
        "metadata": "{}",
        "attacked": [{**_TRIAL, "queries": [{"query": 1, "flipped": False, "edits": [_EDIT]}]}],
        "attack_set": json_text(ATTACK_SET),
    }
    for n in (1, 2)
]
MEDQA = {
    **{"id": "q1", "train_index": 0, "question": "A man coughs. What helps?", "answer": "aspirin"},
    **{"options": {"A": "aspirin", "B": "heparin"}, "meta_info": "step1", "answer_idx": "A"},
}
_COLUMN = '"[{""field"": ""B"", ""start"": 0, ""end"": 7, ""type"": ""drugs""}]"'
CSV = (
    "question,A,B,C,answer,mentions\n"
    f"A man coughs. What helps?,aspirin,heparin,insulin,A,{_COLUMN}\n"
    f'"Pain, and ""gout""?",codeine,heparin,insulin,C,{_COLUMN}\nAnd 7?,1,2,3,B,\n'
)
PUBTATOR = (
    "1|t|Aspirin and pain\n1|a|It helps. Pain goes.\n"
    "1\t0\t7\tAspirin\tChemical\tD1\n1\t12\t16\tpain\tDisease\tD2\n1\tCID\tD1\tD2\n\n"
    "2|t|Heparin\n2|a|No entity.\n2\t0\t7\tHeparin\tChemical\tD3\n"
)
BRAT = (
    "T1\tChemical 0 7\tAspirin\nT2\tDisease 12 16\tpain\nR1\tCID Arg1:T1 Arg2:T2\n"
    "T3\tChemical 18 21;21 25\tHep arin\n#1\tAnnotatorNotes T1\tsure\n"
)
VOCABULARIES = {
    "n.csv": "concept,name\n1,aspirin\n1,ASA\n2,heparin\n",
    "n.tsv": "concept\tname\n1\taspirin\n1\tASA\n2\theparin\n",
    "n.txt": "aspirin\nheparin\n",
    "n.obo": (
        'format-version: 1.2\n\n[Term]\nid: X:1\nname: aspirin\nsynonym: "ASA" EXACT []\n\n'
        '[Term]\nid: X:2\nname: heparin {a="b"} ! c\nis_obsolete: true\n'
    ),
    "n.RRF": "C1|ENG|P|L1|PF|S1|Y|A1||M1|D1|MSH|MH|D1|aspirin|0|N|256|\n",
    "n.parquet": "PAR1 not really PAR1",
}


def _case(
    rng: Random,
    name: str,
    experiment: dict[str, Any],
    files: dict[str, bytes],
    rows: Rows | None = None,
) -> Case:
    # A dry run checks everything and is fast; a run finds what only running shows.
    more = ("--dry-run",) if rng.random() < 0.67 else ("--limit", "1")
    codes = CODES | {MISSED} if "require" in experiment else CODES
    return Case(name=name, write=command(experiment, files, *more), rows=rows, codes=codes)


def _one_of(rng: Random, rows: list[Any]) -> tuple[str, bytes]:
    """Change one of the rows, or the bytes of the whole."""
    if rng.random() < 0.2:
        return encoded(rng, json_bytes(*rows).decode() + "\n")
    n = rng.randrange(len(rows))
    name, changed = mutated(rng, rows[n])
    return name, json_bytes(*rows[:n], changed, *rows[n + 1 :]) + b"\n"


def _whole(rng: Random, value: Any) -> tuple[str, bytes]:
    if rng.random() < 0.2:
        return encoded(rng, json_text(value))
    name, changed = mutated(rng, value)
    return name, json_bytes(changed)


def _filled(lines: Sequence[bytes]) -> int:
    """Count the lines that hold more than white space, that of Unicode included."""
    return sum(1 for line in lines if line.decode("utf-8", "replace").strip())


def jsonl(rng: Random) -> Case:
    """Questions, one JSON object a line."""
    name, data = _one_of(rng, [QUESTION, {**QUESTION, "id": "q2"}])
    given = _filled(data.removeprefix(b"\xef\xbb\xbf").split(b"\n"))
    is_utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # its lines are others
    rows = None if is_utf16 else Rows(dataset="table", file="items.jsonl", given=given)
    return _case(rng, name, questions(), {"items.jsonl": data}, rows)


def forms(rng: Random) -> Case:
    """Rows of a published form."""
    name, data = _one_of(rng, rng.choice(FORMS))
    return _case(rng, name, questions(), {"items.jsonl": data})


def csv(rng: Random) -> Case:
    """Questions as CSV."""
    name, data = mutated_lines(rng, CSV)
    return _case(rng, name, questions("table", "items.csv"), {"items.csv": data})


def attacked(rng: Random) -> Case:
    """An attacked set, one of whose rows, or what describes it, is changed."""
    experiment = {**questions("attacked", "set.jsonl"), "attack": [{"name": "attacked"}]}
    if rng.random() < 0.3:
        name, changed = mutated(rng, ATTACK_SET)
        about = json_text(changed)
        data = json_bytes(*({**row, "attack_set": about} for row in ATTACKED_ROWS)) + b"\n"
    else:
        name, data = _one_of(rng, ATTACKED_ROWS)
    return _case(rng, name, experiment, {"set.jsonl": data})


def iob(rng: Random) -> Case:
    """Tokens and labels, an empty line between sentences."""
    name, data = mutated_lines(rng, IOB)
    text = data.decode("utf-8", "replace").removeprefix("\ufeff").replace("\r\n", "\n")
    blocks, inside = 0, False
    for line in text.split("\n"):
        blocks += bool(line.strip()) and not inside
        inside = bool(line.strip())
    is_exact = "-DOCSTART-" not in text and "\n#" not in f"\n{text}"
    rows = Rows(dataset="iob", file="data.iob", given=blocks) if is_exact else None
    return _case(rng, name, tagged(), {"data.iob": data}, rows)


def pubtator(rng: Random) -> Case:
    """Titles, abstracts and offsets."""
    name, data = mutated_lines(rng, PUBTATOR)
    return _case(rng, name, tagged("pubtator", "data.pubtator"), {"data.pubtator": data})


def brat(rng: Random) -> Case:
    """A text, and its annotations by offsets."""
    name, data = mutated_lines(rng, BRAT)
    files = {"data.txt": b"Aspirin and pain.\nHeparin helps.\n", "data.ann": data}
    return _case(rng, name, tagged("brat", "."), files)


def text_pairs(rng: Random) -> Case:
    """Pairs of sentences, separated by tabs."""
    name, data = mutated_lines(rng, PAIRS)
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r", b"\n").split(b"\n")
    given = max(_filled(lines) - 1, 0)
    is_utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))  # its lines are others
    rows = None if is_utf16 else Rows(dataset="pairs", file="pairs.tsv", given=given)
    return _case(rng, name, pairs(), {"pairs.tsv": data}, rows)


def token_rows(rng: Random) -> Case:
    """Rows of tokens and labels, as one JSON list."""
    name, data = _whole(rng, TOKEN_ROWS)
    return _case(rng, name, tagged("iob", "data.json"), {"data.json": data})


def annotations(rng: Random) -> Case:
    """Spans of the options, with a file of MedQA."""
    name, data = _whole(rng, ANNOTATIONS)
    experiment = questions("medqa", "medqa.jsonl")
    experiment["dataset"][0] = {
        **{"name": "medqa", "path": "medqa.jsonl", "annotations": "spans.json"}
    }
    files = {"spans.json": data, "medqa.jsonl": json_bytes(MEDQA)}
    return _case(rng, name, experiment, files)


def vocabulary(rng: Random) -> Case:
    """Names in CSV, TSV, text, OBO, MRCONSO, packed and not."""
    file = rng.choice(list(VOCABULARIES))
    name, data = mutated_lines(rng, VOCABULARIES[file])
    if rng.random() < 0.2:
        file, data = f"{file}.gz", gzip.compress(data, mtime=0)
        data = data[: rng.choice((len(data), rng.randrange(len(data))))]
    experiment = questions()
    experiment["entities"][0][rng.choice(("vocabulary", "synonyms"))] = file
    return _case(rng, f"{file}: {name}", experiment, {file: data})


def _pdws() -> dict[str, Any]:
    tables = questions()
    tables["experiment"] |= {"max_queries": 50, "flip_check": True}
    tables["dataset"][0] |= {"limit": 2, "sample_seed": 1}
    tables["entities"][0]["choices"] = "default"
    tables["victim"][0] |= {"parameters": 1e6, "batch_size": 2}
    tables["attack"][0] |= {
        **{"sampler": "pdws", "n": [-20, 20], "victim_span": "nearest", "goal": "untargeted"},
        **{"choices": "default", "variants": "mark", "continue_on_invalid": True},
        **{"unreadable_is_success": False, "max_edit_distance": 9},
    }
    tables["analysis"] = {"transfer": True, "reuse": [1, 2]}
    tables["tune"] = {"grid": [-20, 20], "share": 0.5, "budget": 2}
    return tables


def _zoo() -> dict[str, Any]:
    attack = {
        **{"name": "discrete_zoo", "budget": 6, "candidates": 2, "learning_rate": 1.0, "kappa": 0},
        **{"similarity_threshold": "off", "word_ranking": "random", "answers": "soft"},
        **{"goal": "untargeted", "max_edit_distance": {"tokens": 3}},
    }
    return {**questions(), "attack": [attack]}


def _medfuzz() -> dict[str, Any]:
    attack = {
        **{"name": "medfuzz", "attempts": 1, "runs": 1, "exemplars": 0, "attack_all": False},
        **{"max_words": 80, "allow_history": False, "reasoning_tokens": 100},
        **{"goal": "untargeted", "template": "patient_characteristics"},
    }
    role = {"attacker": {"backend": "python", "target": "victim.py:answer"}}
    tables = {**questions(), "attack": [attack], "role": role}
    del tables["entities"]
    return tables


def _noise() -> dict[str, Any]:
    attacks = [
        {"name": "keyboard_noise", "search": "greedy", "budget": 3},
        {"name": "non_entity_noise", "of": {"name": "swap_noise"}},
        {"name": "hyphen_noise"},
        {"name": "ocr_noise"},
        {"name": "abbreviation", "direction": "both"},
    ]
    return {**tagged(), "attack": attacks}


RULES: dict[str, Any] = {
    "lever": "hearsay",
    "category": [{"name": "age", "description": "how old"}],
    "forbidden": [{"name": "results", "description": "of tests", "history": True}],
    "evidence": {"strong": ["fever"], "beer": ["beer"], "pairs": [["beer", "beer"]]},
}


# fmt: off
VALUES: dict[str, dict[str, tuple[Any, ...]]] = {
    "experiment": {
        "controls": (True, ["no_op"], ["no_op", "repeat", "option_shuffle"], ["non_entity_noise"]),
        "seeds": ([0, 1], [7], []), "flip_check": (True, False), "max_failed": (0, 1, 10**6),
        "max_queries": (0, 1, 3, 10**6), "max_usd": (0.0, 1.5), "max_seconds": (0, 1e-9, 60),
        "trial_seconds": (0, 1e-9, 60), "cache": ("", "answers"),
    },
    "dataset": {
        "limit": (0, 1, 2, 10**6), "sample_seed": (0, 5), "label": ("x", "a b/c"),
        "on_bad_row": ("error", "skip"),
    },
    "entities": {
        "type": ("drugs", "diseases", ["T121"]), "recogniser": ("gazetteer", "given"),
        "distance": ("cosine", "euclidean"), "synonyms": ("default", "none"), "limit": (1, 3),
        "choices": ("default", "as_published", "as_released"),
    },
    "victim": {
        "answer_by": ("letter", "text", "generate"), "prompt": ("qstab", "medmcqa", "cloze"),
        "wrap": ([], ["shuffled_options"], [{"name": "majority", "k": 3}], ["instructed"]),
        "batch_size": (1, 64), "parameters": (1, 7e9), "shots": (0, 1), "max_new_tokens": (1, 9),
    },
    "attack": {
        "sampler": ("random", "pdws", "nearest", "farthest", "exhaustive"), "n": (-1, 0.5, [1, 2]),
        "budget": (1, 2, 99), "victim_span": ("nearest", "random", "saliency"),
        "field": ("options", "context", "stem"), "goal": ("untargeted", "replaced", "A", "B"),
        "variants": ("exclude", "mark"), "continue_on_invalid": (True, False),
        "unreadable_is_success": (True, False), "max_edit_distance": (0, 1, 50), "label": ("near",),
        "scope": ("all", "entities"), "search": ("greedy", "random"), "rate": (0.0, 0.5, 1.0),
        "attempts": (1, 2), "runs": (1, 2), "max_change": (0.0, 0.1, 1.0),
        "side": ("first", "second", "random"),
    },
    "analysis": {"transfer": (True, False), "reuse": ([], [1], [1, 2, 3])},
    "slices": {"by": (["key"], ["type"], ["subject"], ["year", "key"])},
    "require": {"metric": ("asr", "asr_net", "accuracy", "f1_after"), "max_high": (0.0, 0.5, 1.0)},
}
"""Table and key -> values that are right by themselves, though not beside all others."""
# fmt: on


def _with_values(rng: Random, tables: dict[str, Any]) -> str:
    """Give some keys other values that are right by themselves; return what was done."""
    done = []
    for _ in range(rng.randint(1, 3)):
        table = rng.choice([*tables, "slices", "require", "analysis", "attack", "attack"])
        if table not in VALUES:
            continue
        if table == "require":
            tables.setdefault(table, [{"metric": "asr", "max_high": 0.9}])
        is_list = table not in ("experiment", "analysis", "slices")
        row = tables.setdefault(table, [{}] if is_list else {})
        row = rng.choice(row) if is_list else row
        keys = [key for key in VALUES[table] if key in row]  # of an attack, those it has
        key = rng.choice(keys if keys and rng.random() < 0.7 else list(VALUES[table]))
        row[key] = rng.choice(VALUES[table][key])
        done.append(f"{table}.{key} = {row[key]}")
    return ", ".join(done)


def toml(rng: Random) -> Case:
    """Experiment files, `--set`, and rules of a set of prompts."""
    tables = rng.choice((questions, _pdws, _zoo, _medfuzz, _noise, pairs))()
    match rng.choices(("tables", "values", "bytes", "set", "rules"), (7, 8, 1, 2, 1))[0]:
        case "values":
            return _case(rng, _with_values(rng, tables), tables, {})
        case "tables":
            name, tables = mutated(rng, tables, TOML_RAW)
            return _case(rng, name, tables, {})
        case "bytes":
            name, data = encoded(rng, toml_text(tables))
            return _case(rng, name, tables, {"experiment.toml": data})
        case "set":
            table = rng.choice(list(tables))
            rows = tables[table]
            key = rng.choice(list(rows if isinstance(rows, dict) else rows[0]))
            value = rng.choice((*TOML_RAW, *TEXTS, "{a=", "a=b", "\nb = 1"))
            target = rng.choice((f"{table}.{key}", f"{table}.{key}.{key}", table, f".{key}", key))
            given = f"{target}={value}".replace("\0", "")
            return Case(
                name=f"--set {given[:60]}", write=command(tables, None, "--dry-run", "--set", given)
            )
        case _:
            tables = _medfuzz()
            tables["attack"][0]["template"] = "prompts"
            name, rules = mutated(rng, RULES, TOML_RAW)
            data = toml_text(rules).encode("utf-8", "surrogatepass")
            files = {"prompts/rules.toml": data, "prompts/attacker.md": b"{lever}"}
            return Case(name=f"rules: {name}", write=command(tables, files, "--dry-run"))


FORMATS: dict[str, Callable[[Random], Case]] = {
    **{"toml": toml, "jsonl": jsonl, "csv": csv, "forms": forms, "attacked": attacked, "iob": iob},
    **{"pubtator": pubtator, "brat": brat, "pairs": text_pairs, "token_rows": token_rows},
    **{"annotations": annotations, "vocabulary": vocabulary},
}
