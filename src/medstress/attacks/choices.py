"""Defaults that depend on `choices` (METHODS, section 7).

`default` is ours, `as_published` what Xian et al. (2025) state, `as_released` what their released
code does. Only defaults depend on it: a key that the user sets keeps its value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from medstress.core.errors import UsageError, did_you_mean

BY_CHOICES: Any = None
"""Placeholder for a default that depends on `choices`; the dataclass fills it in."""

CHOICES = ("default", "as_published", "as_released")
MAX_EXPONENT = 200


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
