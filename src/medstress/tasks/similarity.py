"""Sentence similarity: one call compares the two texts of a pair; the score is only measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from medstress.core.calls import Compare, Compared, Request
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.sentences import PairCandidate
from medstress.tasks.multiple_choice import Flow


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarity:
    """The task of a victim that scores pairs.

    Every answer counts as right, because no distance from the gold score is defined as wrong.
    """

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints."""
        return {"kind": "similarity"}

    def listing(self, candidate: PairCandidate) -> str:
        """Return both texts, one on each line."""
        return f"{candidate.text_a}\n{candidate.text_b}"

    def flow(self, candidate: PairCandidate) -> Flow:
        """Ask for the similarity of one candidate."""
        (reply,) = yield (Request(Compare(candidate.text_a, candidate.text_b)),)
        assert isinstance(reply, Compared)
        return Prediction(outcome=Outcome.RIGHT, answer=None, scores=(reply.score,))
