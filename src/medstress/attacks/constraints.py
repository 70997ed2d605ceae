"""Limits on a replacement: its edit distance, the constraint of the template.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Algorithm 1 (the edit distance epsilon).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from rapidfuzz.distance import Levenshtein

from medstress.attacks.protocol import Validity
from medstress.attacks.spans import span_text
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Mention, Question
from medstress.core.resources import Exclusions, Resources
from medstress.core.text import copy_case, copy_case_as_released
from medstress.core.validity import RULE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CaseCopy: TypeAlias = Callable[[str, str], str]
"""(name, replaced text) -> the name in the case it will have."""


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
        if self.unit == "tokens":
            one, other = original.split(), replacement.split()
            return Levenshtein.distance(one, other, score_cutoff=self.largest) <= self.largest
        distance = Levenshtein.distance(original, replacement, score_cutoff=self.largest)
        return distance <= self.largest


def parse_edit_limit(value: object, attack: str) -> EditLimit | None:
    """Return the limit that an experiment file gives; None for no limit.

    Args:
        value: characters as a whole number, or ``{"tokens": 3}``; 0 is no limit.
        attack: for messages.

    Raises:
        UsageError: the value is neither.

    >>> parse_edit_limit({"tokens": 3}, "swap")
    EditLimit(largest=3, unit='tokens')
    """
    unit, largest = "characters", value
    if isinstance(value, Mapping) and len(value) == 1:
        ((unit, largest),) = value.items()
    if unit not in ("characters", "tokens") or type(largest) is not int or largest < 0:
        raise UsageError(
            f"{attack}: max_edit_distance must be a whole number of characters or "
            f"{{tokens = 3}}, 0 for no limit, got {value!r}"
        )
    return EditLimit(largest=largest, unit=unit) if largest else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Replacements:
    """Which names may replace which entities."""

    limit: EditLimit | None
    """How far a name may lie from what it replaces."""
    rule: Exclusions
    """Which names are never drawn."""
    copy_case: CaseCopy
    """How a name is cased."""

    def obstacle(
        self, item: Question, spans: Sequence[Mention], resources: Resources
    ) -> str | None:
        """Return why no name may replace any of some spans, or None."""
        if self.spans(item, spans, resources):
            return None
        return "no name of the vocabulary lies within max_edit_distance"

    def names(self, item: Question, span: Mention, resources: Resources) -> NDArray[np.int64]:
        """Return the indices of the names that may replace a span, ascending."""
        import numpy as np

        names, original = resources.perturbations, span_text(item, span)
        allowed = names.allowed(item, self.rule)
        if self.limit is None:
            return allowed
        kept = [
            i
            for i in allowed.tolist()
            if self.limit.allows(original, self.copy_case(names.names[i], original))
        ]
        return np.array(kept, dtype=np.int64)

    def spans(
        self, item: Question, spans: Sequence[Mention], resources: Resources
    ) -> Sequence[Mention]:
        """Return the spans that at least one name within the limits may replace."""
        if self.limit is None:
            return spans
        return [span for span in spans if self.names(item, span, resources).size]


def case_copy(choices: str) -> CaseCopy:
    """Return how names are cased; the released code lower-cases all but the first character."""
    return copy_case_as_released if choices == "as_released" else copy_case


def goal_obstacle(goal: str, item: Question) -> str | None:
    """Return why a targeted attack cannot reach its option on this item, or None."""
    if goal in ("untargeted", "replaced"):
        return None
    if goal == item.key:
        return f"its key is {goal}, the target"
    if goal not in item.letters:
        return f"it has no option {goal}, the target"
    return None


def rule_validity(candidate: Candidate, resources: Resources) -> Validity:
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


def count_excluded(
    candidate: Candidate, resources: Resources, replacements: Replacements
) -> dict[str, int]:
    """Count the names that are never drawn, by reason, each under the first that fits.

    `edit_distance` are those beyond the limit.

    Args:
        candidate: one that the victim was asked about, or the clean item.
        resources: what the attack may read.
        replacements: which names may be drawn.
    """
    item = candidate.item
    counts = dict(resources.perturbations.n_excluded(item, replacements.rule))
    if replacements.limit is None or not candidate.edits:
        return counts
    (edit,) = candidate.edits
    span = Mention(field=edit.field, start=edit.start, end=edit.end, type="")
    near = replacements.names(item, span, resources)
    if beyond := resources.perturbations.allowed(item, replacements.rule).size - near.size:
        counts["edit_distance"] = beyond
    return counts
