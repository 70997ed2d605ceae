"""The rules of an arm that also hold for its analyses: its goal and its exclusions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.attacks.choices import default_variants, exclusions
from medstress.attacks.discrete_zoo.gradient import cosines
from medstress.core.items import Question
from medstress.core.resources import Exclusions, Resources
from medstress.core.text import Edit


def special_goal(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the goal of an arm if it differs from the default, a readable wrong answer.

    It enters the identity of an inquiry: a changed goal is asked again, and inquiries with the
    default goal keep the identity that earlier versions gave them.

    >>> special_goal({"goal": "untargeted"}), special_goal({"goal": "C"})
    ({}, {'goal': 'C'})
    """
    rules = {
        "goal": spec.get("goal", "untargeted"),
        "unreadable_is_success": bool(spec.get("unreadable_is_success", False)),
    }
    default = {"goal": "untargeted", "unreadable_is_success": False}
    return {key: value for key, value in rules.items() if value != default[key]}


def special_exclusions(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exclusions of an arm that differ from the default, as `special_goal` does.

    >>> special_exclusions({"choices": "as_published", "variants": "mark"})
    {'exclusions': 'key_string'}
    """
    rules = {"exclusions": exclusions_of(spec), "similarity_threshold": _threshold(spec)}
    default = {"exclusions": "exclude", "similarity_threshold": None}
    return {key: value for key, value in rules.items() if value != default[key]}


def exclusions_of(spec: Mapping[str, Any]) -> Exclusions:
    """Return which names an arm never draws."""
    choices = str(spec.get("choices") or "default")
    return exclusions(choices, str(spec.get("variants") or default_variants(choices)))


def names_allowed(
    item: Question, place: Edit, resources: Resources, spec: Mapping[str, Any]
) -> NDArray[np.int64]:
    """Find the names of the vocabulary that an arm may put into a span.

    Its limit on edit distance is not applied here.

    Args:
        item: the item.
        place: an edit of the span.
        resources: the group's resources.
        spec: the arm's parameters.

    Returns:
        Indices into the vocabulary, ascending.
    """
    names = resources.perturbations
    allowed, threshold = names.allowed(item, exclusions_of(spec)), _threshold(spec)
    if threshold is None:
        return allowed
    original = item.text_of(place.field)[place.start : place.end]
    return allowed[cosines(names.vectors, names.vector(original))[allowed] >= threshold]


def _threshold(spec: Mapping[str, Any]) -> float | None:
    value = spec.get("similarity_threshold", "off")
    return None if isinstance(value, str) else float(value)
