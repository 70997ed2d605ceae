"""Intervals of F1 and of correlations hold what was planted, from the fewest clusters on."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.analyses.scores import Sample
from medstress.kinds.scores import CORRELATIONS, ENTITIES
from medstress.stats.resampling import percentiles
from medstress.stats.shares import Numbers
from samples import of_counts, of_pairs

NAMES = ("pearson", "spearman")

RUNS = 300
"""A coverage of .93 has a standard error of .015."""
LEAST = 0.885
"""Three standard errors below .93."""
RECALL = {"clean": 0.8, "attacked": 0.5}
FALSE_ALARMS = 0.2
"""For each gold entity."""
ALIKE = 0.3
"""Correlation between entities of one document."""

Rng = np.random.Generator


def holds(draws: Numbers, truth: float) -> bool:
    low, high = percentiles(draws[np.isfinite(draws)])
    return low <= truth <= high


def f1(recall: float) -> float:
    return 2 * recall / (recall + FALSE_ALARMS + 1)


def documents(rng: Rng, n_documents: int) -> list[Sample]:
    """Clean and attacked: documents of 1 to 30 entities, each easier or harder than others.

    Half of what makes a document easy is shared by both.
    """
    scale = 1 / ALIKE - 1
    rows: dict[str, list[list[int]]] = {arm: [] for arm in RECALL}
    for _ in range(n_documents):
        n, shared = int(rng.integers(1, 31)), rng.random()
        for arm, recall in RECALL.items():
            u = shared if rng.random() < 0.5 else rng.random()
            easiness = np.quantile(rng.beta(recall * scale, (1 - recall) * scale, 400), u)
            hits = int((rng.random(n) < easiness).sum())
            rows[arm].append([hits, hits + int((rng.random(n) < FALSE_ALARMS).sum()), n])
    return [of_counts(of_arm) for of_arm in rows.values()]


@pytest.mark.release
def test_f1_of_the_fewest_documents_covers_what_is_planted() -> None:
    rng, covered, of_five = np.random.default_rng(41), np.zeros(2), 0
    fall = f1(RECALL["clean"]) - f1(RECALL["attacked"])
    for _ in range(RUNS):
        clean, attacked = (one.draws["f1"] for one in documents(rng, ENTITIES.enough))
        covered += holds(clean, f1(RECALL["clean"])), holds(clean - attacked, fall)
        of_five += holds(documents(rng, 5)[0].draws["f1"], f1(RECALL["clean"]))
    assert covered.min() / RUNS >= LEAST
    # With five documents an interval would be too narrow by far: there is none.
    assert of_five / RUNS < 0.88


@pytest.mark.release
def test_correlations_of_the_fewest_pairs_cover_what_is_planted() -> None:
    """Gold and error are normal with variance 1 each: r = sqrt(1/2) before and after.

    Spearman's of two normal variables is 6/pi arcsin(r/2).
    """
    rng, m = np.random.default_rng(42), CORRELATIONS.enough
    truth = {"pearson": np.sqrt(0.5), "spearman": 6 / np.pi * np.arcsin(np.sqrt(0.5) / 2)}
    covered = np.zeros(4)
    for _ in range(RUNS):
        gold = rng.normal(size=m)
        before, after = (
            of_pairs(gold, gold + rng.normal(size=(1, m)), np.arange(m)).draws for _ in range(2)
        )
        covered += [
            *(holds(before[name], truth[name]) for name in NAMES),
            *(holds(before[name] - after[name], 0.0) for name in NAMES),
        ]
    assert covered.min() / RUNS >= LEAST
