"""What is explained of an answer: a number for each option, label or outcome."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.explanations import FOUND, SCORE
from medstress.core.outcomes import Outcome, Prediction

WRONG = "wrong"
"""Names of outputs that are no options: the entity is found; its tokens are labelled as at the
success; the score of a pair."""


class Value(StrEnum):
    """What the outputs of an explanation are."""

    PROBABILITY = "probability"
    """P(option) among the options, by the victim's scores."""
    ANSWER = "answer"
    """1 for the option that was answered, 0 for the others: the victim gives no scores."""
    MIXED = "mixed"
    """The one or the other, by masked text."""
    SCORE = "score"
    """The victim's score of a pair."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Reads the outputs of one unit from predictions."""

    names: tuple[str, ...]
    """Option letters, labels, or `found` and `wrong`, or `score`."""
    key: str
    """The output of the right answer."""
    wrong: str | None = None
    """For an entity, the labels that its tokens got at the success."""

    def read(self, prediction: Prediction) -> NDArray[np.float64]:
        """Return the outputs, `(n_outputs,)`; an unreadable answer has 0 for all.

        Probabilities stay between 0 and 1, so that values are shares of a change of probability,
        and victims with and without scores are on one scale; log odds would be ruled by prompts
        that nobody would ask.
        """
        if self.names == (SCORE,):
            assert prediction.scores is not None
            return np.array([prediction.scores[0]])
        if prediction.scores is not None:
            return np.array([math.exp(value) for value in prediction.scores])
        given = self.answer(prediction)
        return np.array([float(name == given) for name in self.names])

    def answer(self, prediction: Prediction) -> str | None:
        """Return the output that a prediction chose; None if it chose none of them."""
        if self.names == (FOUND, WRONG):
            if prediction.outcome is Outcome.RIGHT:
                return FOUND
            is_wrong = self.wrong is not None and prediction.answer == self.wrong
            return WRONG if is_wrong else None
        if self.names == (SCORE,):
            return SCORE
        return prediction.answer

    def value(self, predictions: Sequence[Prediction]) -> Value:
        """Return what the outputs of predictions are."""
        if self.names == (SCORE,):
            return Value.SCORE
        scored = {prediction.scores is not None for prediction in predictions}
        if len(scored) > 1:
            return Value.MIXED
        return Value.PROBABILITY if scored == {True} else Value.ANSWER


def outputs_of(unit: Any, wrong: str | None) -> Outputs:
    """Return the outputs of a unit.

    Args:
        unit: an item, or its part.
        wrong: the victim's answer at the success; None if the attack failed.
    """
    if choices := tuple(unit.choices):
        return Outputs(names=choices, key=unit.key)
    if unit.is_judged:
        return Outputs(names=(FOUND, WRONG), key=FOUND, wrong=wrong)
    return Outputs(names=(SCORE,), key=SCORE)
