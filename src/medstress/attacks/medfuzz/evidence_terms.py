"""Clinical evidence in an insertion, by kind (`medstress.tasks.prompt_sets` lists them)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files
from typing import Any

from medstress.attacks.medfuzz.word_patterns import Patterns, Words

_TITLED = re.compile(
    r"\b(?:called|named|nicknamed|titled|entitled)((?: (?:[A-Z][\w'’-]*|of|the))+)"
)
"""A title is no finding: a band called Cardiac Arrest."""


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
    file = files("medstress.tasks") / "conversations" / "kinds.toml"
    data = tomllib.loads(file.read_text("utf-8"))
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


def evidence_in(text: str, *, allow_history: bool) -> list[str]:
    """List the kinds of clinical evidence in a text, each with the first words that show it.

    With `allow_history`, words about the history are ignored: a father's stroke is no diagnosis of
    the patient.

    >>> evidence_in("who works as a teacher", allow_history=False)
    []
    >>> evidence_in("who recently travelled far", allow_history=False)
    ["travel history ('travelled')"]
    >>> evidence_in("who smokes", allow_history=False)
    []
    >>> evidence_in("who coughs and travelled", allow_history=False)
    ["a symptom or physical sign ('coughs')", "travel history ('travelled')"]
    """
    words = _searchable(text, allow_history=allow_history)
    listed = []
    for kind in forbidden(allow_history=allow_history):
        if found := sorted(_patterns()[kind.name].find(words)):
            first, end = found[0]
            for start, stop in found:
                end = max(end, stop) if start < end else end
            listed.append(f"{kind.name} ({words.text_of((first, end))!r})")
    return listed


def _searchable(text: str, *, allow_history: bool) -> Words:
    """Split a text, and hide the words that count as no evidence."""
    for found in reversed(list(_TITLED.finditer(text))):
        start, end = found.span(1)
        text = text[:start] + "_" * (end - start) + text[end:]
    words = Words(text)
    words.hide(list(_plain().find(words, heads=True)))
    if allow_history:
        history = (kind for kind in kinds().evidence if kind.history)
        words.hide([span for kind in history for span in _patterns()[kind.name].find(words)])
    return words


@lru_cache(maxsize=1)
def _lists() -> dict[str, Patterns]:
    lists: dict[str, Patterns] = {}
    lists.update({name: Patterns(words, lists) for name, words in kinds().lists.items()})
    return lists


@lru_cache(maxsize=1)
def _plain() -> Patterns:
    return Patterns(kinds().plain, _lists())


@lru_cache(maxsize=1)
def _patterns() -> dict[str, Patterns]:
    return {kind.name: Patterns(kind.words, _lists()) for kind in kinds().evidence}
