"""The numbers that the papers print, to compare with ours if the same victim was run."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from medstress.papers.arms import VictimFacts

METHODS = ("random", "near", "far")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One line of a published table; the papers print no intervals."""

    source: str
    """`xian2025` or `xian2024`."""
    victim: str
    """Name of the victim in the paper."""
    dataset: str
    """`medqa` or `medmcqa`."""
    entity: str
    """`drugs` or `diseases`."""
    accuracy: float
    """Accuracy on the clean items."""
    asr: Mapping[str, float]
    """Success of one query by method, in [0, 1]; R-CAP in the first version."""
    accuracy_after: Mapping[str, float]
    """Accuracy under attack by method; only the first version prints it."""


def find(source: str, victim: VictimFacts, dataset: str, entity: str) -> Published | None:
    """Return the published line of the same victim, data set and group, or None.

    Victims are matched by the name of their model; a victim without a model is matched by its own
    name. So a stand-in that only has the name of a published victim is not matched.

    Args:
        source: `xian2025` or `xian2024`.
        victim: as the experiment file describes it.
        dataset: the data set's kind, such as `medmcqa`.
        entity: `drugs` or `diseases`.
    """
    name = victim_name(victim)
    if name is None:
        return None
    return _lines().get((source, name, dataset, entity))


def victim_name(victim: VictimFacts) -> str | None:
    """Return the papers' name for this victim; None if they did not run it."""
    name = victim.model or victim.name
    if not name or victim.backend == "mock":
        return None
    known = _names()
    last = name.rstrip("/").rpartition("/")[2]
    return known.get(_bare(name)) or known.get(_bare(last))


def other_prompt(dataset: str, prompt: str | None) -> str | None:
    """Return the papers' prompt if it differs from ours; None if it does not, or is unknown.

    Args:
        dataset: the data set's kind, such as `medmcqa`.
        prompt: name of our prompt.

    >>> other_prompt("medmcqa", "qstab"), other_prompt("medmcqa", "medmcqa")
    ('medmcqa', None)
    """
    theirs = _victims()["prompt"].get(dataset)
    return str(theirs) if theirs and prompt and prompt != theirs else None


def source_line(source: str) -> str:
    """Return the reference of a source, for captions."""
    return str(_victims()["source"][source])


def _bare(text: str) -> str:
    return "".join(filter(str.isalnum, text.casefold()))


@lru_cache(maxsize=1)
def _victims() -> dict[str, Any]:
    return tomllib.loads((_data() / "published_victims.toml").read_text("utf-8"))


@lru_cache(maxsize=1)
def _names() -> dict[str, str]:
    return {
        _bare(known): victim["name"]
        for victim in _victims()["victim"]
        for known in (victim["name"], *victim["models"])
    }


@lru_cache(maxsize=1)
def _lines() -> dict[tuple[str, str, str, str], Published]:
    text = (_data() / "published_rates.csv").read_text("utf-8")
    lines = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        line = _published(row)
        lines[line.source, line.victim, line.dataset, line.entity] = line
    return lines


def _published(row: Mapping[str, str]) -> Published:
    accuracy = float(row["accuracy"])
    after = {name: float(row[f"after_{name}"]) for name in METHODS if row[f"after_{name}"]}
    asr = {name: float(row[f"asr_{name}"]) for name in METHODS if row[f"asr_{name}"]}
    return Published(
        source=row["source"],
        victim=row["victim"],
        dataset=row["dataset"],
        entity=row["entity"],
        accuracy=accuracy,
        # The first version prints accuracies; R-CAP = (before - after) / before.
        asr=asr or {name: (accuracy - value) / accuracy for name, value in after.items()},
        accuracy_after=after,
    )


def _data() -> Any:
    return files("medstress.papers") / "data"
