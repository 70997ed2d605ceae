"""Closed sets of outcomes: of one answer, and of one trial."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from medstress.errors import UsageError

TARGETS = "ABCDEFGHIJ"
"""The letters a targeted goal may name."""


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
    rationale: str | None = None
    """The reasoning before the answer, where the victim was asked for it in a turn of its own."""
    confidences: tuple[float, ...] | None = None
    """One an option, 1 (surely wrong) to 5 (surely right), where the victim was asked for them."""
    reached_goal: bool = False
    """Whether the attack's goal is reached, so that the search may end; set by the referee, for
    attacks to read. False for a success after which the search goes on, and for probes."""
    is_success: bool = False
    """Whether the answer is a success, valid or not; set by the referee. With `reached_goal`
    false it is one after which the search goes on."""


class Goal(Protocol):
    """When an answer counts as success; the same object for attack and referee."""

    def reached(self, prediction: Prediction) -> bool:
        """Whether this answer about a perturbed candidate is a success."""


@dataclass(frozen=True, slots=True)
class Untargeted:
    """Any readable wrong answer is a success."""

    unreadable: bool = False
    """Whether an unreadable answer is one too, as in the code released with Xian et al."""

    def reached(self, prediction: Prediction) -> bool:
        """Whether the answer is wrong; an unreadable answer is a success only where asked for."""
        return prediction.outcome is Outcome.WRONG or (
            self.unreadable and prediction.outcome is Outcome.UNREADABLE
        )


@dataclass(frozen=True, slots=True)
class Targeted:
    """One letter as the answer is a success, whatever stands under it.

    The option under the letter may be the one that is changed: what counts is where the victim
    is led, not by which words.
    """

    letter: str
    """`A` to `J`; never the item's key."""
    unreadable: bool = False
    """Whether an unreadable answer is a success too."""

    def reached(self, prediction: Prediction) -> bool:
        """Whether the victim answers the letter."""
        return prediction.answer == self.letter or (
            self.unreadable and prediction.outcome is Outcome.UNREADABLE
        )


def parse_goal(text: str, *, unreadable: bool = False) -> Goal:
    """Return the goal that an experiment file names.

    Args:
        text: `untargeted` or an option letter.
        unreadable: whether an unreadable answer is a success.

    Raises:
        UsageError: neither.

    >>> parse_goal("B")
    Targeted(letter='B', unreadable=False)
    """
    if text == "untargeted":
        return Untargeted(unreadable)
    if isinstance(text, str) and len(text) == 1 and text in TARGETS:
        return Targeted(text, unreadable)
    raise UsageError(
        f"goal = {text!r}: expected 'untargeted' or an option letter from A to {TARGETS[-1]}"
    )
