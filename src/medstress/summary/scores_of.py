"""The scores of a kind of items; goes with this room (`medstress.analyses.scores`)."""

from __future__ import annotations

from medstress.kinds import Kind
from medstress.summary.dataset_scores import DatasetScores
from medstress.summary.entity_scores import EntityScores
from medstress.summary.label_scores import MacroF1
from medstress.summary.pair_scores import Correlations


def scores_of(kind: Kind) -> DatasetScores | None:
    """Return the scores of whole data sets; None if accuracy is enough."""
    if kind.task == "ner":
        return EntityScores()
    if kind.task == "similarity":
        return Correlations()
    return MacroF1() if kind.task == "classification" else None
