"""How often intervals of F1 and correlations hold the truth, and those of the worst of N arms."""

from __future__ import annotations

from itertools import product

import numpy as np
from drawn_tables import stream
from intervals import Cell
from medstress.analyses.correlations import Correlated
from medstress.analyses.entities import MATCHES, Matches
from scipy.stats import binom

from medstress.stats.estimate import quantile, sidak, wilson_ends
from medstress.stats.resampling import bootstrapped

DOCUMENTS, PAIRS = (5, 10, 30, 100), (20, 40)
LARGEST = 30
"""Entities of a document: 1 to so many, all sizes equally likely."""
MATCHED, CORRELATION, SPURIOUS = 0.7, 0.3, 0.2
"""Share of entities that are found, its intraclass correlation in a document, and marks that are
no entity, for each that is one."""
GOLD = 0.8
"""Correlation of a model's scores with people's."""
ARMS, ITEMS, LOST = (1, 6, 24), (40, 200, 600), (0.1, 0.3, 0.5)


def documents(runs: int) -> list[Cell]:
    """Coverage of the bootstrap of documents behind F1, and of pairs behind Pearson's r."""
    cells = []
    for n in DOCUMENTS:
        rng = stream("documents", n)
        truth = 2 * MATCHED / (1 + MATCHED + SPURIOUS)
        ends = [_f1(rng, n) for _ in range(runs)]
        cells.append({"score": "f1", "of": "documents", "n": n, **_held(ends, truth)})
    for n in PAIRS:
        rng = stream("pairs of scores", n)
        ends = [_pearson(rng, n) for _ in range(runs)]
        cells.append({"score": "pearson", "of": "pairs", "n": n, **_held(ends, GOLD)})
    return cells


def _f1(rng: np.random.Generator, n: int) -> tuple[float, float]:
    gold, k = rng.integers(1, LARGEST + 1, n), 1 / CORRELATION - 1
    found = rng.binomial(gold, rng.beta(k * MATCHED, k * (1 - MATCHED), n))
    marked = found + rng.poisson(SPURIOUS * gold)
    sums = np.stack([found, marked, gold], axis=1).astype(np.float64)
    return _ends(Matches(sums=dict.fromkeys(MATCHES, sums)), "f1")


def _pearson(rng: np.random.Generator, n: int) -> tuple[float, float]:
    gold = rng.normal(size=n)
    scores = GOLD * gold + np.sqrt(1 - GOLD**2) * rng.normal(size=n)
    return _ends(
        Correlated(gold=gold, scores=scores[None], places=np.arange(n), n_clusters=n), "pearson"
    )


def _ends(sample: Matches | Correlated, name: str) -> tuple[float, float]:
    estimate = bootstrapped(sample.value(name) or 0.0, sample.draws()[name], 0, "")
    return estimate.ends[0] or 0.0, estimate.ends[1] or 0.0


def _held(ends: list[tuple[float, float]], truth: float) -> Cell:
    low, high = np.array(ends).T
    too_low, too_high = float((high < truth).mean()), float((low > truth).mean())
    return {"coverage": 1 - too_low - too_high, "too_low": too_low, "too_high": too_high}


def worst(runs: int) -> list[Cell]:
    """How often the interval of the worst of N equal arms lies above the truth, by enumeration.

    The arm with most hits is told. *Plain*: its own interval at 95 %; *sidak*: that of a verdict.

    Args:
        runs: of no use here: all counts of hits are enumerated.
    """
    cells = []
    for arms, n, lost in product(ARMS, ITEMS, LOST):
        hits = np.arange(n + 1)
        most = np.diff(binom.cdf(hits, n, lost) ** arms, prepend=0.0)
        cell: Cell = {"arms": arms, "items": n, "lost": lost}
        for name, level in (("plain", 0.95), ("sidak", sidak(arms))):
            above = [wilson_ends(k, n, quantile(level))[0] > lost for k in hits.tolist()]
            cell[name] = float(most[above].sum())
        cells.append(cell)
    return cells
