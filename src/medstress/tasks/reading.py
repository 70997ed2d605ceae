"""Which part of a reply is read as an answer: finished text outside thoughts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from medstress.core.calls import Generated
from medstress.option_letters.cleaning import without_thoughts


class Reading(StrEnum):
    """Which part of a generated reply is read."""

    FINISHED = "finished"
    """Text outside thoughts, in a reply that was not cut off. A letter in a thought or in a cut
    reply was considered, not answered."""
    WHOLE = "whole"
    """Everything; used in folders that began before cut replies were recognised."""


def reading_of(spec: Mapping[str, Any]) -> Reading:
    """Return the rule of a task's spec, wrapped or not; older folders have `WHOLE`."""
    while "task" in spec:
        spec = spec["task"]
    return Reading(spec.get("reading", Reading.WHOLE))


def readable_text(reply: Generated, rule: Reading) -> str:
    """Return the text of a reply that may hold an answer.

    >>> readable_text(Generated(text="<think>A or B?</think>\\nB"), Reading.FINISHED)
    'B'
    """
    return reply.text if rule is Reading.WHOLE else without_thoughts(reply.text)


def is_cut_off(reply: Generated, rule: Reading) -> bool:
    """True if a reply was cut off, so that its answer is unknown."""
    return rule is Reading.FINISHED and reply.is_cut
