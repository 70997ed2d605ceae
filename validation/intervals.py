"""How often intervals hold the truth: shares, paired differences, loss bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from drawn_tables import (
    ITEMS,
    LAYOUTS,
    ONCE,
    Bools,
    Floats,
    Table,
    chances,
    clustered,
    enumerated,
    pair_effects,
    share_effect,
    stream,
    tango_statistic,
    wilson_misses,
)
from scipy.stats import binom

from medstress.stats.estimate import Z

Cell = dict[str, Any]
RATES = (0.02, 0.05, 0.1, 0.3, 0.5, 0.7, 0.9, 0.95, 0.98)
CORRELATIONS = (0.1, 0.6)
DRAWN = 600
"""Items of unclustered tables that are drawn, beside all tables of 200."""
TOGETHER = ("independent", "same items", "other items")
"""How noise and loss, or two arms, fall together."""


def shares(runs: int) -> list[Cell]:
    """Wilson's interval: exactly for items that occur once, by simulation for clusters."""
    found = []
    for n, percent in product((200, 300, 500, 1000), range(2, 99)):
        p, k = percent / 100, np.arange(n + 1, dtype=np.float64)
        above, below = wilson_misses(k, np.full(n + 1, float(n)), p)
        chance = binom.pmf(k, n, p)
        found.append(cell("share", ONCE, n, {"rate": p}, chance, above, below))
    for layout, correlation, p in product(list(LAYOUTS)[1:], CORRELATIONS, RATES):
        rng, misses = stream("share", layout, correlation, p), []
        for drawn in clustered((p, 1 - p), correlation, layout, runs, rng):
            hits, counts = drawn[0], drawn.sum(0)
            effect = share_effect(hits, counts)
            misses.append(wilson_misses(hits.sum(-1) / effect, counts.sum(-1) / effect, p))
        truth = {"rate": p, "correlation": correlation}
        found.append(simulated("share", layout, truth, runs, misses))
    return found


def cell(
    what: str, layout: str, n: int, truth: Cell, chance: Floats, above: Bools, below: Bools
) -> Cell:
    """Coverage and tails by the probability of every table."""
    low, high = float(chance[below].sum()), float(chance[above].sum())
    total = float(chance.sum())
    return {
        "what": what,
        "layout": layout,
        "items": n,
        **truth,
        "exact": True,
        "coverage": 1 - (low + high) / total,
        "too_low": low / total,
        "too_high": high / total,
    }


def simulated(
    what: str,
    layout: str,
    truth: Cell,
    runs: int,
    misses: Sequence[tuple[Bools, Bools]],
    n: int = ITEMS,
) -> Cell:
    """Coverage and tails by counting runs; `misses` are the runs above and below the truth."""
    high, low = (sum(int(each[side].sum()) for each in misses) / runs for side in (0, 1))
    return {
        "what": what,
        "layout": layout,
        "items": n,
        **truth,
        "exact": False,
        "coverage": 1 - low - high,
        "too_low": low,
        "too_high": high,
    }


def joint(first: float, second: float, together: str) -> tuple[float, float, float, float]:
    """Shares of neither, only the second, only the first, both, of two events."""
    both = {
        "independent": first * second,
        "same items": min(first, second),
        "other items": max(0.0, first + second - 1),
    }[together]
    cells = (1 - first - second + both, second - both, first - both, both)
    return tuple(max(0.0, each) for each in cells)  # type: ignore[return-value]


def misses_of(
    table: Table,
    effects: Mapping[str, Floats] | None,
    net: float,
    loss: float,
) -> dict[str, tuple[Bools, Bools]]:
    """Where the intervals of a - c and of the loss lie above and below.

    Args:
        table: the four cells.
        effects: design effects by name; None for items that occur once.
        net: the true a - c.
        loss: the true loss.
    """
    neither, control, attack, both = table
    n = neither + control + attack + both
    f = dict(effects or dict.fromkeys(("net", "asr"), np.ones_like(n)))
    found = {}

    def of_net(x: float) -> Floats:
        return tango_statistic(attack / f["net"], control / f["net"], n / f["net"], x)

    at = of_net(net)
    found["difference"] = (at > Z, at < -Z)
    hits = attack + both
    if 0 < loss < 1:
        _, below = wilson_misses(hits / f["asr"], n / f["asr"], loss)
    else:
        below = np.asarray((loss == 1) & (hits < n))
    # max(0, low end of a - c) exceeds a loss of 0 or more where the low end itself does.
    above = of_net(loss) > Z if loss < 1 else np.zeros_like(below)
    found["loss"] = (above, below)
    return found


def pairs(runs: int) -> list[Cell]:
    """Paired differences of two rates: all tables of 200, drawn ones of 600."""
    found: list[Cell] = []
    for (a, c), together in product(product(RATES, RATES), TOGETHER):
        found.extend(_cells({"a": a, "c": c, "together": together}, runs, loss=None))
    return found


