"""What of a reply is read as an answer: what was said to its end, outside thoughts."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from medstress.calls import Generated
from medstress.option_letters.cleaning import without_thoughts


class Reading(StrEnum):
    """What of a generated reply may be an answer."""

    FINISHED = "finished"
    """What was said outside thoughts, in a reply that came to its end. A letter in a thought, or
    in a reply that was cut off, is what the model considered, not what it answers."""
    WHOLE = "whole"
    """Everything: in folders that began before cut replies were known."""


def reading_of(spec: Mapping[str, Any]) -> Reading:
    """The rule that the spec of a task names, wrapped or not; older folders name none."""
    while "task" in spec:
        spec = spec["task"]
    return Reading(spec.get("reading", Reading.WHOLE))


def said(reply: Generated, rule: Reading) -> str:
    """The text of a reply that may hold an answer.

    >>> said(Generated(text="<think>A or B?</think>\\nB"), Reading.FINISHED)
    'B'
    """
    return reply.text if rule is Reading.WHOLE else without_thoughts(reply.text)


def is_lost(reply: Generated, rule: Reading) -> bool:
    """Whether a reply was cut off, so that nobody knows what it would have answered."""
    return rule is Reading.FINISHED and reply.is_cut
