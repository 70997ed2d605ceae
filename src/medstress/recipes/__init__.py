"""Shipped experiments, one TOML file for each table or figure of a paper."""

from __future__ import annotations

from importlib.resources import files

from medstress.core.errors import UsageError, did_you_mean

SUFFIX = ".toml"


def names() -> list[str]:
    """Return the names of the shipped recipes, sorted.

    >>> "xian2025-table1" in names()
    True
    """
    return sorted(
        entry.name.removesuffix(SUFFIX)
        for entry in files(__name__).iterdir()
        if entry.name.endswith(SUFFIX)
    )


def text_of(name: str) -> str:
    """Return the TOML text of a recipe.

    Raises:
        UsageError: no recipe has this name.
    """
    recipes = names()
    if name not in recipes:
        raise UsageError(
            f"no recipe has the name {name!r}{did_you_mean(name, recipes)}"
        ).with_command("medstress list recipes")
    return (files(__name__) / f"{name}{SUFFIX}").read_text("utf-8")


def summary_of(name: str) -> str:
    """Return one line about a recipe: the first comment of its file."""
    return text_of(name).partition("\n")[0].removeprefix("#").strip()
