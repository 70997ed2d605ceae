"""What attacks share that put a name of the vocabulary in place of an entity.

Which names may stand there, how they are cased, when an answer is a success, and the defaults that
depend on `choices` (METHODS, section 7): `default` is ours, `as_published` what Xian et al. state,
`as_released` what their released code does. Only defaults depend on it: a key that the user sets
keeps its value.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Algorithm 1 (the edit distance epsilon).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, PlainValidator
from rapidfuzz.distance import Levenshtein

from medstress.attacks.protocol import Attack, Ends, Validity
from medstress.attacks.spans import span_text
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Goal, parse_goal
from medstress.core.resources import Exclusions, Resources
from medstress.core.text import copy_case, copy_case_as_released
from medstress.core.validity import RULE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Choices: TypeAlias = Literal["default", "as_published", "as_released"]
Variants: TypeAlias = Literal["exclude", "mark"]
BY_CHOICES: Any = None
"""Placeholder for a default that depends on `choices`; the attack fills it in."""
MAX_BUDGET = 1000
MAX_EXPONENT = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class EditLimit:
    """The largest Levenshtein distance between a span and its replacement after case is copied."""

    largest: int
    """Edits allowed, at least 1."""
    unit: str = "characters"
    """`characters`, or `tokens`: words separated by white space."""

    def allows(self, original: str, replacement: str) -> bool:
        """Whether the replacement is close enough.

        >>> EditLimit(largest=1, unit="tokens").allows("acute gout", "Chronic gout")
        True
        """
        one, other = original, replacement
        if self.unit == "tokens":
            one, other = original.split(), replacement.split()  # type: ignore[assignment]
        return Levenshtein.distance(one, other, score_cutoff=self.largest) <= self.largest


def edit_limit(value: object) -> EditLimit | None:
    """Return the limit that `max_edit_distance` gives; None for no limit.

    Args:
        value: characters as a whole number, or ``{"tokens": 3}``; 0 is no limit.

    Raises:
        ValueError: the value is neither.

    >>> edit_limit({"tokens": 3})
    EditLimit(largest=3, unit='tokens')
    """
    unit, largest = "characters", value
    if isinstance(value, Mapping) and len(value) == 1:
        ((unit, largest),) = value.items()
    if unit not in ("characters", "tokens") or type(largest) is not int or largest < 0:
        raise ValueError("expected a whole number of characters or {tokens = 3}, 0 for no limit")
    return EditLimit(largest=largest, unit=unit) if largest else None


def _checked_distance(value: Any) -> Any:
    edit_limit(value)
    return value


def _checked_goal(value: str) -> str:
    try:
        parse_goal(value)
    except UsageError as error:
        raise ValueError(str(error).partition(": ")[2]) from None
    return value


EditDistance: TypeAlias = Annotated[int | Mapping[str, int], PlainValidator(_checked_distance)]
"""Characters, or `{tokens = 3}`; 0 is no limit."""
GoalText: TypeAlias = Annotated[str, AfterValidator(_checked_goal)]
"""`untargeted` (any wrong option), `replaced` (the edited option), or an option letter."""


def exclusions(choices: str, variants: str | None = None) -> Exclusions:
    """Return the rule that says which names are never drawn (METHODS 7, row 19).

    Args:
        choices: one of `Choices`.
        variants: whether variants of the key are left out (`exclude`), or asked and marked; by
            default `exclude`, and `mark` where `choices` is not `default`.

    >>> exclusions("default", "mark"), exclusions("as_published"), exclusions("default")
    ('mark', 'key_string', 'exclude')
    """
    if (variants or ("exclude" if choices == "default" else "mark")) == "exclude":
        return "exclude"
    # The paper and its code drop the key's text alone; we never repeat another option.
    return "mark" if choices == "default" else "key_string"


class LeavesOut(ABC):
    """Mixin of attacks that know which names of the vocabulary they never draw."""

    @abstractmethod
    def n_excluded(self, candidate: Any, resources: Any) -> Mapping[str, int] | None:
        """Count these names by reason, each under the first that fits; None if unknown.

        Args:
            candidate: one that the victim was asked about, or the clean item.
            resources: what the attack may read.
        """


class Substitution(LeavesOut, Attack):
    """Base of attacks that replace one entity by names; they have these parameters among theirs."""

    goal: GoalText
    choices: Choices
    variants: Variants
    continue_on_invalid: bool
    unreadable_is_success: bool
    max_edit_distance: EditDistance

    @abstractmethod
    def dependent_defaults(self) -> dict[str, Any]:
        """Return the defaults of the keys whose default depends on other keys."""

    def __post_init__(self) -> None:
        for key, value in self.dependent_defaults().items():
            if getattr(self, key) is None:
                object.__setattr__(self, key, value)  # frozen from here on

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters for labels: those that do not follow from others."""
        defaults = {**self.dependent_defaults(), "field": "options"}
        del defaults["budget"]
        return {
            key: None if key in defaults and value == defaults[key] else value
            for key, value in self.spec().items()
        }

    @property
    def success(self) -> Goal:
        """The goal of the file."""
        return parse_goal(self.goal, unreadable=self.unreadable_is_success)

    @property
    def ends(self) -> Ends:
        """The first success, or the first that no rule refutes."""
        return "valid" if self.continue_on_invalid else "success"

    @property
    def rule(self) -> Exclusions:
        """Which names are never drawn."""
        return exclusions(self.choices, self.variants)

    def cased(self, name: str, original: str) -> str:
        """Return a name in the case of what it replaces.

        The released code lower-cases all but the first character.
        """
        as_released = self.choices == "as_released"
        return (copy_case_as_released if as_released else copy_case)(name, original)

    def names(self, item: Question, span: Mention, resources: Resources) -> NDArray[np.int64]:
        """Return the indices of the names that may replace a span, ascending."""
        import numpy as np

        names, original = resources.perturbations, span_text(item, span)
        allowed, limit = names.allowed(item, self.rule), edit_limit(self.max_edit_distance)
        if limit is None:
            return allowed
        near = (limit.allows(original, self.cased(names.names[i], original)) for i in allowed)
        return allowed[np.fromiter(near, dtype=np.bool_, count=len(allowed))]

    def replaceable(
        self, item: Question, spans: Sequence[Mention], resources: Resources
    ) -> Sequence[Mention]:
        """Return the spans that at least one name within the limit may replace."""
        if not self.max_edit_distance:
            return spans
        return [span for span in spans if self.names(item, span, resources).size]

    def obstacle_of(
        self, item: Question, spans: Sequence[Mention], resources: Resources
    ) -> str | None:
        """Return why no name may replace any of some spans, or that no answer can be the goal."""
        if self.goal not in ("untargeted", "replaced"):
            if self.goal == item.key:
                return f"its key is {self.goal}, the target"
            if self.goal not in item.letters:
                return f"it has no option {self.goal}, the target"
        if reason := resources.perturbations.obstacle(item):
            return reason
        if resources.perturbations.allowed(item, self.rule).size == 0:
            return "no name of the vocabulary may replace it"
        if not self.replaceable(item, spans, resources):
            return "no name of the vocabulary lies within max_edit_distance"
        return None

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Refute a success whose name the default exclusions would have left out.

        Otherwise the validity stays unknown; the reason `rule` says that the rules were checked.
        """
        (edit,) = candidate.edits
        names, item = resources.perturbations, candidate.item
        objection = names.objection(item, edit.replacement)
        return Validity(
            valid=None if objection is None else False,
            reason=objection or RULE,
            variant_class=names.variant_class(item, edit.replacement),
            evidence=tuple(names.evidence(item, edit.replacement, edit.field)),
        )

    def n_excluded(self, candidate: Candidate, resources: Resources) -> dict[str, int]:
        """Count the names that are never drawn, by reason, each under the first that fits.

        `edit_distance` are those beyond the limit, once a candidate has the span that it limits.
        """
        item = candidate.item
        counts = dict(resources.perturbations.n_excluded(item, self.rule))
        if not self.max_edit_distance or not candidate.edits:
            return counts
        (edit,) = candidate.edits
        span = Mention(field=edit.field, start=edit.start, end=edit.end, type="")
        n_allowed = resources.perturbations.allowed(item, self.rule).size
        if beyond := n_allowed - self.names(item, span, resources).size:
            counts["edit_distance"] = beyond
        return counts
