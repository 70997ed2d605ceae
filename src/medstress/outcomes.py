"""Closed sets of outcomes: of one answer, and of one trial."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol, runtime_checkable

from medstress.errors import UsageError
from medstress.frozen import fast_init
from medstress.text import Edit

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


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What the victim answered about one candidate."""

    outcome: Outcome
    """Of an entity: right where it is found strictly. Of a pair always right."""
    answer: str | None
    """An option letter; None where unreadable. The labels of an entity's tokens."""
    scores: tuple[float, ...] | None = None
    """Log probabilities over the options (softmax over them), or None where there are none. Of a
    pair its similarity, alone."""
    mass: float | None = None
    """Probability on all option letters together (letter answering)."""
    is_tied: bool = False
    """Whether several options share the highest score, so that a rule chose the answer."""
    text: str | None = None
    """What was generated, where text was; the labels of a sentence, joined by spaces."""
    rationale: str | None = None
    """The reasoning before the answer, where the victim was asked for it in a turn of its own."""
    confidences: tuple[float, ...] | None = None
    """One an option, 1 (surely wrong) to 5 (surely right), where the victim was asked for them."""
    finish_reason: str | None = None
    """`length` where nothing could be read because a reply was cut off at `max_new_tokens`."""
    cut_confidences: bool = False
    """Whether the confidences are unknown because the reply that gives them was cut off so."""
    reached_goal: bool = False
    """Whether the attack's goal is reached, so that the search may end; set by the referee, for
    attacks to read. False for a success after which the search goes on, and for probes."""
    is_success: bool = False
    """Whether the answer is a success, valid or not; set by the referee. With `reached_goal`
    false it is one after which the search goes on."""

    @property
    def is_nonsense(self) -> bool:
        """Whether a reply that came to its end names no option; of one that was cut off nobody
        knows what it would have named."""
        return self.outcome is Outcome.UNREADABLE and self.finish_reason is None


class Goal(Protocol):
    """When an answer counts as success: the one rule of attack, referee and analyses."""

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Whether this answer about a candidate with these edits is a success."""


@dataclass(frozen=True, slots=True)
class Untargeted:
    """Any readable wrong answer is a success."""

    unreadable: bool = False
    """Whether an unreadable answer is one too, as in the code released with Xian et al.; one that
    was cut off never is."""

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Whether the answer is wrong; an unreadable answer is a success only where asked for."""
        return prediction.outcome is Outcome.WRONG or (self.unreadable and prediction.is_nonsense)


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

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Whether the victim answers the letter."""
        return prediction.answer == self.letter or (self.unreadable and prediction.is_nonsense)


@dataclass(frozen=True, slots=True)
class Replaced:
    """The option that was edited as the answer is a success; one that the edit led to is not.

    So a success says that the victim took the new name for the answer, whatever letter it stands
    under.
    """

    unreadable: bool = False
    """Whether an unreadable answer is a success too."""

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Whether the victim wrongly answers an option that one of the edits changed."""
        if prediction.outcome is Outcome.UNREADABLE:
            return self.unreadable and prediction.is_nonsense
        edited = {edit.field for edit in edits}
        return prediction.outcome is Outcome.WRONG and prediction.answer in edited


@runtime_checkable
class Relative(Protocol):
    """A goal that depends on the answer to the clean item."""

    def relative_to(self, before: Prediction) -> Goal:
        """The goal, given that answer."""


@dataclass(frozen=True, slots=True)
class Measured:
    """The score of a pair is only measured: nothing is a success."""

    before: float = 0.0
    """Score of the clean pair."""

    def relative_to(self, before: Prediction) -> Goal:
        """The goal, given the answer to the clean pair."""
        return replace(self, before=_score(before))

    def change(self, prediction: Prediction) -> float:
        """How far the score moved, up or down."""
        return abs(_score(prediction) - self.before)

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Never."""
        return False


@dataclass(frozen=True, slots=True)
class Moved:
    """The score of a pair moved by more than is allowed, up or down."""

    max_change: float
    """In the victim's scale; a larger change is a success."""
    before: float = 0.0
    """Score of the clean pair."""

    def relative_to(self, before: Prediction) -> Goal:
        """The goal, given the answer to the clean pair."""
        return replace(self, before=_score(before))

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Whether the score moved by more than `max_change`."""
        return abs(_score(prediction) - self.before) > self.max_change


def _score(prediction: Prediction) -> float:
    if prediction.scores is None:
        raise TypeError("the similarity of a pair was expected, and there is none")
    return prediction.scores[0]


def parse_goal(text: str, *, unreadable: bool = False) -> Goal:
    """Return the goal that an experiment file names.

    Args:
        text: `untargeted`, `replaced` or an option letter.
        unreadable: whether an unreadable answer is a success.

    Raises:
        UsageError: neither.

    >>> parse_goal("B")
    Targeted(letter='B', unreadable=False)
    """
    if text == "untargeted":
        return Untargeted(unreadable)
    if text == "replaced":
        return Replaced(unreadable)
    if isinstance(text, str) and len(text) == 1 and text in TARGETS:
        return Targeted(text, unreadable)
    raise UsageError(
        f"goal = {text!r}: expected 'untargeted', 'replaced' or an option letter from A to "
        f"{TARGETS[-1]}"
    )
