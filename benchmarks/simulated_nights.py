"""A year of nightly comparisons: false alarms of the recipe and of naive ways, delays of alarms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import binom
from simulated_tables import Floats, stream

from medstress.stats.estimates import Z
from medstress.stats.nights import ALARM, HORIZON, STAKES, grown, unspent, weight
from medstress.stats.power import needed

Cell = dict[str, Any]
Counts = NDArray[np.int64]
Night = Callable[[int], tuple[Counts, Counts]]
"""b and c of each run on night t."""

ITEMS = 200
DISCORDANCE = 0.15
DROP = 0.05
SHIFT = 0.05
"""Standard deviation of what a night's shared noise adds to the difference."""
CARRIED = 0.8
"""How much of it a night hands on to the next where it carries over."""


def drawn(rng: np.random.Generator, difference: Floats, n: int = ITEMS) -> tuple[Counts, Counts]:
    """b and c of n items for each run, the difference as given."""
    first = (DISCORDANCE + np.clip(difference, -DISCORDANCE, DISCORDANCE)) / 2
    total = rng.binomial(n, DISCORDANCE, difference.shape)
    b = rng.binomial(total, first / DISCORDANCE)
    return b, total - b


def independent(runs: int, rng: np.random.Generator) -> Night:
    """Both arms sampled afresh, no difference."""
    return lambda t: drawn(rng, np.zeros(runs))


def shared(runs: int, rng: np.random.Generator) -> Night:
    """Noise that all items of a night share, symmetric about 0."""
    return lambda t: drawn(rng, rng.normal(0, SHIFT, runs))


def carried(runs: int, rng: np.random.Generator) -> Night:
    """The same, each night's noise .8 of the last one's and something new."""
    last = np.array(rng.normal(0, SHIFT, runs))

    def night(t: int) -> tuple[Counts, Counts]:
        last[:] = CARRIED * last + rng.normal(0, SHIFT * np.sqrt(1 - CARRIED**2), runs)
        return drawn(rng, last)

    return night


def fresh_items(runs: int, rng: np.random.Generator) -> Night:
    """Equal deterministic builds, each item bet on once: 200 items, then 5 a night."""
    return lambda t: drawn(rng, np.zeros(runs), ITEMS if t == 1 else 5)


def reused_items(runs: int, rng: np.random.Generator) -> Night:
    """The same deterministic build on the same 200 items every night."""
    b, c = drawn(rng, np.zeros(runs))
    return lambda t: (b, c)


def reused_builds(runs: int, rng: np.random.Generator) -> Night:
    """Equal deterministic builds, another every night, on the same 200 items and one baseline.

    An item that the baseline has right by luck is wrong in most builds: what the baseline has on
    these items decides every night alike.
    """
    luck = rng.binomial(ITEMS, 0.5, runs) / ITEMS - 0.5
    return lambda t: drawn(rng, luck)


def dropped(start: int) -> Callable[[int, np.random.Generator], Night]:
    """Behind by .05 from one night on."""

    def model(runs: int, rng: np.random.Generator) -> Night:
        return lambda t: drawn(rng, np.full(runs, DROP if t >= start else 0.0))

    return model


def by_night(runs: int, night: Night, nights: int = HORIZON) -> Floats:
    """The night of the first alarm of the recipe; infinity where none comes."""
    fortunes, first = np.zeros((runs, len(STAKES))), np.full(runs, np.inf)
    for t in range(1, nights + 1):
        b, c = night(t)
        fortunes = grown(fortunes, t, np.sign(b - c).astype(np.float64))
        e = fortunes.mean(1) + unspent(t)
        first = np.where((e >= ALARM) & np.isinf(first), t, first)
    return first


def by_item(runs: int, night: Night, nights: int = HORIZON) -> Floats:
    """The naive way of betting on every item apart: its noise is not apart."""
    fortunes, first = np.zeros((runs, len(STAKES))), np.full(runs, np.inf)
    up, down = np.log1p(np.array(STAKES)), np.log1p(-np.array(STAKES))
    for t in range(1, nights + 1):
        b, c = night(t)
        growth = np.clip(b[:, None] * up + c[:, None] * down, -700, 700)
        fortunes = np.minimum((fortunes + weight(t)) * np.exp(growth), 1e300)
        e = fortunes.mean(1) + unspent(t)
        first = np.where((e >= ALARM) & np.isinf(first), t, first)
    return first


