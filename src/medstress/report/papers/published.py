"""The numbers that the papers print, to compare with ours where the same model was run."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from medstress.analyses.choice import Setting

MAIN = ("random", "near", "far")
"""Methods of the published tables."""
NOT_OURS = (
    "Lines and marks labelled published are from {source}, which prints no intervals, seeds or "
    "numbers of items; its items, prompts and decoding may differ from ours."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a published table."""

    accuracy: float
    asr: Mapping[str, float]
    """Success of one query by method; R-CAP in the first version."""
    accuracy_after: Mapping[str, float]
    """Accuracy under attack by method; only the first version prints it."""


def line_of(source: str, setting: Setting) -> Line | None:
    """Return the published line of the same model, data set and type of names; None without one.

    Models are matched by the name of the model, so that a stand-in that only has the name of a
    published one does not match.

    Args:
        source: `xian2025` or `xian2024`.
        setting: where an attack was run.
    """
    model = model_name(setting)
    return None if model is None else _lines().get((source, model, setting.source, setting.types))


def model_name(setting: Setting) -> str | None:
    """Return the papers' name of a model; None where they did not run it."""
    if not setting.model or setting.backend == "mock":
        return None
    last = setting.model.rstrip("/").rpartition("/")[2]
    names = _names()
    return names.get(_bare(setting.model)) or names.get(_bare(last))


def other_prompt(setting: Setting) -> str:
    """Return both prompts where the papers' differs from ours; else an empty text."""
    printed = _victims()["prompt"].get(setting.source)
    if not printed or not setting.prompt or setting.prompt == printed:
        return ""
    return f"prompt {printed}, ours {setting.prompt}"


def source_line(source: str) -> str:
    """Return the reference of a source, for captions."""
    return str(_victims()["source"][source])


@cache
def rows_of(name: str) -> tuple[dict[str, str], ...]:
    """Return the rows of a shipped table of published numbers."""
    lines = (line for line in _read(name).splitlines() if not line.startswith("#"))
    return tuple(csv.DictReader(lines))


def _read(name: str) -> str:
    return (files("medstress.report.papers") / "data" / name).read_text("utf-8")


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


@cache
def _victims() -> dict[str, Any]:
    return tomllib.loads(_read("published_victims.toml"))


@cache
def _names() -> dict[str, str]:
    return {
        _bare(name): victim["name"]
        for victim in _victims()["victim"]
        for name in (victim["name"], *victim["models"])
    }


@cache
def _lines() -> dict[tuple[str, str, str, str], Line]:
    lines = {}
    for row in rows_of("published_rates.csv"):
        accuracy = float(row["accuracy"])
        after, asr = (
            {name: float(row[f"{part}_{name}"]) for name in MAIN if row[f"{part}_{name}"]}
            for part in ("after", "asr")
        )
        lines[row["source"], row["victim"], row["dataset"], row["entity"]] = Line(
            accuracy=accuracy,
            # The first version prints accuracies; R-CAP = (before - after) / before.
            asr=asr or {name: (accuracy - value) / accuracy for name, value in after.items()},
            accuracy_after=after,
        )
    return lines
