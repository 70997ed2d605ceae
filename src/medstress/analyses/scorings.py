"""Which scores a kind of item has."""

from __future__ import annotations

from typing import Any

from medstress.analyses.run import Cell, Run
from medstress.analyses.scores import Scores, Scoring, score
from medstress.core.sentences import EntityUnit, SentencePair


def scoring_of(item: Any) -> Scoring | None:
    """Return how items of a kind are scored; None for questions, which are right or wrong."""
    return scoring_of_class(type(item))


def scoring_of_class(kind: type) -> Scoring | None:
    """Return how the items of a class are scored."""
    if issubclass(kind, EntityUnit):
        from medstress.analyses.entities import ENTITIES

        return ENTITIES
    if issubclass(kind, SentencePair):
        from medstress.analyses.correlations import CORRELATIONS

        return CORRELATIONS
    if kind.__name__ == "LabelledPair":
        from medstress.analyses.labels import LABELS

        return LABELS
    return None


def scores(run: Run, cell: Cell) -> Scores | None:
    """Score the clean data and the perturbed copy; None for items that have no scores."""
    scoring = scoring_of(cell.trials[0].item)
    return None if scoring is None else score(run, cell, scoring)
