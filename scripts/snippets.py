"""The commands and files on the pages, read as medstress reads them.

`tests/examples/test_snippets.py` reads them all.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import typer
from typer.core import TyperGroup

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SHELL_VALUE = re.compile(r"\$\([^)]*\)|\$\w+")
"""What the shell puts into a command: a date, a variable."""
GENERATED = ("cli.md", "schema.md", "api.md")
BASE: dict[str, Any] = {
    "experiment": {"name": "x"},
    "dataset": {"name": "sample"},
    "entities": {"type": "drugs", "vocabulary": "drugs"},
    "victim": {"backend": "mock"},
    "attack": {"name": "entity_substitution", "n": -20},
}
"""What a page that shows one table leaves out."""
PARTS = {
    "dataset": ("name", "datasets"),
    "victim": ("backend", "backends"),
    "attack": ("name", "attacks"),
}
"""Table that names an installed part -> the key that does, and the kind of part."""


class Block(NamedTuple):
    """A block of code on a page: where it is, what its fence says, and its text."""

    place: str
    language: str
    text: str


class Command(NamedTuple):
    """A line that a reader types: where it is, and the words after `medstress`."""

    place: str
    words: tuple[str, ...]


def blocks() -> Iterator[Block]:
    """Yield every block of code of the pages that people write."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.name in GENERATED:
            continue
        text = path.read_text("utf-8")
        for match in FENCE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            yield Block(f"{path.relative_to(ROOT).as_posix()}:{line}", match[2], match[3])


def commands() -> Iterator[Command]:
    """Yield every line that begins with `medstress`."""
    for block in blocks():
        if block.language not in ("", "sh"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            if line.startswith("medstress "):
                # A comment begins at the beginning of a word: `runs/mine#old` is one word.
                words = shlex.split(re.sub(r"(^|\s)#.*", "", SHELL_VALUE.sub("20261126", line)))
                if ">" in words:  # the shell writes into a file what it prints
                    words = words[: words.index(">")]
                yield Command(block.place, tuple(words[1:]))


def fault_of_command(command: Command) -> str | None:
    """Return what the command line refuses in a command, None if nothing."""
    from medstress.core.errors import UsageError

    name, *words = command.words
    try:
        if name in _program().commands:
            _program().commands[name].make_context(name, words)
        elif name not in ("--help", "--version"):
            return f"{command}: there is no such command"
    except (typer.TyperException, UsageError) as error:
        return f"{command}: {error}"
    except typer.Exit:
        pass  # --help
    return None


@cache
def _program() -> TyperGroup:
    from medstress.cli.app import program

    return program()


def fault_of_block(block: Block) -> str | None:
    """Return why a block of Python, TOML or JSON cannot be read, None if it can."""
    try:
        if block.language == "python":
            compile(block.text, block.place, "exec")
        elif block.language == "json":
            for line in block.text.strip().splitlines():
                json.loads(line)
        elif block.language == "toml":
            _check_keys(tomllib.loads(block.text))
    except (SyntaxError, ValueError) as error:  # pydantic's and tomllib's are ValueErrors
        return f"{block.place}: {error}"
    return None


def _check_keys(tables: dict[str, Any]) -> None:
    """Read a file, or a part of one, as an experiment.

    Raises:
        ValueError: a key or a value is none that an experiment has.
    """
    from medstress import Experiment

    # A package's file, or the rules of a set of prompts, which tests of MedFuzz read from the page.
    if "project" in tables or "lever" in tables:
        return
    loose = {key: value for key, value in tables.items() if key not in Experiment.model_fields}
    whole = {**BASE, **{key: value for key, value in tables.items() if key not in loose}}
    if isinstance(whole["experiment"], dict):
        whole["experiment"] = {**BASE["experiment"], **whole["experiment"]}
    faults = []
    # Keys without a table are of a model or of a group of names.
    tried = ("victim", "entities") if loose else ("victim",)
    for table in tried:
        part = {table: {**BASE[table], **loose}} if loose else {}
        try:
            Experiment.model_validate(_installed({**whole, **part}))
        except ValueError as error:
            faults.append(error)
    if len(faults) == len(tried):
        raise faults[0]


def _installed(tables: dict[str, Any]) -> dict[str, Any]:
    """Put what ships in place of parts of plug-ins, and an n where `tune` seeks it."""
    from medstress.core.registry import KINDS

    whole = dict(tables)
    for table, (key, kind) in PARTS.items():
        rows = whole[table] if isinstance(whole[table], list) else [whole[table]]
        ours = (*KINDS[kind], "mock")
        whole[table] = [row if row.get(key, "mock") in ours else BASE[table] for row in rows]
    if "tune" in whole:
        whole["attack"] = [
            {"n": -20, **row} if row.get("sampler", "pdws") == "pdws" else row
            for row in whole["attack"]
        ]
    return whole
