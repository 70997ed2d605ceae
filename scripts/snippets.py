"""The commands and files that stand on the pages: found, and read as medstress reads them.

`tests/examples/test_snippets.py` reads them all.
"""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperGroup

ROOT = Path(__file__).resolve().parents[1]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
SHELL = ("", "sh")
"""What blocks of commands are marked with."""
SHELL_VALUE = re.compile(r"\$\([^)]*\)|\$\w+")
"""What the shell puts into a command: a date, a variable."""
GENERATED = ("cli.md", "schema.md", "api.md")
FRAGMENT_OF = ("victim", "entities")
"""Tables that keys without a table may belong to."""
BASE: dict[str, Any] = {
    "experiment": {"name": "x"},
    "dataset": {"name": "sample"},
    "entities": {"type": "drugs", "vocabulary": "drugs"},
    "victim": {"backend": "mock"},
    "attack": {"name": "entity_substitution", "n": -20},
}
"""What a page that shows one table leaves out."""
PARTS = (
    ("dataset", "name", "datasets"),
    ("victim", "backend", "backends"),
    ("attack", "name", "attacks"),
)
"""Tables that name an installed part, the key that does, and the kind of part."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """A block of code on a page."""

    page: str
    """The page, from the root of the repository."""
    line: int
    """The line on which it begins, from 1."""
    language: str
    """What its fence says; empty where it says nothing."""
    text: str
    """What stands between the fences."""

    @property
    def place(self) -> str:
        """Where it stands, in words."""
        return f"{self.page}:{self.line}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Command:
    """A line that a reader types."""

    place: str
    """Where it stands."""
    words: tuple[str, ...]
    """The words after `medstress`."""

    def __str__(self) -> str:
        """Return the line."""
        return shlex.join(("medstress", *self.words))


def blocks() -> Iterator[Block]:
    """Yield every block of code of the pages that people write."""
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        if path.name in GENERATED:
            continue
        text = path.read_text("utf-8")
        for match in FENCE.finditer(text):
            yield Block(
                page=path.relative_to(ROOT).as_posix(),
                line=text.count("\n", 0, match.start()) + 1,
                language=match[2],
                text=match[3],
            )


def commands() -> Iterator[Command]:
    """Yield every line that begins with `medstress`."""
    for block in blocks():
        if block.language not in SHELL:
            continue
        joined = block.text.replace("\\\n", " ")
        for line in joined.splitlines():
            if line.startswith("medstress "):
                # A comment begins at the beginning of a word: `runs/mine#old` is one word.
                line = re.sub(r"(^|\s)#.*", "", SHELL_VALUE.sub("20261126", line))
                words = shlex.split(line)
                if ">" in words:  # the shell writes into a file what it prints
                    words = words[: words.index(">")]
                yield Command(place=block.place, words=tuple(words[1:]))


def fault_of_command(command: Command) -> str | None:
    """Return what the command line refuses in a command, None if nothing."""
    from medstress.core.errors import UsageError

    name, *words = command.words
    try:
        if name in _program().commands:
            _program().commands[name].make_context(name, words)
        elif name not in ("--help", "--version"):
            return f"{command.place}: {command}: there is no such command"
    except (typer.TyperException, UsageError) as error:
        return f"{command.place}: {command}: {error}"
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


def _check_keys(given: dict[str, Any]) -> None:
    """Read a file, or a part of one, as an experiment.

    Raises:
        ValueError: a key or a value is none that an experiment has.
    """
    from medstress.experiment.file.config import Experiment

    # A package's file, or the rules of a set of prompts, which tests of MedFuzz read from the page.
    if "project" in given or "lever" in given:
        return
    tables = {key: value for key, value in given.items() if key in Experiment.model_fields}
    loose = {key: value for key, value in given.items() if key not in tables}
    experiment = {**BASE, **tables}
    if isinstance(experiment["experiment"], dict):
        experiment["experiment"] = {**BASE["experiment"], **experiment["experiment"]}
    if not loose:
        Experiment.model_validate(_known(experiment))
        return
    faults = []
    for table in FRAGMENT_OF:
        try:
            Experiment.model_validate(_known({**experiment, table: {**BASE[table], **loose}}))
        except ValueError as error:
            faults.append(str(error))
    if len(faults) == len(FRAGMENT_OF):
        raise ValueError(faults[0])


def _known(experiment: dict[str, Any]) -> dict[str, Any]:
    """Put what ships in place of parts of plug-ins, and an n where `tune` seeks it."""
    from medstress.core.registry import KINDS

    whole = dict(experiment)
    for table, key, kind in PARTS:
        rows = whole[table] if isinstance(whole[table], list) else [whole[table]]
        whole[table] = [
            row if row.get(key, "mock") in (*KINDS[kind], "mock") else BASE[table] for row in rows
        ]
        if table == "attack" and "tune" in whole:
            seeks = [row.get("sampler", "pdws") == "pdws" for row in whole[table]]
            whole[table] = [
                {"n": -20, **row} if is_sought else row
                for row, is_sought in zip(whole[table], seeks, strict=True)
            ]
    return whole
