"""Who may say that the key still holds after an edit.

Rules know words and lists, and judges are models, so only people vouch for a success. `valid` of a
trial is true where they do, false where they or a rule refute it, and None otherwise: unknown.
"""

from __future__ import annotations

REVIEW, RULE = "review", "rule"
"""Reasons of a trial's validity; others name the rule or the gate that refutes it."""

EVIDENCE_CHANGED = "evidence_changed"
"""Refutes every success of an attack after which the text no longer supports the key: nobody can
vouch for what is no error."""

VARIANT_CLASSES = ("same_words", "key_plus_words", "key_subset", "synonym", "different")
"""The classes of a name against a key, in the order in which they are tested (METHODS 3.3)."""


def known_validity(valid: bool | None, reason: str | None) -> bool | None:
    """Return the validity that a claim amounts to: true only from people.

    >>> known_validity(True, "rule"), known_validity(True, "review"), known_validity(False, "rule")
    (None, True, False)
    """
    return None if valid and reason != REVIEW else valid
