"""The source of an experiment's text: a file, or a recipe shipped with medstress."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from medstress import recipes
from medstress.core.errors import UsageError, did_you_mean
from medstress.files.reading import read_text


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """The text of an experiment and its base folder."""

    text: str
    """TOML."""
    name: str
    """Its name in messages."""
    base: Path
    """Folder that relative paths start from; for a recipe the current folder."""


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
        near = did_you_mean(path.name, known)
        raise UsageError(f"there is no experiment file {path}{near}")
    text = read_text(path)
    return Source(text=text, name=path.name, base=path.resolve().parent)
