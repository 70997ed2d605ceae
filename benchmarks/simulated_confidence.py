"""Intervals about confidence: calibration error, change of P(key), Brier score."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any

import numpy as np
from simulated_coverage import Cell
from simulated_tables import Floats, stream

from medstress.stats.calibration import Answer, brier, calibration
from medstress.stats.estimates import Estimate
from medstress.stats.resampling import ratio

GAPS = {
    "calibrated": 0.0,
    "too sure by .02": 0.02,
    "too sure by .05": 0.05,
    "too sure by .20": 0.2,
    "too sure above .6, too unsure below, by .05": 0.05,
    "nearly always sure, too sure by .10": 0.1,
}
"""Victim -> its calibration error."""
ALIKE = 0.6
"""How often the answers of an item are right or wrong together, where there are five."""


def calibrations(runs: int) -> list[Cell]:
    """Coverage of the interval of `calibration`, of answers whose error is known."""
    found = []
    planned = [*product(GAPS, (50, 100, 200, 1000), (1,)), *product(GAPS, (200,), (5,))]
    for victim, n, each in planned:
        rng = stream("calibration", victim, n, each)
        ids = [(f"q{i:05}",) for i in range(n) for _ in range(each)]

        once = partial(_error, victim, n, each, ids, rng)
        truth = {"victim": victim, "items": n, "answers": each, "error": GAPS[victim]}
        found.append(_covered(once, GAPS[victim], truth, runs))
    return found


def _error(*of: Any) -> Estimate:
    return calibration(_answers(*of)).error


def _answers(
    victim: str, n: int, each: int, ids: list[tuple[str]], rng: np.random.Generator
) -> list[Answer]:
    """Answers of n items: confidence is the item's, and it is right with less or more than that."""
    sure = victim.startswith("nearly")
    confidences = np.repeat(rng.beta(20, 1, n) if sure else rng.uniform(0.3, 0.95, n), each)
    side = np.where(confidences < 0.6, -1, 1) if "unsure" in victim else 1
    p = np.maximum(confidences - side * GAPS[victim], 0)
    right = _alike(n, each, rng) < p
    return list(zip(ids, confidences.tolist(), right.tolist(), strict=True))


def _alike(n: int, each: int, rng: np.random.Generator) -> Floats:
    """Uniform numbers, `each` for an item; some of an item's are the same."""
    shared, own = np.repeat(rng.random(n), each), rng.random(n * each)
    return np.where(rng.random(n * each) < ALIKE, shared, own) if each > 1 else own


def _covered(once: Callable[[], Estimate], truth: float, given: Cell, runs: int) -> Cell:
    """Coverage and tails among the runs that have an interval."""
    low = high = none = 0
    for _ in range(runs):
        estimate = once()
        if estimate.low is None or estimate.high is None:
            none += 1
            continue
        low += estimate.high < truth
        high += estimate.low > truth
    known = max(runs - none, 1)
    return {
        **given,
        "none": none / runs,
        "coverage": 1 - (low + high) / known,
        "too_low": low / known,
        "too_high": high / known,
    }


CHANGES = {
    "flips alone: -.9 to -.3": -0.6,
    "all fall, most by little (-.25 on average)": -0.25,
    "one in ten falls by .7, the others hardly move": -0.07,
    "nothing changes but by noise": 0.0,
}
"""Change of P(key) -> its mean."""


def changes(runs: int) -> list[Cell]:
    """Coverage of the mean change of P(key), and of the Brier score, by resampling of items."""
    found = []
    for kind, n, each in product(CHANGES, (10, 20, 50, 100, 200), (1, 5)):
        rng = stream("changes", kind, n, each)

        once = partial(_mean_change, kind, n, each, rng)
        truth = {"what": "change of P(key)", "kind": kind, "items": n, "answers": each}
        found.append(_covered(once, CHANGES[kind], truth, runs))
    for victim, n in product(("calibrated", "too sure by .20"), (10, 20, 50, 100, 200)):
        rng, ids = stream("brier", victim, n), [(f"q{i:05}",) for i in range(n)]

        once = partial(_score, victim, n, 1, ids, rng)
        truth = {"what": "Brier score", "kind": victim, "items": n, "answers": 1}
        found.append(_covered(once, _brier(GAPS[victim]), truth, runs))
    return found


def _mean_change(kind: str, n: int, each: int, rng: np.random.Generator) -> Estimate:
    counts = np.ones(n) if each == 1 else rng.integers(1, each, n, endpoint=True)
    own = _changes(kind, n, rng)
    noise = rng.normal(0, 0.05, n) / np.sqrt(counts)
    return ratio((own + noise) * counts, counts, "attacked answers")


def _score(*of: Any) -> Estimate:
    return brier(_answers(*of))


def _changes(kind: str, n: int, rng: np.random.Generator) -> Floats:
    if kind.startswith("flips"):
        return -rng.uniform(0.3, 0.9, n)
    if kind.startswith("all"):
        return -rng.beta(0.5, 1.5, n)
    if kind.startswith("one"):
        return np.where(rng.random(n) < 0.1, -0.7, 0.0)
    return np.zeros(n)


def _brier(gap: float) -> float:
    """The mean of (confidence - right)^2: p = confidence - gap gives p(1 - p) + gap^2."""
    ends = np.array([0.3, 0.95]) - gap
    squares, means = (ends**3 / 3), (ends**2 / 2)
    width = ends[1] - ends[0]
    return float((means[1] - means[0] - squares[1] + squares[0]) / width + gap**2)
