"""Experiment files, `--set` and rules of a set of prompts with one thing wrong."""

from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from . import experiments
from .case import DONE, FAILED_TRIALS, REFUSED, Case
from .mutate import TEXTS, TOML_RAW, encoded, mutated, short, toml_text

CODES = frozenset({DONE, FAILED_TRIALS, REFUSED})
RULES: dict[str, Any] = {
    "lever": "hearsay",
    "category": [{"name": "age", "description": "how old"}],
    "forbidden": [{"name": "results", "description": "of tests", "history": True}],
    "evidence": {"strong": ["fever"], "beer": ["beer"], "pairs": [["beer", "beer"]]},
}


def _zoo() -> dict[str, Any]:
    tables = experiments.questions()
    tables["attack"] = [
        {
            "name": "discrete_zoo",
            "budget": 6,
            "candidates": 2,
            "learning_rate": 1.0,
            "kappa": 0,
            "similarity_threshold": "off",
            "word_ranking": "random",
            "answers": "soft",
            "goal": "untargeted",
            "max_edit_distance": {"tokens": 3},
        }
    ]
    return tables


def _pdws() -> dict[str, Any]:
    tables = experiments.questions()
    tables["experiment"] |= {"max_queries": 50, "controls": False, "flip_check": True}
    tables["dataset"][0] |= {"limit": 2, "sample_seed": 1}
    tables["entities"][0] |= {"embedding": "ngram", "choices": "default"}
    tables["victim"][0] |= {"parameters": 1e6, "batch_size": 2}
    tables["attack"] = [
        {
            "name": "entity_substitution",
            "sampler": "pdws",
            "n": [-20, 20],
            "budget": 2,
            "victim_span": "nearest",
            "goal": "untargeted",
            "choices": "default",
            "variants": "mark",
            "continue_on_invalid": True,
            "unreadable_is_success": False,
            "max_edit_distance": 9,
        }
    ]
    tables["analysis"] = {"transfer": True, "reuse": [1, 2]}
    tables["tune"] = {"grid": [-20, 20], "share": 0.5, "budget": 2}
    return tables


def _medfuzz() -> dict[str, Any]:
    tables = experiments.questions()
    del tables["entities"]
    tables["attack"] = [
        {
            "name": "medfuzz",
            "attempts": 1,
            "runs": 1,
            "exemplars": 0,
            "attack_all": False,
            "max_words": 80,
            "allow_history": False,
            "reasoning_tokens": 100,
            "goal": "untargeted",
            "template": "patient_characteristics",
        }
    ]
    tables["role"] = {"attacker": {"backend": "python", "target": "victim.py:answer"}}
    return tables


def _noise() -> dict[str, Any]:
    tables = experiments.tagged()
    tables["attack"] = [
        {"name": "keyboard_noise", "search": "greedy", "budget": 3},
        {"name": "non_entity_noise", "of": {"name": "swap_noise"}},
        {"name": "hyphen_noise"},
        {"name": "ocr_noise"},
        {"name": "abbreviation", "direction": "both"},
    ]
    return tables


BASES: tuple[Callable[[], dict[str, Any]], ...] = (
    experiments.questions,
    _pdws,
    _zoo,
    _medfuzz,
    _noise,
    experiments.pairs,
)


def cases(rng: Random) -> Iterator[Case]:
    """Experiments with one thing wrong, without end."""
    while True:
        yield rng.choices((_tables, _bytes, _set, _rules), (12, 2, 3, 2))[0](rng)


def _more(rng: Random) -> tuple[str, ...]:
    # A dry run checks everything and is fast; the others find what only running shows.
    return rng.choice((("--dry-run",), ("--dry-run",), ("--limit", "1")))


def _tables(rng: Random) -> Case:
    name, tables = mutated(rng, rng.choice(BASES)(), TOML_RAW)
    write = experiments.command(toml_text(tables), None, *_more(rng))
    return Case(name=name, write=write, codes=CODES)


def _bytes(rng: Random) -> Case:
    name, data = encoded(rng, toml_text(rng.choice(BASES)()))
    write = experiments.command("", {"experiment.toml": data}, *_more(rng))
    return Case(name=name, write=write, codes=CODES)


def _set(rng: Random) -> Case:
    tables = rng.choice(BASES)()
    table = rng.choice(list(tables))
    rows = tables[table]
    key = rng.choice(list(rows if isinstance(rows, dict) else rows[0]))
    value = rng.choice((*TOML_RAW, *TEXTS, "[[[]]]", "{}", "{a=", "a=b", "\nb = 1"))
    target = rng.choice((f"{table}.{key}", f"{table}.{key}.{key}", table, f".{key}", key))
    given = f"{target}={value}".replace("\0", "")
    write = experiments.command(toml_text(tables), None, "--dry-run", "--set", given)
    return Case(name=f"--set {short(given)}", write=write, codes=CODES)


def _rules(rng: Random) -> Case:
    tables = _medfuzz()
    tables["attack"][0]["template"] = "prompts"
    if rng.random() < 0.7:
        name, changed = mutated(rng, RULES, TOML_RAW)
        data = toml_text(changed).encode("utf-8", "surrogatepass")
    else:
        name, data = encoded(rng, toml_text(RULES))
    write = experiments.command(
        tables, {"prompts/rules.toml": data, "prompts/attacker.md": b"{lever}"}, "--dry-run"
    )
    return Case(name=f"rules: {name}", write=write, codes=CODES)
