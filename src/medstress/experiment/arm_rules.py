"""The rules of an arm that hold for what is asked after it: its goal and its exclusions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.attacks.choices import default_variants, exclusions
from medstress.attacks.zeroth_order import cosines
from medstress.items import Question
from medstress.resources import Exclusions, Resources
from medstress.text import Edit


def goal_told(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The goal of an arm where it is not simply a readable wrong answer.

    It is part of what an inquiry tells, and so of its identity: one that was asked with another
    goal is asked again, and those of the plain goal keep theirs.

    >>> goal_told({"goal": "untargeted"}), goal_told({"goal": "C"})
    ({}, {'goal': 'C'})
    """
    told = {"goal": spec.get("goal", "untargeted")}
    plain = {"goal": "untargeted", "unreadable_is_success": False}
    told["unreadable_is_success"] = bool(spec.get("unreadable_is_success", False))
    return {key: value for key, value in told.items() if value != plain[key]}


def names_told(spec: Mapping[str, Any]) -> dict[str, Any]:
    """The exclusions of an arm where they are not the default ones, likewise.

    >>> names_told({"choices": "as_published", "variants": "mark"})
    {'exclusions': 'key_string'}
    """
    told = {"exclusions": rule_of(spec), "similarity_threshold": _threshold(spec)}
    plain = {"exclusions": "exclude", "similarity_threshold": None}
    return {key: value for key, value in told.items() if value != plain[key]}


def rule_of(spec: Mapping[str, Any]) -> Exclusions:
    """Which names an arm never draws; the default ones where it does not say."""
    choices = str(spec.get("choices") or "default")
    return exclusions(choices, str(spec.get("variants") or default_variants(choices)))


def names_allowed(
    item: Question, place: Edit, resources: Resources, spec: Mapping[str, Any]
) -> NDArray[np.int64]:
    """The names of the vocabulary that an arm may put where an edit is, but for its edit limit.

    Args:
        item: the item.
        place: an edit of the span.
        resources: the group's.
        spec: the arm's parameters.

    Returns:
        Indices, ascending.
    """
    names = resources.perturbations
    allowed, threshold = names.allowed(item, rule_of(spec)), _threshold(spec)
    if threshold is None:
        return allowed
    original = item.text_of(place.field)[place.start : place.end]
    return allowed[cosines(names.vectors, names.vector(original))[allowed] >= threshold]


def _threshold(spec: Mapping[str, Any]) -> float | None:
    value = spec.get("similarity_threshold", "off")
    return None if isinstance(value, str) else float(value)
