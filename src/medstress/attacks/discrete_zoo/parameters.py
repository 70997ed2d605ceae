"""DiscreteZOO's parameters: defaults, some of which depend on `choices`, and ranges."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from medstress.attacks.constraints import parse_edit_limit
from medstress.attacks.protocol import Attack
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.outcomes import parse_goal

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


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooParameters(Attack):
    """The parameters of `DiscreteZoo`, checked.

    Raises:
        UsageError: a parameter is out of range; one sentence that names the key.
    """

    budget: int = by_choices(8, as_released=7)
    """Perturbed queries per item, 3 (two names and one step) to 1,000. Default 8; 7 as_released,
    where the clean call is the first of 8."""
    choices: str = "default"
    """`default`; `as_published`: `answers = "hard"`, `aggregate = "mean"`,
    `rounds = "one_pass"`, `variants = "mark"`; `as_released`: what the released code amounts to,
    draws from a neighbourhood without any gradient. Changes only defaults."""
    candidates: int = by_choices(3, as_released=10)
    """M, names asked for one estimate, at least 2."""
    learning_rate: float = by_choices(10.0, as_released=0.1)
    """lambda, > 0, on unit vectors. With 10 the estimate decides where the step ends, with 0.1
    the entity does; larger changes little."""
    similarity_threshold: float | str = "off"
    """Smallest cosine of a name and the entity it replaces; `off`: no limit."""
    word_ranking: str = by_choices("random", as_released="given")
    """Order of the entities: `random`; `importance`: largest drop of the key's log probability
    when the entity is deleted first, one query each; `given`: as in the text."""
    answers: str = by_choices("soft", as_published="hard", as_released="hard")
    """`soft`: the victim's option probabilities; `hard`: only what it answers, so that the
    estimate is always zero."""
    multiplier: int = 5
    """Names are drawn from the `multiplier` * M nearest that were not asked yet."""
    kappa: float = 0.0
    """How far beyond the decision boundary the score still grows."""
    normalise_displacements: bool = True
    """Whether directions are scaled to length 1."""
    normalise_differences: bool = True
    """Whether changes of the score are divided by the distance."""
    aggregate: str = by_choices("sum", as_published="mean")
    """`sum` or `mean` over the M names."""
    rounds: str = by_choices("until_budget", as_published="one_pass", as_released="one_pass")
    """`until_budget`: one entity after another, again and again with fresh names; `one_pass`: each
    entity once."""
    update: str = by_choices("gradient", as_released="none")
    """`gradient`; `none`: the step is left out, which leaves draws from a neighbourhood."""
    variants: str = by_choices("exclude", as_published="mark", as_released="mark")
    """`exclude`: variants and synonyms of the key are never asked; `mark`: they are asked."""
    goal: str = "untargeted"
    """The answer that is a success: `untargeted` (any wrong option), `replaced` (the option that
    was edited), or an option letter."""
    continue_on_invalid: bool = by_choices(None)
    """Whether the search goes on after a success that a rule refutes. Default: true where
    variants is `mark`."""
    unreadable_is_success: bool = by_choices(False, as_released=True)
    """Whether an unreadable answer is a success."""
    max_edit_distance: int | Mapping[str, int] = 0
    """Largest edit distance of entity and name: characters, or `{tokens = 3}`; 0 = no limit."""
    count_baseline: bool = by_choices(False)
    """Whether the query on the clean item counts against the budget."""

    def __post_init__(self) -> None:
        for key, value in self.dependent_defaults().items():
            if getattr(self, key) is None:
                object.__setattr__(self, key, value)
        _check(self)

    def dependent_defaults(self) -> dict[str, Any]:
        """Return the defaults of the fields whose default depends on other fields."""
        defaults = {
            each.name: each.metadata.get(str(self.choices), each.metadata["default"])
            for each in fields(self)
            if each.metadata
        }
        defaults["continue_on_invalid"] = (self.variants or defaults["variants"]) == "mark"
        return defaults


def _check(attack: ZooParameters) -> None:
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


def _check_numbers(attack: ZooParameters) -> None:
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
