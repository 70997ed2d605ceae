"""Writes the package of a new plug-in from the templates beside this module."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from string import Template

from medstress.core.errors import UsageError, reason
from medstress.files.writing import Access, refuse_link, write_text
from medstress.scaffolding.names import Names

_SHARED = ("pyproject.toml", "README.md")
_OF_KIND = {
    "attack": ("experiment.toml",),
    "backend": ("experiment.toml",),
    "dataset": ("experiment.toml", "questions.txt"),
}
"""Kind -> the files that are named in every package as their templates are."""
_WHAT = {
    "attack": "an attack",
    "backend": "a back end",
    "dataset": "a source of data sets",
}
_OBJECT = {"backend": "open_backend", "dataset": "load"}
"""Kind -> the function that its entry point names; attacks are classes."""


def write_package(names: Names, folder: Path) -> tuple[str, ...]:
    """Write the package into a folder that is empty or not there; return the names of its files.

    Raises:
        UsageError: the folder has something in it, is a link, or cannot be written. Nothing is
            overwritten.
    """
    texts = dict(_texts(names))
    try:
        refuse_link(folder)
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(
                f"new: {folder} is not empty, and nothing is overwritten: give an empty or a new "
                f"folder (type: medstress new {names.kind} {names.name} --to DIR)"
            )
        for file, text in texts.items():
            write_text(folder / file, text, Access.ORDINARY)
    except OSError as error:
        raise UsageError(
            f"new: cannot write into {folder}: {reason(error)} "
            f"(type: medstress new {names.kind} {names.name} --to DIR)"
        ) from error
    return tuple(texts)


def _texts(names: Names) -> Iterator[tuple[str, str]]:
    """Yield the name and text of every file."""
    words = {
        "kind": names.kind,
        "what": _WHAT[names.kind],
        "name": names.name,
        "group": names.group,
        "package": names.package,
        "of_class": names.of_class,
        "object": _OBJECT.get(names.kind, names.of_class),
    }
    templates = files(__name__.rpartition(".")[0]) / "templates"
    for file, template in (
        *((file, templates / f"{file}.txt") for file in _SHARED),
        (f"{names.name}.py", templates / names.kind / "module.py.txt"),
        (f"test_{names.name}.py", templates / names.kind / "test.py.txt"),
        *((file, templates / names.kind / f"{file}.txt") for file in _OF_KIND[names.kind]),
    ):
        yield file, Template(template.read_text("utf-8")).substitute(words)
