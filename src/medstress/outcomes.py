"""Closed sets of outcomes: of one answer, and of one trial."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class Outcome(StrEnum):
    """What one answer is worth."""

    RIGHT = "right"
    WRONG = "wrong"
    UNREADABLE = "unreadable"


class Verdict(StrEnum):
    """How a trial ended."""

    ALREADY_WRONG = "already_wrong"
    NOT_ATTACKABLE = "not_attackable"
    UNREADABLE = "unreadable"
    HELD = "held"
    FLIPPED = "flipped"
    MEASURED = "measured"
    CUT_SHORT = "cut_short"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the victim answered about one candidate."""

    outcome: Outcome
    answer: str | None
    """An option letter; None where unreadable."""
    scores: tuple[float, ...] | None = None
    """Log probabilities over the options (softmax over them), or None where there are none."""
    mass: float | None = None
    """Probability on all option letters together (letter answering)."""
    text: str | None = None
    """What was generated, where text was."""
    reached_goal: bool = False
    """Whether the attack's goal is reached; set by the referee, for attacks to read."""


class Goal(Protocol):
    """When an answer counts as success; the same object for attack and referee."""

    def reached(self, prediction: Prediction) -> bool:
        """Whether this answer about a perturbed candidate is a success."""


@dataclass(frozen=True, slots=True)
class Untargeted:
    """Any readable wrong answer is a success."""

    def reached(self, prediction: Prediction) -> bool:
        """Whether the answer is wrong; an unreadable answer is no success."""
        return prediction.outcome is Outcome.WRONG
