"""Defaults that depend on `choices`, and the ranges of DiscreteZOO's parameters."""

from __future__ import annotations

from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

from medstress.attacks.constraints import parse_edit_limit
from medstress.errors import UsageError, did_you_mean
from medstress.outcomes import parse_goal

if TYPE_CHECKING:
    from medstress.attacks.discrete_zoo import DiscreteZoo

NAME = "discrete_zoo"
LEAST_STEP = 3
"""Queries of the smallest step: two names for the estimate and one update."""
MAX_BUDGET = 1000
MAX_RATE = 1_000_000
MAX_KAPPA = 100
_LARGEST = 1e300

_WORDS = {
    "choices": ("default", "as_published", "as_released"),
    "word_ranking": ("random", "importance", "given"),
    "answers": ("soft", "hard"),
    "aggregate": ("sum", "mean"),
    "rounds": ("until_budget", "one_pass"),
    "update": ("gradient", "none"),
    "variants": ("exclude", "mark"),
}
_COUNTS = {
    "budget": (LEAST_STEP, MAX_BUDGET, "two names and the step they point to"),
    "candidates": (2, MAX_BUDGET, "an estimate takes two points"),
    "multiplier": (1, MAX_BUDGET, ""),
}
_FLAGS = (
    "normalise_displacements",
    "normalise_differences",
    "count_baseline",
    "continue_on_invalid",
    "unreadable_is_success",
)


def by_choices(default: Any, **others: Any) -> Any:
    """Declare a field whose default depends on the field `choices`; None stands for "not set"."""
    return field(default=None, metadata={"default": default, **others})


def dependent_defaults(attack: DiscreteZoo) -> dict[str, Any]:
    """Return the defaults of the fields whose default depends on other fields."""
    defaults = {
        each.name: each.metadata.get(str(attack.choices), each.metadata["default"])
        for each in fields(attack)
        if each.metadata
    }
    defaults["continue_on_invalid"] = (attack.variants or defaults["variants"]) == "mark"
    return defaults


def settle(attack: DiscreteZoo) -> dict[str, Any]:
    """Return the values of all fields that were not set."""
    defaults = dependent_defaults(attack)
    return {key: value for key, value in defaults.items() if getattr(attack, key) is None}


def check(attack: DiscreteZoo) -> None:
    """Check every parameter.

    Raises:
        UsageError: one sentence that names the key.
    """
    for key, known in _WORDS.items():
        value = getattr(attack, key)
        if value not in known:
            hint = did_you_mean(str(value), known)
            raise UsageError(
                f"discrete_zoo: {key} must be one of {', '.join(known)}, got {value!r}{hint}"
            )
    for key, (low, high, why) in _COUNTS.items():
        value = getattr(attack, key)
        if type(value) is not int or not low <= value <= high:
            shown = f" ({why})" if why else ""
            raise UsageError(
                f"discrete_zoo: {key} must be a whole number from {low}{shown} to {high}, got "
                f"{value!r}"
            )
    for key in _FLAGS:
        if type(getattr(attack, key)) is not bool:
            raise UsageError(
                f"discrete_zoo: {key} must be true or false, got {getattr(attack, key)!r}"
            )
    _check_numbers(attack)
    parse_edit_limit(attack.max_edit_distance, NAME)
    try:
        parse_goal(attack.goal)
    except UsageError as error:
        raise UsageError(f"{NAME}: {error}") from None
    if attack.word_ranking == "importance" and attack.answers == "hard":
        raise UsageError(
            "discrete_zoo: word_ranking = 'importance' needs the probability of the key, which "
            "answers = 'hard' ignores; change one of the two"
        )


def _check_numbers(attack: DiscreteZoo) -> None:
    if not (_is_number(attack.learning_rate) and 0 < attack.learning_rate <= MAX_RATE):
        raise UsageError(
            "discrete_zoo: learning_rate must be a number above 0, at most "
            f"{MAX_RATE:,}, got {attack.learning_rate!r}"
        )
    if not (_is_number(attack.kappa) and 0 <= attack.kappa <= MAX_KAPPA):
        raise UsageError(
            f"discrete_zoo: kappa must be a number from 0 to {MAX_KAPPA}, got {attack.kappa!r}"
        )
    threshold = attack.similarity_threshold
    if threshold != "off" and not (_is_number(threshold) and -1 <= float(threshold) <= 1):
        raise UsageError(
            "discrete_zoo: similarity_threshold must be 'off' or a cosine from -1 to 1, got "
            f"{threshold!r}"
        )


def _is_number(value: Any) -> bool:
    # Not isfinite: a whole number may be too large for it.
    return type(value) in (int, float) and -_LARGEST <= value <= _LARGEST
