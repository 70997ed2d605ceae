"""What an attack takes away beyond what a harmless change with the same budget does.

On items that are right on the clean prompt, A = the attack flips within the budget, C = the control
does, a and c their shares, L = "the victim without its noise flips", loss = P(L). Then
a - c <= loss <= a if (i) noise never repairs a lost item and (ii) noise flips equally many items
under attack and control. How noise and L depend on each other is free.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, sqrt

import numpy as np
from numpy.typing import NDArray

from medstress.stats.bisection import last_kept
from medstress.stats.estimates import Estimate, Z, unknown
from medstress.stats.shares import Unit, linearised_effect, mean_size, parts_of

Cells = tuple[float, float, float, float]
"""Pairs that neither flips, only the control, only the attack, both; they may be fractional."""

_METHOD = (
    "(a - c) / (1 - c), a point where noise and loss are independent across items; Fieller's "
    "contrast (1 - A) - (1 - x)(1 - C), its variance estimated under each x, 95 %, {n} {what}"
)


def loss_bounds(asr: Estimate, net: Estimate) -> list[float | None]:
    """Return the interval of the loss: from max(0, low end of a - c) to the high end of a.

    Args:
        asr: a, the share that the attack flips, with its 95 % interval.
        net: a - c on the same items, paired (`unite`).

    Returns:
        [low, high]; both None if either is unknown.

    >>> asr = Estimate(value=0.15, n=100, low=0.1, high=0.2, method="")
    >>> loss_bounds(asr, Estimate(value=0.01, n=100, low=-0.05, high=0.07, method=""))
    [0.0, 0.2]
    """
    if net.low is None or asr.high is None:
        return [None, None]
    return [max(0.0, net.low), asr.high]


def abbott(pairs: Sequence[tuple[Unit, bool, bool]]) -> Estimate:
    """Estimate Abbott's corrected loss (a - c) / (1 - c).

    It is the loss if noise and loss are independent across items. The interval holds every x for
    which Fieller's contrast, the mean of (1 - A) - (1 - x)(1 - C), lies within 1.96 standard errors
    of 0. 1 - x is the ratio of two paired shares, and the standard error is that of the table that
    fits best under x (Nam and Blackwelder), at the effective sample size: cells divided by the
    design effect f, which is the largest linearised one of the contrast at the estimate, of "only
    the attack" and of "only the control", at most K. With the plain sample variance, as Fieller has
    it, coverage falls to .906 at rates of .02 and .98 with 200 items, and the interval has no width
    where nothing flips.

    Args:
        pairs: unit, whether the attack flips it, whether the control does; all units have equally
            many parts. With several levels (documents, items, entities) the largest f counts.

    Returns:
        The estimate, at most 1, below 0 where the control flips more; `n` counts pairs. None, with
        the reason as `method`, without pairs or where the control flips all.

    >>> found = abbott([(str(i), i < 40, 30 <= i < 50) for i in range(100)])
    >>> found.value, round(found.low, 3), round(found.high, 3)
    (0.25, 0.107, 0.381)
    >>> abbott([("q1", True, True)]).method
    'null: the control flips every item (c = 1)'

    References:
        Abbott, "A method of computing the effectiveness of an insecticide", 1925.
        Fieller, "Some problems in interval estimation", JRSS B 1954.
        Nam and Blackwelder, "Analysis of the ratio of marginal probabilities in a matched-pair
        setting", Statistics in Medicine 2002.
    """
    named = [(parts_of(unit), attack, control) for unit, attack, control in pairs]
    if not named:
        return unknown("null: no pair")
    depth = max(len(unit) for unit, *_ in named)
    levels = [_tally(named, parts) for parts in range(1, depth + 1)]
    neither, control, attack, both = (float(each) for each in levels[0].sum(axis=1))
    n = len(named)
    if neither + attack == 0:
        return unknown("null: the control flips every item (c = 1)", n=n)
    f = max(loss_effect(level) for level in levels)
    low, high = _ends((neither / f, control / f, attack / f, both / f))
    units = levels[0].shape[1]
    what = "pairs, each item once" if units == n else f"pairs of {units} items (documents)"
    return Estimate(
        value=(attack - control) / (neither + attack),
        n=n,
        low=low,
        high=high,
        method=_METHOD.format(n=n, what=what),
    )


def _tally(pairs: Sequence[tuple[tuple[str, ...], bool, bool]], parts: int) -> NDArray[np.float64]:
    """Count the four cells by unit, shape (4, units), units being named by the first parts."""
    units = {unit: i for i, unit in enumerate(sorted({unit[:parts] for unit, *_ in pairs}))}
    table = np.zeros((4, len(units)))
    for unit, attack, control in pairs:
        table[2 * attack + control, units[unit[:parts]]] += 1
    return table


def loss_effect(table: NDArray[np.float64]) -> float:
    """Return the design effect f of Abbott's point, from 1 to K = sum c_i^2 / N.

    Args:
        table: the four cells of each unit, in the order of `Cells`, shape (4, n), not all flipped
            by the control.
    """
    counts = table.sum(axis=0)
    n, k, total = counts.shape[0], mean_size(counts), float(counts.sum())
    neither, control, attack, _ = table
    if n == 1 or not (control.any() or attack.any()):
        return k
    effects = [
        linearised_effect(kind, counts)
        for kind in (control, attack)
        if kind.any() and kind.sum() < total
    ]
    r = float((neither + control).sum() / (neither + attack).sum())
    contrast = (1 - r) * neither + control - r * attack
    alone = float(((1 - r) ** 2 * neither + control + r * r * attack).sum())
    if alone > 0:
        effects.append(n / (n - 1) * float((contrast**2).sum()) / alone)
    return min(max([1.0, *effects]), k) if effects else k


def _ends(cells: Cells) -> tuple[float, float]:
    """Return the ends of the loss x = 1 - r, r being the ratio of what attack and control leave."""
    neither, control, attack, _ = cells
    best = (neither + control) / (neither + attack)
    lowest = last_kept(lambda r: abs(ratio_statistic(cells, r)) <= Z, best, 0.0)
    beyond = max(2 * best, 1.0)
    while abs(ratio_statistic(cells, beyond)) <= Z and beyond < inf:
        beyond *= 2
    highest = last_kept(lambda r: abs(ratio_statistic(cells, r)) <= Z, best, beyond)
    return 1 - highest, 1 - lowest


def ratio_statistic(cells: Cells, r: float) -> float:
    """Return Nam and Blackwelder's statistic of "the attack leaves r times what the control does".

    With u and v the shares left right, q the share in which not both flip (its estimate does not
    depend on r) and p10, p01 the shares of "only the control flips" and "only the attack flips"
    that fit best under r: (u - r v) / sqrt(r (p10 + p01) / n).

    Args:
        cells: the table.
        r: a ratio, 0 or more.
    """
    neither, control, attack, both = cells
    n, kept = neither + control + attack + both, neither + control + attack
    distance = (neither + control) - r * (neither + attack)
    q, g = kept / n, 1 + r
    h = (r - 1) * q
    linear = g * h * (neither + attack) - q * (control + attack)
    root = linear * linear + 4 * g * kept * q * attack * h
    p01 = (sqrt(max(root, 0.0)) - linear) / (2 * g * kept)
    # r (p10 + p01), with p10 = (h + p01) / r; never negative but for rounding.
    variance = max(h + p01, 0.0) + r * max(p01, 0.0)
    if variance <= 0:
        return 0.0 if distance == 0 else inf
    return distance / sqrt(n * variance)
