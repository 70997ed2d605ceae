"""Who may say that the key still holds after an edit.

Rules know words and lists, and judges are models, so only people vouch for a success. `valid` of a
trial is true where they do, false where they or a rule refute it, and None otherwise: unknown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

REVIEW, RULE = "review", "rule"
"""Reasons of a trial's validity; others name the rule or the gate that refutes it."""

EVIDENCE_CHANGED = "evidence_changed"
"""Refutes every success of an attack after which the text no longer supports the key: no one can
vouch for what is no error."""

VARIANT_CLASSES = ("same_words", "key_plus_words", "key_subset", "synonym", "different")
"""The classes of a name against a key, in the order in which they are tested (METHODS 3.3)."""


def known_validity(valid: bool | None, reason: str | None) -> bool | None:
    """Return the validity that a claim amounts to: true only from people.

    >>> known_validity(True, "rule"), known_validity(True, "review"), known_validity(False, "rule")
    (None, True, False)
    """
    return None if valid and reason != REVIEW else valid


# -- Evidence -------------------------------------------------------------------------------------
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
