"""What speaks for or against the key after a success, each piece with its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from medstress.core.validity import REVIEW, RULE

PEOPLE = "people"
KINDS = (
    *("same_concept", "synonym", "abbreviation", "brand", "generic", "salt"),
    *("combination_product", "parent", "child", "sibling", "other_concept"),
    *("same_words", "key_plus_words", "key_subset"),
    *("duplicate_of_option", "exception_asked", "gate", PEOPLE),
)
"""What a piece of evidence can be about."""

_OF_RULES = {
    "equal_to_option": "duplicate_of_option",
    "key_duplicate": "same_concept",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """One piece of evidence about the key after an edit."""

    kind: str
    """One of `KINDS`."""
    source: str
    """Who or what says so: a table, a hierarchy, the rules, `review`."""
    valid: bool | None = None
    """Whether it says that the key still holds. Only people can say yes.
    None: it points at something to look at, and settles nothing. What the trial's validity is does
    not follow from it: rules and people alone decide that."""

    def as_json(self) -> dict[str, Any]:
        """Return its fields."""
        return {"kind": self.kind, "source": self.source, "valid": self.valid}


def of_reason(reason: str | None, valid: bool | None) -> tuple[Evidence, ...]:
    """Return the evidence that the reason of a validity amounts to; none if rules found nothing.

    >>> of_reason("synonym", False)
    (Evidence(kind='synonym', source='rules', valid=False),)
    >>> of_reason("review", True)[0].kind, of_reason("rule", None)
    ('people', ())
    """
    if reason is None or reason == RULE:
        return ()
    if reason == REVIEW:
        return (Evidence(kind=PEOPLE, source=reason, valid=valid),)
    kind = _OF_RULES.get(reason, reason)
    return (Evidence(kind=kind if kind in KINDS else "gate", source="rules", valid=valid),)


def after_success(
    pieces: Sequence[Evidence], reason: str | None, valid: bool | None
) -> tuple[Evidence, ...]:
    """Return pieces with what the reason of a validity adds: nothing to those that explain it."""
    return tuple(pieces) if pieces and valid is False else (*pieces, *of_reason(reason, valid))
