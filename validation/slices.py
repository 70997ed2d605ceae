"""Whether the intervals of all slices hold their truths at once, where slices overlap and not."""

from __future__ import annotations

from itertools import product

import numpy as np
from drawn_tables import Bools, Floats, share_effect, stream, tango_statistic
from intervals import Cell
from scipy.special import betainc

from medstress.stats.estimate import quantile

LAYOUTS = {
    (4, False): (4,),
    (12, False): (12,),
    (4, True): (2, 2),
    (12, True): (3, 3, 3, 3),
}
"""Slices, and whether they overlap -> how many values each property has. An item has one value of
every property, so slices of one property do not overlap."""
RATES = (0.02, 0.1, 0.3, 0.5, 0.9)
SIZES = (200, 600)
EACH = (1, 5)
"""Answers of an item."""
CORRELATION = 0.3
"""Intraclass correlation of an item's answers, where there are several."""
AT_ONCE = 500


def slices(runs: int) -> list[Cell]:
    """Joint coverage at 95 % of the intervals of `slice_shares`, of Wilson's and of Tango's.

    An item's properties are drawn independently, all values being equally likely, so that slices
    differ in size by chance. By *alike* all slices have one rate; else the first property decides:
    the rates of its values run from half of the rate to one and a half.
    """
    found = []
    for ((m, overlap), values), n, each in product(LAYOUTS.items(), SIZES, EACH):
        for rate, alike in product(RATES, (True, False)):
            if not alike and rate > 0.5:
                continue
            rates = np.full(values[0], rate) if alike else np.linspace(0.5, 1.5, values[0]) * rate
            truths = [rates, *(np.full(k, rates.mean()) for k in values[1:])]
            rng = stream("slices", m, overlap, n, each, rate, alike)
            held = np.zeros(3)
            for start in range(0, runs, AT_ONCE):
                some = min(AT_ONCE, runs - start)
                held += _held(rng, values, rates, np.concatenate(truths), n, each, some)
            exact, wilson, net = held / runs
            found.append(
                {
                    "slices": m,
                    "overlap": overlap,
                    "items": n,
                    "answers": each,
                    "rate": rate,
                    "alike": alike,
                    "exact": float(exact),
                    "wilson": float(wilson),
                    "net": float(net) if each == 1 else None,
                }
            )
    return found


CONTROL = 0.1
"""How often a control flips an item, independently of the attack."""


def _held(
    rng: np.random.Generator,
    values: tuple[int, ...],
    rates: Floats,
    truths: Floats,
    n: int,
    each: int,
    runs: int,
) -> Floats:
    """In how many runs the intervals of all slices hold: exact, Wilson's, Tango's of a - c."""
    missed = 1 - 0.95 ** (1 / len(truths))
    z = quantile(1 - missed)
    drawn = [rng.integers(0, k, (runs, n)) for k in values]
    p = rates[drawn[0]]
    if each > 1:
        shape = 1 / CORRELATION - 1
        p = rng.beta(p * shape, (1 - p) * shape)
    hits = rng.binomial(each, p).astype(np.float64)
    control = rng.random((runs, n)) < CONTROL
    good = np.ones((3, runs), dtype=bool)
    place = 0
    for property_, k in zip(drawn, values, strict=True):
        for value in range(k):
            inside, truth = property_ == value, float(truths[place])
            place += 1
            y, total = (hits * inside).sum(1), inside.sum(1).astype(np.float64) * each
            effect = np.ones(runs) if each == 1 else _effects(hits, inside, each)
            good[0] &= exact_holds(y / effect, total / effect, truth, missed)
            distance = np.abs(y / total - truth)
            good[1] &= distance <= z * np.sqrt(truth * (1 - truth) / (total / effect))
            if each == 1:
                b = ((hits == 1) & ~control & inside).sum(1).astype(np.float64)
                c = ((hits == 0) & control & inside).sum(1).astype(np.float64)
                good[2] &= np.abs(tango_statistic(b, c, total, truth - CONTROL)) <= z
    return np.asarray(good.sum(1), dtype=np.float64)


def _effects(hits: Floats, inside: Bools, each: int) -> Floats:
    """`design_effect` of each run's slice; runs whose slices are equally large go together."""
    found = np.ones(len(hits))
    sizes = inside.sum(1)
    for size in np.unique(sizes):
        runs = np.flatnonzero(sizes == size)
        if size < 2:  # one item, or none: `design_effect` takes its answers for one
            found[runs] = float(each)
            continue
        some = hits[runs][inside[runs]].reshape(len(runs), size)
        found[runs] = share_effect(some, np.full((len(runs), size), float(each)))
    return found


def exact_holds(k: Floats, n: Floats, p: float, missed: float) -> Bools:
    """Whether Clopper and Pearson's interval holds p; hits and answers need not be whole."""
    above = np.where(k > 0, betainc(np.maximum(k, 1e-300), n - k + 1, p), 1.0) < missed / 2
    below = np.where(k < n, betainc(k + 1, np.maximum(n - k, 1e-300), p), 0.0) > 1 - missed / 2
    return np.asarray(~above & ~below)
