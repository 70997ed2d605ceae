"""How often tests and verdicts err under planted nulls."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
from drawn_tables import (
    ITEMS,
    LAYOUTS,
    ONCE,
    Bools,
    Floats,
    clustered,
    pair_effects,
    stream,
    tango_statistic,
)
from intervals import Cell
from scipy.stats import binom, norm

from medstress.stats.estimate import benjamini_hochberg, holm, quantile

LEVELS = (0.05, 0.01)
DISCORDANCES = (0.02, 0.05, 0.1, 0.15, 0.3, 0.5, 0.9)
SIZES = (200, 300, 600, 1000)
MARGINS = (0.02, 0.05, 0.1)
FINER = range(200, 1001, 20)
"""Items where the discordance is as large as the margin, the worst case for equivalence."""
ONE_SIDED = {
    "equivalent within the margin": (0.05, 0.01),
    "no worse than the margin": (0.025, 0.01),
}
"""The verdicts with a margin: at the level that `judge` uses, and at .01."""


def sizes_of_tests(runs: int) -> list[Cell]:
    """How often each test rejects a true null, at .05 and .01."""
    return [*_paired(runs), *_margins(), *_clustered_margins(runs), *_chance()]


def _size(test: str, truth: Cell, exact: bool, sizes: tuple[float, ...], levels: Any) -> Cell:
    rejected = {str(level): size for level, size in zip(levels, sizes, strict=True)}
    return {"test": test, **truth, "exact": exact, "rejected": rejected}


def _trinomial(n: int, discordance: float, difference: float) -> tuple[Floats, Floats, Floats]:
    """Counts b, c of the tables that matter, and their probabilities."""
    m = np.arange(n + 1)
    m = m[binom.pmf(m, n, discordance) > 1e-14]
    b = np.concatenate([np.arange(each + 1) for each in m])
    total = np.repeat(m, m + 1)
    first = (discordance + difference) / (2 * discordance)
    chance = binom.pmf(total, n, discordance) * binom.pmf(b, total, first)
    return b.astype(np.float64), (total - b).astype(np.float64), chance


def _paired(runs: int) -> list[Cell]:
    found = []
    for n, discordance in product(SIZES, DISCORDANCES):
        b, c, chance = _trinomial(n, discordance, 0.0)
        z = np.abs(tango_statistic(b, c, n, 0.0))
        sizes = tuple(float(chance[z > quantile(1 - level)].sum()) for level in LEVELS)
        truth = {"layout": ONCE, "items": n, "discordance": discordance}
        found.append(_size("paired difference", truth, True, sizes, LEVELS))
    for layout, correlation, discordance in product(list(LAYOUTS)[1:], (0.1, 0.6), DISCORDANCES):
        half = discordance / 2
        rng, z = stream("size", layout, correlation, discordance), []
        shares = ((1 - discordance) / 2, half, half, (1 - discordance) / 2)
        for drawn in clustered(shares, correlation, layout, runs, rng):
            counts, cells = drawn.sum(0), drawn.sum(-1)
            f = pair_effects(drawn[2], drawn[1], counts)
            z.append(tango_statistic(cells[2] / f, cells[1] / f, counts.sum(-1) / f, 0.0))
        truth = {
            "layout": layout,
            "items": ITEMS,
            "discordance": discordance,
            "correlation": correlation,
        }
        at = np.abs(np.concatenate(z))
        sizes = tuple(float((at > quantile(1 - level)).mean()) for level in LEVELS)
        found.append(_size("paired difference", truth, False, sizes, LEVELS))
    return found


def _margins() -> list[Cell]:
    """Verdicts with a margin where the truth lies exactly on it."""
    found = []
    planned = [each for each in product(SIZES, DISCORDANCES, MARGINS) if each[2] <= each[1]]
    planned += [(n, margin, margin) for n, margin in product(FINER, MARGINS) if n not in SIZES]
    for n, discordance, margin in planned:
        b, c, chance = _trinomial(n, discordance, margin)
        low, high = tango_statistic(b, c, n, -margin), tango_statistic(b, c, n, margin)
        truth = {"layout": ONCE, "items": n, "discordance": discordance, "margin": margin}
        for test, levels in ONE_SIDED.items():
            sizes = tuple(float(chance[_shown(test, level, low, high)].sum()) for level in levels)
            found.append(_size(test, truth, True, sizes, levels))
    return found


def _shown(test: str, level: float, low: Floats, high: Floats) -> Bools:
    """Where a verdict is given, from the statistics at both margins.

    The truth is ahead by exactly the margin; for "no worse" it is the mirror image of behind.
    """
    z = quantile(1 - 2 * level)
    return np.asarray((high < -z) & ((low > z) | test.startswith("no worse")))


def _clustered_margins(runs: int) -> list[Cell]:
    """The same where items occur several times, by simulation."""
    found = []
    planned = product(list(LAYOUTS)[1:], (0.1, 0.6), (0.05, 0.15, 0.3), MARGINS)
    for layout, correlation, discordance, margin in planned:
        if margin > discordance:
            continue
        first, second = (discordance + margin) / 2, (discordance - margin) / 2
        shares = ((1 - discordance) / 2, second, first, (1 - discordance) / 2)
        rng, lows, highs = stream("margin", layout, correlation, discordance, margin), [], []
        for drawn in clustered(shares, correlation, layout, runs, rng):
            counts, cells = drawn.sum(0), drawn.sum(-1)
            f = pair_effects(drawn[2], drawn[1], counts)
            scaled = cells[2] / f, cells[1] / f, counts.sum(-1) / f
            lows.append(tango_statistic(*scaled, -margin))
            highs.append(tango_statistic(*scaled, margin))
        low, high = np.concatenate(lows), np.concatenate(highs)
        truth = {
            "layout": layout,
            "items": ITEMS,
            "discordance": discordance,
            "correlation": correlation,
            "margin": margin,
        }
        for test, levels in ONE_SIDED.items():
            sizes = tuple(float(_shown(test, level, low, high).mean()) for level in levels)
            found.append(_size(test, truth, False, sizes, levels))
    return found


def _chance() -> list[Cell]:
    """The exact test of accuracy above chance."""
    found = []
    for n, chance in product(SIZES, (0.25, 0.32, 0.5)):
        k = np.arange(n + 1)
        p = binom.sf(k - 1, n, chance)
        sizes = tuple(float(binom.pmf(k, n, chance)[p < level].sum()) for level in LEVELS)
        truth = {"layout": ONCE, "items": n, "chance": chance}
        found.append(_size("accuracy above chance", truth, True, sizes, LEVELS))
    return found


FAMILY = 20


def families(runs: int) -> list[Cell]:
    """Holm and Benjamini-Hochberg over 20 paired tests of arms against one common arm."""
    found = []
    for n_true, shared in product((0, 5, 15), (False, True)):
        rng = stream("families", n_true, shared)
        falls: list[tuple[bool, float, bool, float]] = []
        for _ in range(runs):
            p = _family(rng, n_true, shared)
            for_holm, for_bh = np.array(holm(p)) < 0.05, np.array(benjamini_hochberg(p)) < 0.05
            falls.append(
                (
                    bool(for_holm[n_true:].any()),
                    float(for_bh[n_true:].sum() / max(for_bh.sum(), 1)),
                    bool((np.array(p[n_true:]) < 0.05).any()),
                    float(for_holm[:n_true].mean()) if n_true else 0.0,
                )
            )
        holm_errs, bh_errs, plain, power = np.mean(np.array(falls, dtype=np.float64), axis=0)
        found.append(
            {
                "tests": FAMILY,
                "with an effect": n_true,
                "common arm": shared,
                "unadjusted": float(plain),
                "holm": float(holm_errs),
                "bh": float(bh_errs),
                "found by holm": float(power) if n_true else None,
            }
        )
    return found


def _family(rng: np.random.Generator, n_true: int, shared: bool) -> list[float]:
    """Two-sided p-values of 20 arms on 200 items; the first `n_true` flip .45, all else .3."""
    rates = np.where(np.arange(FAMILY) < n_true, 0.45, 0.3)[:, None]
    arms = rng.random((FAMILY, ITEMS)) < rates
    against = rng.random((1 if shared else FAMILY, ITEMS)) < 0.3
    b, c = (arms & ~against).sum(1), (against & ~arms).sum(1)
    z = np.abs(b - c) / np.sqrt(np.maximum(b + c, 1))
    return [float(each) for each in 2 * norm.sf(z)]
