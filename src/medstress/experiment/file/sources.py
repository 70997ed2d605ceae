"""The source of an experiment's text: a file, or a recipe shipped with medstress."""

from __future__ import annotations

import os
import shlex
from dataclasses import dataclass
from pathlib import Path

from medstress import recipes
from medstress.core.errors import FIRST_COMMAND, UsageError, did_you_mean
from medstress.datasets.guess import ENDINGS
from medstress.files.reading import read_text
from medstress.files.writing import DATABASE


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of an experiment and its base folder."""

    text: str
    """TOML."""
    name: str
    """Its name in messages."""
    base: Path
    """Folder that relative paths start from; for a recipe the current folder."""
    remark: str = ""
    """What is said of it before it runs; empty for nothing."""


def find_source(experiment: str | Path | Source) -> Source:
    """Read an experiment file, or the recipe of that name; a text that is no file stays as it is.

    A file that exists wins over a recipe of its name; a folder does not.

    Raises:
        UsageError: neither a file nor a recipe, or the file cannot be read.
    """
    if isinstance(experiment, Source):
        return experiment
    path = Path(experiment)
    if str(experiment) in recipes.names() and not path.is_file():
        name = str(experiment)
        return Source(
            text=recipes.text_of(name), name=f"{name}{recipes.SUFFIX}", base=Path.cwd().resolve()
        )
    if not os.path.lexists(path):
        known = [p.name for p in path.parent.glob("*.toml")]
        if path.parent == Path():
            known += recipes.names()
        named = f"{path.name}.toml"
        near = f"; did you mean {named!r}?" if named in known else did_you_mean(path.name, known)
        raise UsageError(f"there is no experiment file {path}{near}").with_command(FIRST_COMMAND)
    if (error := _other_thing(path)) is not None:
        raise error
    text = read_text(path)
    return Source(text=text, name=path.name, base=path.resolve().parent)


def _other_thing(path: Path) -> UsageError | None:
    """Return the error for what newcomers give in place of an experiment file; None for others."""
    if path.suffix.lower() in ENDINGS:
        error = (
            f"{path} holds data; expected an experiment file (TOML), or for a first run "
            f"--data {path} --model NAME"
        )
        return UsageError(error).with_command(shlex.join(["medstress", "check", str(path)]))
    if path.is_dir() and not (path / DATABASE).is_file():
        error = f"{path} is a folder; expected an experiment file (TOML)"
        return UsageError(error).with_command(FIRST_COMMAND)
    if (path / DATABASE).is_file():
        error = f"{path} is the folder of a run; expected an experiment file (TOML)"
        return UsageError(error).with_command(shlex.join(["medstress", "summary", str(path)]))
    return None
