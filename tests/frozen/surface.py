"""What others build on: public names, commands and options, keys of files, recipes, exit codes."""

from __future__ import annotations

import argparse
import inspect
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from .capture import medstress, working_in
from .experiments import RUN, SUBSTITUTION, TAGGED
from .inputs import LOG
from .normal import normal

PLUGIN_NAMES = {
    "medstress.attacks.entity_substitution": ["nearest_span"],
    "medstress.attacks.noise": ["NoiseResources", "SwapNoise"],
    "medstress.core.calls": [
        *("Choose", "Chosen", "Failure", "Generate", "Generated", "Message", "ModelIdentity"),
        *("Score", "Scored"),
    ],
    "medstress.core.errors": [
        *("BackendError", "BudgetExhausted", "DataError", "MedstressError", "StoreError"),
        *("TrialError", "UsageError"),
    ],
    "medstress.core.hashing": ["file_hash"],
    "medstress.core.items": ["Candidate"],
    "medstress.option_letters": ["is_decided"],
    "medstress.core.outcomes": ["Outcome", "Prediction", "Replaced", "Targeted", "Untargeted"],
    "medstress.core.queries": ["Predict", "ask", "clean_answer", "consult", "note"],
    "medstress.core.seeding": ["rng_for"],
    "medstress.core.sentences": ["TaggedText"],
    "medstress.core.text": ["copy_case"],
}
"""Names that the pages on plug-ins and noise import, or say that one imports."""
PLUGIN_MODULES = ("medstress.attacks.constraints", "medstress.attacks.spans")
"""Modules that they name as a whole."""
KINDS = (
    *("attacks", "samplers", "datasets", "backends", "embeddings", "recognisers", "vocabularies"),
    *("prompts", "parsers", "text_scores", "wrappers", "recipes"),
)


def public_names() -> dict[str, Any]:
    """Names, parameters of functions and members of classes."""
    import medstress as package

    found: dict[str, Any] = {"medstress": {n: _about(getattr(package, n)) for n in package.__all__}}
    for name in ("attacks", "metrics", "testing"):
        module = import_module(f"medstress.{name}")
        found[f"medstress.{name}"] = {n: _about(getattr(module, n)) for n in module.__all__}
    for name, wanted in PLUGIN_NAMES.items():
        module = _module(name)
        found[name] = {n: _about(getattr(module, n, None)) for n in wanted}
    for name in PLUGIN_MODULES:
        found[name] = "module" if _module(name) else None
    return found


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        return None


def _about(value: Any) -> Any:
    """What one can rely on: parameters of a function, public members of a class."""
    if value is None:
        return "<absent>"
    if inspect.ismodule(value):
        return "module"
    if inspect.isclass(value):
        members = sorted(n for n in dir(value) if not n.startswith("_"))
        return {"members": members, "parameters": _parameters(value)}
    if callable(value):
        return {"parameters": _parameters(value)}
    return type(value).__name__


def _parameters(value: Callable[..., Any]) -> list[str] | None:
    try:
        given = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return None
    marks = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    told = []
    for each in given:
        optional = "" if each.default is inspect.Parameter.empty else "="
        only = "key " if each.kind is inspect.Parameter.KEYWORD_ONLY else ""
        told.append(f"{only}{marks.get(each.kind, '')}{each.name}{optional}")
    return told


def commands() -> dict[str, Any]:
    """Commands with their arguments and options, and the values that these take."""
    from medstress.cli.parser import build_parser

    (found,) = [
        action
        for action in build_parser()._actions
        if isinstance(action, argparse._SubParsersAction)
    ]
    return {name: _options(parser) for name, parser in sorted(found.choices.items())}


def _options(parser: argparse.ArgumentParser) -> dict[str, Any]:
    told = {}
    for action in parser._actions:
        name = ", ".join(sorted(action.option_strings)) or action.dest
        told[name] = {
            "required": action.required,
            "values": None if action.choices is None else sorted(map(str, action.choices)),
            "takes": str(action.nargs) if action.nargs is not None else "1",
        }
    return told


def experiment_keys() -> dict[str, Any]:
    """Tables and keys of experiment files with their defaults, and the parameters of attacks."""
    from dataclasses import fields, is_dataclass

    from medstress.experiment.file.config import Experiment

    tables: dict[str, Any] = {}
    _keys(Experiment, "", tables)
    names = _listed("attacks")
    for name in names:
        attack = _attack(name)
        assert is_dataclass(attack)
        tables[f"attack {name}"] = sorted(each.name for each in fields(attack) if each.init)
    return tables


def _attack(name: str) -> Any:
    from medstress.core import registry

    target = registry.ATTACKS[name].target
    module, _, attribute = target.partition(":")
    return getattr(import_module(module), attribute)


