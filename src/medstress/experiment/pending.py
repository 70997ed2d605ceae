"""Keys of the interface that this version does not have yet: refused, never ignored."""

from __future__ import annotations

from typing import Any

from medstress.errors import did_you_mean

ONLY: dict[tuple[str, str], tuple[Any, ...]] = {}
"""Keys of which only some values work so far. Values outside are looked up in `WORDS`."""

WORDS: dict[tuple[str, str], tuple[str, ...]] = {
    ("attack", "name"): (
        "repeat",
        "no_op",
        "same_type",
        "paraphrase",
        "neutral_insertion",
        "option_shuffle",
        "option_order",
        "none_of_the_others",
        "options_only",
        "context_removed",
        "brand_generic",
        "fabricated_detail",
        "false_statement",
        "challenge",
    ),
}
"""Values that the interface names and this version lacks."""

KEYS: dict[str, tuple[str, ...]] = {}
"""Keys that this version lacks altogether."""

TABLES = ("require",)
"""Tables that this version lacks."""


def not_built(table: str, key: str, value: Any) -> str | None:
    """Why this key or value cannot be used yet; None where it can, or is unknown to us.

    >>> not_built("attack", "name", "challenge")
    "name = 'challenge' is not built yet"
    >>> not_built("experiment", "controls", True) is None
    True
    """
    if key in KEYS.get(table, ()):
        return f"{key} is not built yet"
    allowed = ONLY.get((table, key))
    if value in WORDS.get((table, key), ()) or (
        allowed is not None and value not in allowed and (table, key) not in WORDS
    ):
        has = " or ".join(f"{key} = {shown!r}" for shown in allowed or ())
        return f"{key} = {value!r} is not built yet" + (
            f"; this version has only {has}" if has else ""
        )
    return None


def wrong_word(table: str, key: str, value: Any) -> str | None:
    """Why a key that is no field of ours, and so would be dropped, may not have this value."""
    allowed = ONLY.get((table, key))
    if allowed is None or value in allowed:
        return None
    words = (*allowed, *WORDS.get((table, key), ()))
    return f"{key} = {value!r}: expected {allowed[0]!r}{did_you_mean(str(value), map(str, words))}"


def built_but_fixed(table: str, key: str) -> bool:
    """Whether the key may be written with its only built value but is no field of ours."""
    return (table, key) in ONLY
