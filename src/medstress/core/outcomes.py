"""Outcomes of one answer and of one trial, and goals."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Protocol

from medstress.core.errors import UsageError
from medstress.core.frozen import fast_init
from medstress.core.text import Edit

TARGETS = "ABCDEFGHIJ"
"""The letters a targeted goal may name."""
TOO_LONG = "context"
"""`at` of a trial on an item that its model cannot read, because it is too long."""
_TOO_LONG = re.compile("too long for the context|more than the .* (positions|context)")
"""What back ends say of a prompt that its model's context does not hold."""


def is_too_long(reason: str | None) -> bool:
    """Return whether a call failed because its prompt was too long.

    >>> is_too_long("the prompt is too long for the context of 'gpt'"), is_too_long("it is busy")
    (True, False)
    """
    return bool(reason and _TOO_LONG.search(reason))


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
    """For an entity: right if it is found strictly. For a pair: always right."""
    answer: str | None
    """An option letter; None if unreadable. For an entity: the labels of its tokens."""
    scores: tuple[float, ...] | None = None
    """Log probabilities over the options (softmax over them), or None if there are none. For a
    pair: its similarity alone."""
    mass: float | None = None
    """Probability on all option letters together (letter answering)."""
    is_tied: bool = False
    """Whether several options share the highest score, so that a rule chose the answer."""
    text: str | None = None
    """The generated text, if any; the labels of a sentence, joined by spaces."""
    rationale: str | None = None
    """The reasoning before the answer, if the victim was asked for it in a turn of its own."""
    confidences: tuple[float, ...] | None = None
    """One per option, 1 (surely wrong) to 5 (surely right), if the victim was asked for them."""
    finish_reason: str | None = None
    """`length` if nothing could be read because a reply was cut off at `max_new_tokens`."""
    cut_turn: str | None = None
    """The last turn of a conversation that was cut off: reasoning, confidences or answer."""
    reached_goal: bool = False
    """Whether the attack's goal is reached, so that the search may end; set by the referee, for
    attacks to read. False for a success after which the search goes on, and for probes."""
    is_success: bool = False
    """Whether the answer is a success, valid or not; set by the referee. If `reached_goal` is
    false, the search goes on after it."""

    @property
    def is_nonsense(self) -> bool:
        """Whether a complete reply names no option; one that was cut off might have named one."""
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
    """Answering one letter is a success, whatever option has it.

    That option may be the edited one: what counts is the letter that the victim is led to, not the
    words that lead it there.
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
    """Answering an edited option is a success; answering another option is not.

    So a success says that the victim took the new name for the answer, whatever its letter.
    """

    unreadable: bool = False
    """Whether an unreadable answer is a success too."""
    options: frozenset[str] | None = None
    """Letters that count as edited, for a control that edits none; None: those of the edits."""

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Whether the victim wrongly answers an option that one of the edits changed."""
        if prediction.outcome is Outcome.UNREADABLE:
            return self.unreadable and prediction.is_nonsense
        edited = {edit.field for edit in edits} if self.options is None else self.options
        return prediction.outcome is Outcome.WRONG and prediction.answer in edited


@dataclass(frozen=True, slots=True)
class Measured:
    """The score of a pair is only measured: nothing is a success."""

    before: float = 0.0
    """Score of the clean pair."""

    def relative_to(self, before: Prediction) -> Goal:
        """Return the goal, given the answer to the clean pair."""
        return replace(self, before=_score(before))

    def change(self, prediction: Prediction) -> float:
        """Return how far the score moved, up or down."""
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
        """Return the goal, given the answer to the clean pair."""
        return replace(self, before=_score(before))

    def reached(self, prediction: Prediction, edits: Sequence[Edit]) -> bool:
        """Whether the score moved by more than `max_change`."""
        return abs(_score(prediction) - self.before) > self.max_change


def _score(prediction: Prediction) -> float:
    if prediction.scores is None:
        raise TypeError("expected the similarity of a pair, but the prediction has no scores")
    return prediction.scores[0]


def parse_goal(text: str, *, unreadable: bool = False) -> Goal:
    """Return the goal that an experiment file names.

    Args:
        text: `untargeted`, `replaced` or an option letter.
        unreadable: whether an unreadable answer is a success.

    Raises:
        UsageError: the text is none of these.

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