def by_test(level: float) -> Callable[[int, Night], Floats]:
    """A test every night: alarm where the exact one-sided p of "not behind" is within the level."""
    m = np.arange(ITEMS + 1)[:, None]
    # The smallest b that rejects, for each b + c; beyond b + c where none does.
    least = (binom.sf(np.arange(ITEMS + 1) - 1, m, 0.5) > level).sum(1)

    def alarms(runs: int, night: Night) -> Floats:
        first = np.full(runs, np.inf)
        for t in range(1, HORIZON + 1):
            b, c = night(t)
            first = np.where((b >= least[b + c]) & np.isinf(first), t, first)
        return first

    return alarms


def at_fixed_n(runs: int, night: Night) -> Floats:
    """One test, of as many nights as find the drop with 80 % power, planned for the beginning."""
    n_nights = -(-needed(DROP, DISCORDANCE) // ITEMS)
    b, c = np.zeros(runs, dtype=np.int64), np.zeros(runs, dtype=np.int64)
    for t in range(1, n_nights + 1):
        more = night(t)
        b, c = b + more[0], c + more[1]
    return np.where((b - c) / np.sqrt(np.maximum(b + c, 1)) > Z, float(n_nights), np.inf)


FALSE = (
    ("the recipe", "independent noise", independent, by_night),
    ("the recipe", "noise shared within a night", shared, by_night),
    ("the recipe", "equal deterministic builds, items bet on once", fresh_items, by_night),
    ("a bet per item", "independent noise", independent, by_item),
    ("a bet per item", "noise shared within a night", shared, by_item),
    ("items used again", "one deterministic build every night", reused_items, by_night),
    ("items used again", "another deterministic build every night", reused_builds, by_night),
    ("a test at .05 every night", "independent noise", independent, by_test(0.05)),
    ("a test at .05 every night", "noise shared within a night", shared, by_test(0.05)),
    ("Bonferroni, .05 / 365 a night", "independent noise", independent, by_test(0.05 / HORIZON)),
    (
        "Bonferroni, .05 / 365 a night",
        "noise shared within a night",
        shared,
        by_test(0.05 / HORIZON),
    ),
    ("one test at a fixed n", "independent noise", independent, at_fixed_n),
    ("the recipe", "noise that carries over, .8 a night", carried, by_night),
)
SOUND = 3
"""How many of `FALSE`, from the first, have to keep their level."""


def false_alarms(runs: int) -> list[Cell]:
    """How often a year of equal builds raises an alarm."""
    found = []
    for i, (way, noise, model, judge) in enumerate(FALSE):
        first = judge(runs, model(runs, stream("nights", noise)))
        share = float(np.isfinite(first).mean())
        found.append({"way": way, "noise": noise, "alarms": share, "must hold": i < SOUND})
    return found


def delays(runs: int) -> list[Cell]:
    """How many nights after a drop of .05 the alarm comes."""
    ways = {
        "the recipe": by_night,
        "Bonferroni, .05 / 365 a night": by_test(0.05 / HORIZON),
        "one test at a fixed n": at_fixed_n,
    }
    found = []
    for start in (1, 100, 300):
        for way, judge in ways.items():
            first = judge(runs, dropped(start)(runs, stream("drop", start)))
            before = first < start
            after = np.where(before, np.nan, first - start + 1)
            kept = after[~before]
            median = float(np.median(kept)) if kept.size else float("inf")
            found.append(
                {
                    "from night": start,
                    "way": way,
                    "alarm before": float(before.mean()),
                    "found in the year": float(np.isfinite(kept).mean()),
                    "median delay": median if np.isfinite(median) else None,
                    "nine tenths by": _ninth(kept),
                }
            )
    return found


def _ninth(delays: Floats) -> float | None:
    value = float(np.quantile(delays, 0.9, method="higher"))
    return value if np.isfinite(value) else None
