"""Answers about sentences and pairs that are only numbers, as samples of their scores."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from medstress.analyses.scores import Response, Sample
from medstress.core.sentences import TaggedText
from medstress.core.trials import Answer
from medstress.tasks.scores import CORRELATIONS, ENTITIES


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


def of_counts(rows: Iterable[Sequence[float]]) -> Sample:
    """A sentence, and a cluster, for each (matches, marked, gold)."""
    answers = []
    for i, row in enumerate(rows):
        hits, marked, gold = map(int, row)
        labels = ["B-A"] * gold + ["O"] * (marked - hits + 1)
        marks = ["B-A"] * hits + ["O"] * (gold - hits) + ["B-A"] * (marked - hits) + ["O"]
        answers.append(sentence(i, labels, marks, f"d{i:06}"))
    return Sample(ENTITIES, answers, [one.cluster for one in answers])


def of_pairs(gold: np.ndarray, scores: np.ndarray, places: np.ndarray, n: int = 0) -> Sample:
    """Pairs with gold scores (m,) and a model's (n_seeds, m), in clusters that are numbered."""
    answers = [
        Response(Pair(f"p{i:06}", float(g)), str(at), seed, Answer(None, (float(of_seed[i]),)))
        for seed, of_seed in enumerate(scores)
        for i, (g, at) in enumerate(zip(gold, places, strict=True))
    ]
    return Sample(CORRELATIONS, answers, [str(i) for i in range(n or int(places.max()) + 1)])
