"""Words of the interface that this version does not have yet: refused, never ignored."""

from __future__ import annotations

ATTACKS = (
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
)
"""Attacks that the interface names and this version lacks."""

TABLES = ("require",)
"""Tables that this version lacks."""