def _keys(model: Any, path: str, tables: dict[str, Any]) -> None:
    """Walk tables of tables, whatever they are wrapped in."""
    from pydantic import BaseModel

    told = {}
    for name, each in model.model_fields.items():
        inner = [kind for kind in _types(each.annotation) if _is_model(kind, BaseModel)]
        for kind in inner:
            _keys(kind, f"{path}{name}.", tables)
        is_table = any(inner) or each.is_required() or each.default_factory is not None
        told[name] = "required" if each.is_required() else None if is_table else repr(each.default)
    tables[path.rstrip(".") or "file"] = told


def _types(annotation: Any) -> list[Any]:
    from typing import get_args

    inner = get_args(annotation)
    return [kind for each in inner for kind in _types(each)] if inner else [annotation]


def _is_model(kind: Any, base: type) -> bool:
    return isinstance(kind, type) and issubclass(kind, base)


def _listed(kind: str) -> list[str]:
    code, out, err = medstress("list", kind)
    assert code == 0, err
    return [line.partition("  ")[0] for line in out.splitlines()]


def listed() -> dict[str, Any]:
    """What `medstress list` names, kind by kind."""
    return {kind: _listed(kind) for kind in KINDS}


def shipped_recipes() -> dict[str, Any]:
    """What the shipped recipes say, without their comments."""
    return {name: tomllib.loads(medstress("recipe", name)[1]) for name in _listed("recipes")}


def _changed(old: str, new: str) -> dict[str, str]:
    text = SUBSTITUTION["e.toml"]
    assert old in text
    return SUBSTITUTION | {"e.toml": text.replace(old, new)}


def _tagged(old: str, new: str) -> dict[str, str]:
    assert old in TAGGED["e.toml"]
    return TAGGED | {"e.toml": TAGGED["e.toml"].replace(old, new)}


def _item(old: str, new: str) -> dict[str, str]:
    assert old in SUBSTITUTION["items.jsonl"]
    return SUBSTITUTION | {"items.jsonl": SUBSTITUTION["items.jsonl"].replace(old, new, 1)}


def _victim(code: str) -> dict[str, str]:
    return SUBSTITUTION | {"choosing.py": f"{LOG}\n{code}"}


