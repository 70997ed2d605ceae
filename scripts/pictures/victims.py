"""Two victims with planted weaknesses, for pictures and tests of pages: no model is asked.

A name that is spelt like the right one draws them away from it, and so does one that shares no
letters with it: success over n has two regimes. Both know the questions of the sample; `hasty`
knows fewer, and a harmless edit unsettles it more often.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from importlib.resources import files
from math import exp

import numpy as np
from numpy.typing import NDArray
from rapidfuzz.fuzz import ratio
from rapidfuzz.process import cdist

_OPTION = re.compile(r"^([A-J])[:.)] (.+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Mind:
    name: str
    knows: float
    """How much the right name stands out."""
    near: float
    """Weight of being spelt like the right name."""
    far: float
    """Weight of being spelt unlike it."""
    unsettled: float
    """Weight of the wording of the whole prompt."""


_CAREFUL = _Mind(name="careful", knows=1.6, near=4, far=10, unsettled=0.1)
_HASTY = _Mind(name="hasty", knows=1.1, near=4, far=8, unsettled=0.2)


def careful(prompts: list[str]) -> list[dict[str, dict[str, float]]]:
    """Answer every prompt with a probability for each letter."""
    return [_answer(prompt, _CAREFUL) for prompt in prompts]


def hasty(prompts: list[str]) -> list[dict[str, dict[str, float]]]:
    """Answer every prompt with a probability for each letter."""
    return [_answer(prompt, _HASTY) for prompt in prompts]


def unlike(anchor: str, names: list[str]) -> NDArray[np.float64]:
    """Return how unlike the anchor each name is spelt, from 0 to 1."""
    alike = cdist([_plain(anchor)], [_plain(name) for name in names], scorer=ratio)[0]
    return np.asarray(1 - alike / 100, dtype=np.float64)


def _answer(prompt: str, mind: _Mind) -> dict[str, dict[str, float]]:
    options = _OPTION.findall(prompt)
    stem, key = _recognised(prompt)
    appeal = {}
    for letter, text in options:
        name = _plain(text)
        known = mind.knows if name == key else 0.0
        alike = ratio(name, key) / 100
        near = 0.0 if name == key else mind.near * max(0.0, alike - 0.45)
        far = mind.far * max(0.0, 0.25 - alike)
        taste = 1.9 * _luck(mind.name, stem, name) + mind.unsettled * _luck(prompt, letter)
        appeal[letter] = exp(known + near + far + taste)
    total = sum(appeal.values())
    return {"scores": {letter: value / total for letter, value in appeal.items()}}


def _recognised(prompt: str) -> tuple[str, str]:
    """Return the stem that the prompt asks, and its right answer, in letters and digits alone."""
    asked = _plain(prompt)
    return next((known for known in _questions() if known[0] in asked), (asked, ""))


@lru_cache(maxsize=1)
def _questions() -> tuple[tuple[str, str], ...]:
    text = (files("medstress.datasets") / "data" / "sample.jsonl").read_text("utf-8")
    rows = [json.loads(line) for line in text.splitlines()]
    return tuple(
        (_plain(row["question"]), _plain(row["options"][row["answer_idx"]])) for row in rows
    )


def _plain(text: str) -> str:
    return re.sub(r"\W+", "", text.lower())


def _luck(*parts: str) -> float:
    return sha256("\n".join(parts).encode()).digest()[0] / 255