NOISES = (0.02, 0.1, 0.3, 0.5, 0.9)
LOSSES = (0.0, 0.02, 0.1, 0.3, 0.5, 0.7, 0.9, 0.98)
KINDS = ("own noise", *TOGETHER)
"""Noise of attack and control independent of each other and of the loss, or the same noise, and how
it falls together with the loss."""


def losses(runs: int) -> list[Cell]:
    """Bounds of the loss where (i) and (ii) hold, whatever noise and loss have to do."""
    found: list[Cell] = []
    for loss, noise, kind in product(LOSSES, NOISES, KINDS):
        if kind != "other items" or loss + noise <= 1:
            truth = {"loss": loss, "noise": noise, "together": kind}
            found.extend(each for each in _cells(truth, runs, loss=loss) if each["what"] == "loss")
    return found


def noisy(loss: float, noise: float, kind: str) -> tuple[float, float, float, float]:
    """The four cells where noise repairs nothing and flips as many under attack and control."""
    if kind == "own noise":
        return joint(loss + (1 - loss) * noise, noise, "independent")
    neither, only_noise, only_loss, both = joint(loss, noise, kind)
    return neither, 0.0, only_loss, only_noise + both


_ALL: list[tuple[Table, Floats]] = []


def _every_table() -> tuple[Table, Floats]:
    if not _ALL:
        _ALL.append(enumerated(ITEMS))
    return _ALL[0]


def _cells(truth: Cell, runs: int, loss: float | None) -> Iterator[Cell]:
    if loss is None:
        shares = joint(truth["a"], truth["c"], truth["together"])
    else:
        shares = noisy(loss, truth["noise"], truth["together"])
    yield from of_shares(shares, truth, runs, loss)


def of_shares(
    shares: Sequence[float], truth: Cell, runs: int, loss: float | None, drawn: int = DRAWN
) -> Iterator[Cell]:
    """Coverage for given shares of the four cells: all tables of 200 items, drawn ones of 600."""
    net = shares[2] - shares[1]
    table, ways = _every_table()
    chance = chances(table, ways, shares)
    kept = chance > 1e-12
    some: Table = tuple(each[kept] for each in table)  # type: ignore[assignment]
    judged = misses_of(some, None, net, net if loss is None else loss)
    for what, (above, below) in judged.items():
        if what != "loss" or loss is not None:
            yield cell(what, ONCE, ITEMS, truth, chance[kept], above, below)
    rng = stream("tables", sorted(truth.items()))
    many: Table = tuple(rng.multinomial(drawn, shares, runs).T.astype(np.float64))  # type: ignore[assignment]
    judged = misses_of(many, None, net, net if loss is None else loss)
    for what, misses in judged.items():
        if what != "loss" or loss is not None:
            yield simulated(what, ONCE, truth, runs, [misses], drawn)


CLUSTERED = ((0.02, 0.02), (0.1, 0.1), (0.3, 0.1), (0.5, 0.3), (0.9, 0.3), (0.98, 0.02), (0.0, 0.3))
"""Losses and noises of clustered tables."""


def clusters(runs: int) -> list[Cell]:
    """Both intervals of items that occur several times."""
    found = []
    for layout, correlation, (loss, noise) in product(list(LAYOUTS)[1:], CORRELATIONS, CLUSTERED):
        shares = noisy(loss, noise, "own noise")
        net, misses = shares[2] - shares[1], []
        rng = stream("clusters", layout, correlation, loss, noise)
        for drawn in clustered(shares, correlation, layout, runs, rng):
            counts = drawn.sum(0)
            effects = {
                "net": pair_effects(drawn[2], drawn[1], counts),
                "asr": share_effect(drawn[2] + drawn[3], counts),
            }
            misses.append(misses_of(tuple(drawn.sum(-1)), effects, net, loss))  # type: ignore[arg-type]
        truth = {"loss": loss, "noise": noise, "correlation": correlation}
        for what in ("difference", "loss"):
            found.append(simulated(what, layout, truth, runs, [each[what] for each in misses]))
    return found


def broken(runs: int) -> list[Cell]:
    """Bounds of the loss where a condition does not hold."""
    found = []
    for loss, per_query in product((0.0, 0.1, 0.3), ((0.05, 0.02), (0.05, 0.05), (0.25, 0.25))):
        a, c = (1 - (1 - each) ** 8 for each in per_query)
        shares = joint(loss + (1 - loss) * a, c, "independent")
        truth = {"case": f"noise {per_query[0]} a query under attack, {per_query[1]} under control"}
        found.extend(_broken(shares, {**truth, "loss": loss}, runs, loss))
    for loss, again in product((0.3, 0.9, 0.98), (0.25, 0.5)):
        right, wrong = again / 4, again * 3 / 4
        shares = joint(loss * (1 - right) + (1 - loss) * wrong, wrong, "independent")
        truth = {"case": f"{again} of answers drawn anew from 4 options, one query"}
        found.extend(_broken(shares, {**truth, "loss": loss}, runs, loss))
    return found


def _broken(shares: Sequence[float], truth: Cell, runs: int, loss: float) -> Iterator[Cell]:
    return (each for each in of_shares(shares, truth, runs, loss) if each["what"] == "loss")
