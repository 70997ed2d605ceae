"""The exclusions of an arm, which also hold for its analyses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.attacks.choices import default_variants, exclusions
from medstress.attacks.discrete_zoo.gradient import cosines
from medstress.core.items import Question
from medstress.core.resources import Exclusions, Resources
from medstress.store.trials import Span


def exclusions_of(spec: Mapping[str, Any]) -> Exclusions:
    """Return which names an arm never draws."""
    choices = str(spec.get("choices") or "default")
    return exclusions(choices, str(spec.get("variants") or default_variants(choices)))


def names_allowed(
    item: Question, span: Span, resources: Resources, spec: Mapping[str, Any]
) -> NDArray[np.int64]:
    """Find the names of the vocabulary that an arm may put into a span.

    Its limit on edit distance is not applied here.

    Args:
        item: the item.
        span: field, start and end of the text that a name replaces.
        resources: the group's resources.
        spec: the arm's parameters.

    Returns:
        Indices into the vocabulary, ascending.
    """
    names = resources.perturbations
    allowed, threshold = names.allowed(item, exclusions_of(spec)), _threshold(spec)
    if threshold is None:
        return allowed
    field, start, end = span
    original = item.text_of(field)[start:end]
    return allowed[cosines(names.vectors, names.vector(original))[allowed] >= threshold]


def _threshold(spec: Mapping[str, Any]) -> float | None:
    value = spec.get("similarity_threshold", "off")
    return None if isinstance(value, str) else float(value)
