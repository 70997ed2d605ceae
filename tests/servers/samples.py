"""Answers about sentences and pairs that are only numbers, as samples of their scores."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from medstress.analyses.scores import Response, Sample
from medstress.core.sentences import TaggedText
from medstress.core.trials import Answer
from medstress.tasks.scores import CORRELATIONS


class Pair(NamedTuple):
    """What scores read of a pair."""

    id: str
    score: float


def sentence(
    number: int, gold: Sequence[str], marks: Sequence[str], cluster: str = "d"
) -> Response:
    """The answer about one sentence, given by labels."""
    tokens = tuple(f"t{i}" for i, _ in enumerate(gold))
    text = TaggedText(id=f"s{number}", tokens=tokens, labels=tuple(gold))
    return Response(text, cluster, 0, Answer(None, text=" ".join(marks)))


def of_pairs(gold: np.ndarray, scores: np.ndarray, places: np.ndarray) -> Sample:
    """Pairs with gold scores (m,) and a model's (n_seeds, m), in clusters that are numbered."""
    answers = [
        Response(Pair(f"p{i:06}", float(g)), str(at), seed, Answer(None, (float(of_seed[i]),)))
        for seed, of_seed in enumerate(scores)
        for i, (g, at) in enumerate(zip(gold, places, strict=True))
    ]
    return Sample(CORRELATIONS, answers)
