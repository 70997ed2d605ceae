"""Confidence sequences: how often they are ever wrong, and how early they decide."""

from __future__ import annotations

from itertools import product

import numpy as np
from simulated_coverage import RATES, Cell
from simulated_tables import Floats, stream

ITEMS = 600
BOUND = 0.2
ALPHAS = (0.05, 0.01)
_AT_ONCE = 1000


def log_wealth(values: Floats, m: float, alpha: float) -> tuple[Floats, Floats]:
    """log K+ and log K- of one m after each value, as `ConfidenceSequence` defines them.

    Args:
        values: shape (runs, n).
        m: the mean that is bet against.
        alpha: that of the sequence.
    """
    i = np.arange(1, values.shape[1] + 1)
    mean = (0.5 + values.cumsum(1)) / (i + 1)
    v = (0.25 + ((values - mean) ** 2).cumsum(1)) / (i + 1)
    before = np.concatenate([np.full((values.shape[0], 1), 0.25), v[:, :-1]], axis=1)
    bets = np.sqrt(2 * np.log(2 / alpha) / (before * i * np.log1p(i)))
    above = np.log1p(np.minimum(bets, 0.5 / m) * (values - m)).cumsum(1)
    below = np.log1p(-np.minimum(bets, 0.5 / (1 - m)) * (values - m)).cumsum(1)
    return above, below


def first_out(values: Floats, m: float, alpha: float) -> Floats:
    """When m is given up, from 1; infinity where it never is."""
    out = np.maximum(*log_wealth(values, m, alpha)) >= np.log(2 / alpha)
    return np.where(out.any(1), out.argmax(1) + 1.0, np.inf)


def _chunks(runs: int) -> list[int]:
    return [min(_AT_ONCE, runs - start) for start in range(0, runs, _AT_ONCE)]


def ever_wrong(runs: int) -> list[Cell]:
    """How often the truth is ever given up within 600 items."""
    found = []
    for alpha, p in product(ALPHAS, RATES):
        for what in ("one answer an item", "mean of 5 seeds", "difference", "by completion"):
            rng, wrong = stream("ever", alpha, p, what), 0
            for size in _chunks(runs):
                values, truth = _values(what, p, size, rng)
                wrong += int(np.isfinite(first_out(values, truth, alpha)).sum())
            found.append({"what": what, "rate": p, "alpha": alpha, "ever wrong": wrong / runs})
    return found


def _values(what: str, p: float, runs: int, rng: np.random.Generator) -> tuple[Floats, float]:
    """Values in [0, 1] and their mean; items differ, so that seeds of one item are alike."""
    if what == "mean of 5 seeds":
        by_item = rng.beta(p / 2, (1 - p) / 2, (runs, ITEMS))
        return rng.binomial(5, by_item) / 5, p
    flips = (rng.random((runs, ITEMS)) < p).astype(np.float64)
    if what == "difference":
        return (flips - (rng.random((runs, ITEMS)) < 0.3) + 1) / 2, (p - 0.3 + 1) / 2
    if what == "by completion":
        # A flip ends after one query, a held item after eight; eight items are at work.
        ends = np.arange(ITEMS) // 8 * 8 + np.where(flips > 0, 1, 64) + rng.random(flips.shape)
        return np.take_along_axis(flips, ends.argsort(1), 1), p
    return flips, p


def early_stops(runs: int) -> list[Cell]:
    """After how many of 600 items it is clear on which side of .20 the rate lies."""
    found = []
    for alpha, p in product((0.01, 0.05), (0.05, 0.1, 0.15, 0.25, 0.3, 0.4)):
        rng, stops = stream("stops", alpha, p), []
        for size in _chunks(runs):
            flips = (rng.random((size, ITEMS)) < p).astype(np.float64)
            stops.append(first_out(flips, BOUND, alpha))
        stop = np.concatenate(stops)
        by_eight = np.minimum(np.ceil(stop / 8) * 8, ITEMS)
        found.append(
            {
                "alpha": alpha,
                "rate": p,
                "decided": float(np.isfinite(stop).mean()),
                "mean": float(np.minimum(stop, ITEMS).mean()),
                "median": float(np.median(np.minimum(stop, ITEMS))),
                "mean, looking after every 8": float(by_eight.mean()),
            }
        )
    return found