BAD_INPUTS: dict[str, tuple[dict[str, str], tuple[str, ...]]] = {
    "nothing": ({}, ()),
    "unknown command": ({}, ("rum",)),
    "unknown option": ({}, ("--bogus",)),
    "version": ({}, ("--version",)),
    "help": ({}, ("run", "--help")),
    "command that is not built": ({}, ("watch",)),
    "run without a file": ({}, ("run",)),
    "shortened option": (SUBSTITUTION, (*RUN, "--dry")),
    "no such file": ({}, RUN),
    "no such recipe": ({}, ("recipe", "xian")),
    "no such run": ({}, ("summary", "run")),
    "report of no run": ({}, ("report", "run")),
    "export of no run": ({}, ("export", "run", "--table", "trials", "--to", "t.csv")),
    "export to another format": ({}, ("export", "run", "--table", "trials", "--to", "t.xlsx")),
    "export of an unknown table": ({}, ("export", "run", "--table", "trails", "--to", "t.csv")),
    "review room": ({}, ("review", "run", "--port", "80")),
    "list of an unknown kind": ({}, ("list", "cats")),
    "cache info": ({}, ("cache", "info", "--path", "answers")),
    "cache prune without a choice": ({}, ("cache", "prune", "--path", "answers")),
    "dry run": (SUBSTITUTION, (*RUN, "--dry-run")),
    "limit of nothing": (SUBSTITUTION, (*RUN, "--limit", "0")),
    "setting of no table": (SUBSTITUTION, (*RUN, "--set", "attacks.budget=3")),
    "setting that is no value": (SUBSTITUTION, (*RUN, "--set", "attack.budget=many")),
    "fresh on no run": (SUBSTITUTION | {"run/mine.txt": "mine"}, (*RUN, "--fresh")),
    "a run that is no database": (SUBSTITUTION | {"run/run.sqlite": "my notes" * 200}, RUN),
    "no TOML": (SUBSTITUTION | {"e.toml": "[experiment"}, RUN),
    "repeated seeds": (_changed("seeds = [0, 1]", "seeds = [0, 0]"), RUN),
    "unknown key": (_changed("seeds = [0, 1]", "sedes = [0, 1]"), RUN),
    "wrong type": (_changed("seeds = [0, 1]", 'seeds = "all"'), RUN),
    "unknown attack": (_changed('name = "entity_substitution"', 'name = "substitution"'), RUN),
    "unknown sampler": (_changed('sampler = "nearest"', 'sampler = "near"'), RUN),
    "unknown parameter": (_changed('sampler = "nearest"', 'smapler = "nearest"'), RUN),
    "budget of nothing": (_changed("budget = 5", "budget = 0"), RUN),
    "unknown back end": (_changed('backend = "mock"', 'backend = "mok"'), RUN),
    "unknown data set": (_changed('name = "jsonl"', 'name = "josnl"'), RUN),
    "data set without its file": (_changed('"items.jsonl"', '"item.jsonl"'), RUN),
    "vocabulary without its file": (_changed('"names.txt"', '"name.txt"'), RUN),
    "target without its file": (_changed("choosing.py:careful", "chosing.py:careful"), RUN),
    "target without its function": (_changed("choosing.py:careful", "choosing.py:care"), RUN),
    "two victims of one name": (_changed('name = "mock"', 'name = "careful"'), RUN),
    "server without its address": (
        _changed('backend = "mock"', 'backend = "openai"\nmodel = "theirs"'),
        RUN,
    ),
    "key that is no option": (_item('"answer_idx": "A"', '"answer_idx": "F"'), RUN),
    "row that is no JSON": (_item('{"id": "q0"', '"id": "q0"'), RUN),
    "bad row left out": (
        _item('"answer_idx": "A"', '"answer_idx": "F"')
        | {"e.toml": SUBSTITUTION["e.toml"].replace('"cases"', '"cases"\non_bad_row = "skip"')},
        RUN,
    ),
    "victim that cannot be imported": (_victim("import nowhere_to_be_found"), RUN),
    "victim that is no Python": (_victim("def careful("), RUN),
    "victim that always raises": (_victim("def careful(p):\n    raise ValueError('no')"), RUN),
    "victim that answers nothing": (_victim("def careful(p):\n    return [None for _ in p]"), RUN),
    "victim that answers too few": (_victim("def careful(p):\n    return []"), RUN),
    "victim that nobody can read": (_victim("def careful(p):\n    return ['hm' for _ in p]"), RUN),
    "victim that leaves": (_victim("def careful(p):\n    raise SystemExit(0)"), RUN),
    "label that continues nothing": (
        TAGGED | {"data.iob": TAGGED["data.iob"].replace("B-Chemical", "I-Chemical", 1)},
        RUN,
    ),
    "attack for other data": (
        _tagged(
            'name = "ocr_noise"\nscope = "all"', 'name = "entity_substitution"\nsampler = "random"'
        ),
        RUN,
    ),
    "analysis of other data": (
        _tagged("[[victim]]", "[analysis]\ntransfer = true\n[[victim]]"),
        RUN,
    ),
    "tune without an exponent": (TAGGED, ("tune", "e.toml", "--out", "run", "--quiet")),
    "train without its table": (TAGGED, ("train", "e.toml", "--out", "run", "--quiet")),
    "perturb with a search": (TAGGED, ("perturb", "e.toml", "--to", "p.jsonl", "--quiet")),
    "perturb to another format": (
        TAGGED,
        ("perturb", "perturbed.toml", "--to", "p.docx", "--quiet"),
    ),
    "annotate tagged texts": (TAGGED, ("annotate", "e.toml", "--to", "a.jsonl", "--quiet")),
    "test of no MedFuzz": (TAGGED, ("test", "run", "--experiment", "e.toml", "--quiet")),
}
"""What a user may get wrong, and some of what is right: files and a command line."""


def exit_codes(root: Path) -> dict[str, int]:
    """The exit code of each of them; `root` is an empty folder."""
    found = {}
    for i, (name, (files, arguments)) in enumerate(BAD_INPUTS.items()):
        folder = root / str(i)
        folder.mkdir()
        for path, text in files.items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(text, encoding="utf-8")
        with working_in(folder):
            found[name] = medstress(*arguments)[0]
    found["interrupted"] = _interrupted(root)
    return found


def _interrupted(root: Path) -> int:
    """A process of its own that is told to stop while it asks its victim."""
    folder = root / "interrupted"
    folder.mkdir()
    code = "def careful(p):\n    os.kill(os.getpid(), 2)\n    return ['A' for _ in p]"
    for path, text in _victim(code).items():
        (folder / path).write_text(text, encoding="utf-8")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # else it may be ignored
    try:
        done = subprocess.run(
            [sys.executable, "-m", "medstress", *RUN],
            cwd=folder,
            env={**os.environ, "MEDSTRESS_CACHE": str(folder / "cache")},
            capture_output=True,
            check=False,
        )
    finally:
        signal.signal(signal.SIGINT, before)
    return done.returncode


def surface(root: Path) -> dict[str, Any]:
    """All of it."""
    told = {
        "python names": public_names(),
        "commands": commands(),
        "experiment keys": experiment_keys(),
        "lists": listed(),
        "recipes": shipped_recipes(),
        "exit codes": exit_codes(root),
    }
    return {name: normal(value, root) for name, value in told.items()}
