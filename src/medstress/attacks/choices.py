"""Defaults that depend on `choices` (METHODS, section 7).

`default` is ours, `as_published` what Xian et al. (2025) state, `as_released` what their released
code does. Only defaults depend on it: a key that the user sets keeps its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.resources import Exclusions

BY_CHOICES: Any = None
"""Placeholder for a default that depends on `choices`; the dataclass fills it in."""

CHOICES = ("default", "as_published", "as_released")
VARIANTS = ("exclude", "mark")
BUDGET = 8
MAX_EXPONENT = 200


def default_budget(choices: str) -> int:
    """Return the number of perturbed queries per item.

    The released code starts its counter at 1 after the clean call, so one query fewer is left
    (row 2).

    >>> default_budget("default"), default_budget("as_released")
    (8, 7)
    """
    return BUDGET - 1 if choices == "as_released" else BUDGET


def default_victim_span(choices: str, sampler: str) -> str:
    """Return which span is replaced: the nearest, for every sampler.

    The released script for random sampling takes a random distractor (row 18).
    """
    return "random" if choices == "as_released" and sampler == "random" else "nearest"


def default_variants(choices: str) -> str:
    """Return whether variants of the key are left out, or asked and marked (row 19)."""
    return "exclude" if choices == "default" else "mark"


def default_unreadable(choices: str) -> bool:
    """Whether an unreadable answer is a success (row 3)."""
    return choices == "as_released"


def exclusions(choices: str, variants: str) -> Exclusions:
    """Return the rule that says which names are never drawn (row 19).

    >>> exclusions("default", "mark"), exclusions("as_published", "mark")
    ('mark', 'key_string')
    """
    if variants == "exclude":
        return "exclude"
    # The paper and its code drop the key's text alone; we never repeat another option.
    return "mark" if choices == "default" else "key_string"


def check_word(attack: str, key: str, value: object, known: Iterable[str]) -> None:
    """Raise if a value is not one of the known words.

    Raises:
        UsageError: it is none of them.
    """
    words = tuple(known)
    if not isinstance(value, str) or value not in words:
        raise UsageError(
            f"{attack}: {key}: expected one of {', '.join(words)}, got {value!r}"
            f"{did_you_mean(str(value), words)}"
        )


def check_budget(attack: str, budget: object, most: int, key: str = "budget") -> None:
    """Raise if a budget, or the value of another key, is not a whole number from 1 to the most.

    Raises:
        UsageError: it is not.
    """
    if type(budget) is not int or not 1 <= budget <= most:
        raise UsageError(f"{attack}: {key} must be a whole number from 1 to {most}, got {budget!r}")


def check_flag(attack: str, key: str, value: object) -> None:
    """Raise if a value is neither true nor false.

    Raises:
        UsageError: it is neither.
    """
    if type(value) is not bool:
        raise UsageError(f"{attack}: {key} must be true or false, got {value!r}")
