"""Pearson's and Spearman's correlation of pairs with their gold scores.

Over several seeds, the mean of each seed's. Pairs that share a sentence are drawn together.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.run import Cell
from medstress.analyses.scores import Response, Scores, Scoring
from medstress.stats.resampling import RESAMPLES, unit_weights
from medstress.stats.shares import Mask, Numbers

NAMES = ("pearson", "spearman")
FEWEST = 3
"""Pairs below which no correlation is defined."""
_CONSTANT = 1e-12
_AT_ONCE = 500_000
"""Weights that are held at once."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Correlated:
    """Scores of the pairs that every seed has: a `medstress.analyses.scores.Sample`."""

    gold: Numbers
    """Shape (m,)."""
    scores: Numbers
    """The model's, shape (n_seeds, m)."""
    places: NDArray[np.int64]
    """The cluster of each pair, shape (m,)."""
    n_clusters: int

    names: Sequence[str] = NAMES

    def value(self, name: str) -> float | None:
        """Return the mean of each seed's coefficient; None if a side does not vary."""
        if len(self.gold) < FEWEST:
            return None
        every = np.ones((1, len(self.gold)))
        value = float(_means(self.gold, self.scores, every, name)[0])
        return value if np.isfinite(value) else None

    def n(self, name: str) -> int:
        """Return the number of pairs."""
        return len(self.gold)

    def draws(self) -> Mapping[str, Numbers]:
        """Return both coefficients in every resample of clusters."""
        if not len(self.gold):
            return {name: np.full(RESAMPLES, np.nan) for name in NAMES}
        weights = unit_weights(self.n_clusters)
        return {
            name: np.concatenate(
                [
                    _means(self.gold, self.scores, rows[:, self.places].astype(np.float64), name)
                    for rows in _blocks(weights, len(self.gold))
                ]
            )
            for name in NAMES
        }

    def swapped(self, other: Correlated, swaps: Mask, name: str) -> Numbers:
        """Return the differences where some clusters are swapped.

        Of the answers of both samples, one after the other, each pair's first or second has weight
        1 and the other weight 0, so ranks are those of the mixed answers.
        """
        gold, both = np.tile(self.gold, 2), np.hstack([self.scores, other.scores])
        differences = []
        for rows in _blocks(swaps, 2 * len(self.gold)):
            of_other = rows[:, self.places].astype(np.float64)
            mixed, rest = np.hstack([1 - of_other, of_other]), np.hstack([of_other, 1 - of_other])
            differences.append(_means(gold, both, mixed, name) - _means(gold, both, rest, name))
        return np.concatenate(differences)


class Similarities(Scoring):
    """How sentence pairs are scored."""

    main = "pearson"
    words: ClassVar = {"pearson": "Pearson", "spearman": "Spearman"}
    falls = shown = drops = NAMES
    enough = 40
    seed = 20_260_202
    is_signed = True
    undefined = "all scores are alike, or fewer than three pairs have them"
    no_copy = "a search for a change of the score says nothing of the pairs that held"
    note = (
        "Correlation of the model's scores with people's, the mean over seeds. After: of the "
        "perturbed pairs. Drop: before minus after, paired. Pairs that share a sentence are drawn "
        "together."
    )

    def clusters(self, responses: Sequence[Response]) -> str:
        """Pairs; those that share a sentence count once."""
        alone = len({r.cluster for r in responses}) == len({r.item.id for r in responses})
        return "pairs" if alone else "pairs (those that share a sentence count once)"

    def sample(self, responses: Sequence[Response], clusters: Sequence[str]) -> Correlated:
        """Arrange scores by seed and pair, of the pairs that all seeds have."""
        scored = {
            (r.seed, r.item.id): (r, float(r.answer.scores[0]))
            for r in responses
            if r.answer.scores
        }
        seeds = sorted({seed for seed, _ in scored}, key=lambda s: (s is not None, s or 0))
        n_seeds = Counter(item for _, item in scored)
        ids = sorted(item for item, n in n_seeds.items() if n == len(seeds))
        places = {cluster: i for i, cluster in enumerate(clusters)}
        one_seed = [scored[seeds[0], item][0] for item in ids]
        return Correlated(
            gold=np.array([float(r.item.score) for r in one_seed]),
            scores=np.array([[scored[s, item][1] for item in ids] for s in seeds]),
            places=np.array([places[r.cluster] for r in one_seed], dtype=np.int64),
            n_clusters=len(clusters),
        )

    def warning(self, scores: Scores, cell: Cell) -> str | None:
        """Name a model that gives every pair the same score."""
        main = scores.main.before
        if main.value is not None or len(cell.trials) < FEWEST:
            return None
        return (
            f"{cell.place.victim} on {cell.place.dataset}: the correlation is undefined, as "
            f"{self.undefined}."
        )


CORRELATIONS = Similarities()


def pearson(gold: Numbers, scores: Numbers) -> float | None:
    """Return the correlation of scores with gold scores, both of shape (m,); None if undefined."""
    places = np.arange(len(gold))
    sample = Correlated(gold=gold, scores=scores[None], places=places, n_clusters=len(gold))
    return sample.value("pearson")


def _blocks(rows: NDArray[np.generic], width: int) -> list[NDArray[np.generic]]:
    """Cut rows into blocks, so that weights of some width fit into memory."""
    step = max(1, _AT_ONCE // max(width, 1))
    return [rows[i : i + step] for i in range(0, len(rows), step)]


def _means(x: Numbers, ys: Numbers, weights: Numbers, name: str) -> Numbers:
    """Return the mean correlation of x (m,) with ys (n_seeds, m) for weights (n, m): shape (n,).

    nan where a side does not vary.
    """
    is_ranked = name == "spearman"
    a = _ranks(x, weights) if is_ranked else x[None]
    coefficients = [
        _correlation(a, _ranks(y, weights) if is_ranked else y[None], weights) for y in ys
    ]
    return np.asarray(np.mean(coefficients, axis=0))


def _correlation(a: Numbers, b: Numbers, weights: Numbers) -> Numbers:
    total = weights.sum(-1, keepdims=True)
    a = a - (weights * a).sum(-1, keepdims=True) / total
    b = b - (weights * b).sum(-1, keepdims=True) / total
    size = np.sqrt((weights * a * a).sum(-1) * (weights * b * b).sum(-1))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(np.where(size > _CONSTANT, (weights * a * b).sum(-1) / size, np.nan))


def _ranks(x: Numbers, weights: Numbers) -> Numbers:
    """Return mean ranks of values (m,) with weights (n, m): a row for each row of weights."""
    values, places = np.unique(x, return_inverse=True)
    order = np.argsort(places, kind="stable")
    first = np.searchsorted(places[order], np.arange(len(values)))
    counts = np.add.reduceat(weights[:, order], first, axis=1)
    return np.asarray((np.cumsum(counts, axis=1) - counts + (counts + 1) / 2)[:, places])
