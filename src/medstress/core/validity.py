"""Who may say that the key still holds after an edit.

Rules know words and lists, so they can refute a success and never vouch for one. `valid` of a
trial is true where a person or a panel of judges says so, false where one of these or a rule
refutes it, and None otherwise: unknown.
"""

from __future__ import annotations

REVIEW, PANEL, RULE = "review", "panel", "rule"
"""Reasons of a trial's validity; others name the rule or the gate that refutes it."""

EVIDENCE_CHANGED = "evidence_changed"
"""Refutes every success of an attack after which the text no longer supports the key: nobody can
vouch for what is no error."""

VOUCHERS = (REVIEW, PANEL)
"""Who can vouch, the most trusted first."""

VARIANT_CLASSES = ("same_words", "key_plus_words", "key_subset", "synonym", "different")
"""The classes of a name against a key, in the order in which they are tested (METHODS 3.3)."""


def known_validity(valid: bool | None, reason: str | None) -> bool | None:
    """Return the validity that a claim amounts to: true only from one who can vouch.

    >>> known_validity(True, "rule"), known_validity(True, "panel"), known_validity(False, "rule")
    (None, True, False)
    """
    return None if valid and reason not in VOUCHERS else valid
