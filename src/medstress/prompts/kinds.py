"""What an edit may say about a patient, and the kinds of evidence it must not bring.

The attacker's instructions, the cues of the categories, and the gates `categories` and `evidence`
all read this list (METHODS 2.4 and 2.8).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One kind of clinical evidence."""

    name: str
    """As a gate names it, with its article."""
    told: str
    """As an attacker reads it."""
    words: tuple[str, ...]
    """Patterns, in the language of `medstress.attacks.medfuzz.word_patterns`."""
    history: bool = False
    """Whether it is history, which `allow_history` lets through."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Kinds:
    """The list."""

    characteristics: Mapping[str, Mapping[str, Any]]
    """Name -> `description` and `cues`: the defaults of a category of that name."""
    evidence: tuple[Evidence, ...]
    """In the order in which a gate looks for them."""
    plain: tuple[str, ...]
    """Idioms: patterns whose words mean nothing clinical."""
    lists: Mapping[str, tuple[str, ...]]
    """What `<name>` stands for in a pattern."""


@lru_cache(maxsize=1)
def kinds() -> Kinds:
    """Return the shipped list."""
    data = tomllib.loads((files("medstress.prompts") / "kinds.toml").read_text("utf-8"))
    lists = {name: tuple(words) for name, words in data["lists"].items()}
    return Kinds(
        characteristics={
            one["name"]: {
                "description": one["description"],
                "cues": [
                    cue
                    for each in one["cues"]
                    for cue in (lists[each[1:-1]] if each[0] == "<" else (each,))
                ],
            }
            for one in data["characteristic"]
        },
        evidence=tuple(
            Evidence(**{**one, "words": tuple(one["words"])}) for one in data["evidence"]
        ),
        plain=tuple(data["plain"]["words"]),
        lists=lists,
    )


def forbidden(*, allow_history: bool) -> tuple[Evidence, ...]:
    """Return the kinds of evidence that an edit must not bring."""
    return tuple(kind for kind in kinds().evidence if not (kind.history and allow_history))


def evidence_for_prompt(*, allow_history: bool) -> list[dict[str, str]]:
    """Return the forbidden kinds as a prompt reads them: `name` and `told` of each."""
    return [
        {"name": kind.name, "told": kind.told} for kind in forbidden(allow_history=allow_history)
    ]
