"""What people read for the words of rows."""

from __future__ import annotations

from medstress.core.evidence import Evidence

VERDICTS = {
    "flipped": "misled",
    "held": "held",
    "measured": "measured",
    "cut_short": "cut short",
    "failed": "failed",
    "already_wrong": "wrong from the start",
    "unreadable": "unreadable from the start",
    "not_attackable": "nothing to attack",
}
"""Verdict -> words, in the order of lists."""

VALIDITY = {True: "yes", False: "no", None: "not known"}
"""Whether the key still holds -> words."""

_REASONS = {
    "review": "says a person",
    "panel": "says a panel of judges",
    "rule": "no rule refutes it",
    "evidence_changed": "the text no longer supports it",
}


def verdict_words(verdict: str) -> str:
    """Return a verdict in words."""
    return VERDICTS.get(verdict, verdict.replace("_", " "))


def validity_words(valid: bool | None, reason: str | None) -> str:
    """Return whether the key still holds, and who or what says so.

    >>> validity_words(None, "rule"), validity_words(False, "variant")
    ('not known (no rule refutes it)', 'no (variant)')
    """
    return VALIDITY[valid] + (f" ({_REASONS.get(reason, reason)})" if reason else "")


def evidence_words(piece: Evidence) -> str:
    """Return one piece of evidence in words.

    >>> evidence_words(Evidence(kind="parent", source="MeSH"))
    'parent (MeSH): settles nothing'
    >>> evidence_words(Evidence(kind="judges", source="panel", valid=True))
    'judges (panel): the key is still right'
    """
    said = {True: "the key is still right", False: "the key is not right alone"}
    told = said[piece.valid] if piece.valid is not None else "settles nothing"
    return f"{piece.kind.replace('_', ' ')} ({piece.source}): {told}"


def repeats_words(repeats: bool | None) -> str:
    """Return what asking a success again alone gave."""
    return {True: "misled again", False: "not misled again", None: "not asked again"}[repeats]


def all_words() -> dict[str, dict[str, str]]:
    """Return the words as the script of a page reads them: what -> key -> words."""
    valid = {"yes": VALIDITY[True], "no": VALIDITY[False], "unknown": VALIDITY[None]}
    return {"verdict": dict(VERDICTS), "valid": valid, "reason": dict(_REASONS)}
