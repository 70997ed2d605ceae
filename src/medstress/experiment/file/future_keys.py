"""Planned attacks that this version lacks; they raise errors."""

from __future__ import annotations

ATTACKS = (
    "option_order",
    "none_of_the_others",
    "options_only",
    "context_removed",
    "brand_generic",
    "fabricated_detail",
    "false_statement",
    "challenge",
)
"""Planned attacks."""
