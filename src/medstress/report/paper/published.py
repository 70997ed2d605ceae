"""The numbers the papers print, to be put beside ours where the same victim was run."""

from __future__ import annotations

import csv
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from medstress.report.paper.arms import VictimFacts

METHODS = ("random", "near", "far")


@dataclass(frozen=True, slots=True, kw_only=True)
class Published:
    """One line of a published table; no intervals are printed there."""

    source: str
    """`xian2025` or `xian2024`."""
    victim: str
    """As the paper calls it."""
    dataset: str
    """`medqa` or `medmcqa`."""
    entity: str
    """`drugs` or `diseases`."""
    accuracy: float
    """On the clean items."""
    asr: Mapping[str, float]
    """Success of one query by method, as a share; R-CAP in the first version."""
    accuracy_after: Mapping[str, float]
    """Accuracy under attack by method; printed by the first version only."""


def find(source: str, victim: VictimFacts, dataset: str, entity: str) -> Published | None:
    """The published line of the same victim, data set and group, or None.

    A victim is the same by its model's name where it has a model, else by its own name: a
    stand-in that is merely called like a published victim is another one.

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
    """What the papers call this victim; None where they did not run it."""
    called = victim.model or victim.name
    if not called or victim.backend == "mock":
        return None
    known = _names()
    last = called.rstrip("/").rpartition("/")[2]
    return known.get(_bare(called)) or known.get(_bare(last))


def other_prompt(dataset: str, prompt: str | None) -> str | None:
    """The papers' prompt for a data set where ours is another; None where it is not, or unknown.

    Args:
        dataset: the data set's kind, such as `medmcqa`.
        prompt: the name of ours.

    >>> other_prompt("medmcqa", "qstab"), other_prompt("medmcqa", "medmcqa")
    ('medmcqa', None)
    """
    theirs = _victims()["prompt"].get(dataset)
    return str(theirs) if theirs and prompt and prompt != theirs else None


def source_line(source: str) -> str:
    """The reference of a source, for captions."""
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
    found = {}
    for row in csv.DictReader(line for line in text.splitlines() if not line.startswith("#")):
        line = _published(row)
        found[line.source, line.victim, line.dataset, line.entity] = line
    return found


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
    return files("medstress.report.paper") / "data"
