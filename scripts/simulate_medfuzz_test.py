"""Does the significance test of MedFuzz keep its level? The tables of docs/significance.md.

A simulated target answers the key of a changed item with probability t, and each sampled
reasoning about it shows a P(key) scattered around t. Under the null hypothesis the attacker's
insertions draw their t as neutral ones do; under the alternative they have a lower one. The
attack tries up to K insertions and is tested where one of them brought an error, which is the
selection that a test has to survive. Run it with: python scripts/simulate_medfuzz_test.py
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from medstress.metrics.estimates import wilson_ends
from medstress.metrics.monte_carlo import TOLERANCE, ControlPlan, p_values
from medstress.metrics.significance import LEVEL, Null

Array = NDArray[np.float64]
Strength = Callable[[np.random.Generator, Array], Array]
"""(rng, an item's own t for every insertion wanted) -> t of each insertion, same shape."""

ATTEMPTS = 5
SCATTER = 8.0
"""P(key) of one reasoning is Beta(SCATTER t, SCATTER (1 - t))."""
BLOCK = 60
"""Controls drawn at once while an adaptive test goes on."""

NULLS: dict[str, Strength] = {
    "the same t = .8 everywhere": lambda _, own: np.full(own.shape, 0.8),
    "t of an item from Beta(4, 1)": lambda _, own: own,
    "t of an insertion from Beta(4, 1)": lambda rng, own: rng.beta(4, 1, own.shape),
    "3 % of insertions with t = .1, else .95": lambda rng, own: np.where(
        rng.random(own.shape) < 0.03, 0.1, 0.95
    ),
    "0.3 % of insertions with t = .05, else .98": lambda rng, own: np.where(
        rng.random(own.shape) < 0.003, 0.05, 0.98
    ),
}
"""What an insertion does to the target, whoever wrote it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Successes:
    """Attacks that brought an error."""

    own: Array
    """t of the item, shape (n,)."""
    t: Array
    """t of the insertion that brought it, shape (n,)."""
    attempts: NDArray[np.int64]
    """Insertions the attack tried, shape (n,)."""


def reasoning(rng: np.random.Generator, t: Array) -> Array:
    """P(key) that one sampled reasoning shows, same shape as t."""
    return rng.beta(np.maximum(SCATTER * t, 1e-6), np.maximum(SCATTER * (1 - t), 1e-6))


def estimate(rng: np.random.Generator, t: Array, statistic: str) -> Array:
    """T of insertions from fresh samples: 5 reasonings, or 20 answers."""
    if statistic == "share_correct":
        return rng.binomial(20, t) / 20
    return np.asarray(sum(reasoning(rng, t) for _ in range(5)) / 5)


def attack(rng: np.random.Generator, strength: Strength, n: int) -> Successes:
    """Attack items until n attacks succeeded."""
    own: list[Array] = []
    t: list[Array] = []
    attempts: list[NDArray[np.int64]] = []
    while sum(len(each) for each in t) < n:
        items = rng.beta(4, 1, 4 * n)
        tried = strength(rng, np.repeat(items[:, None], ATTEMPTS, axis=1))
        erred = rng.random(tried.shape) > reasoning(rng, tried)
        hit, first = erred.any(axis=1), erred.argmax(axis=1)
        own.append(items[hit])
        t.append(tried[hit, first[hit]])
        attempts.append(first[hit] + 1)
    return Successes(
        own=np.concatenate(own)[:n],
        t=np.concatenate(t)[:n],
        attempts=np.concatenate(attempts)[:n],
    )


def loops(
    rng: np.random.Generator, strength: Strength, own: Array, restarts: int
) -> tuple[Array, NDArray[np.bool_]]:
    """Try neutral insertions until one brings an error, up to restarts x ATTEMPTS of them.

    Returns:
        For each loop t of the insertion that erred, or of the hardest one where none did, and
        whether one did; shapes of `own`.
    """
    flat = own.ravel()
    t, hardest = np.empty_like(flat), np.full_like(flat, np.inf)
    flipped = np.zeros(flat.shape, dtype=bool)
    live = np.arange(len(flat))
    for _ in range(restarts * ATTEMPTS):
        tried = strength(rng, flat[live])
        shown = reasoning(rng, tried)
        erred = rng.random(tried.shape) > shown
        better = erred | (shown < hardest[live])
        t[live[better]] = tried[better]
        hardest[live[better]] = shown[better]
        flipped[live[erred]] = True
        live = live[~erred]
    return t.reshape(own.shape), flipped.reshape(own.shape)


def controls(
    rng: np.random.Generator,
    strength: Strength,
    null: Null,
    found: Successes,
    n: int,
    restarts: int,
) -> tuple[Array, NDArray[np.bool_]]:
    """t of n controls of every success, and which of them count, shapes (n_successes, n)."""
    own = np.repeat(found.own[:, None], n, axis=1)
    if null is Null.NEUTRAL:
        return strength(rng, own), np.ones(own.shape, dtype=bool)
    if null is Null.BEST_OF_K:
        tried = strength(rng, np.repeat(own[:, :, None], ATTEMPTS, axis=2))
        shown = reasoning(rng, tried)
        used = np.arange(ATTEMPTS) < found.attempts[:, None, None]
        best = np.where(used, shown, np.inf).argmin(axis=2)[:, :, None]
        return np.take_along_axis(tried, best, axis=2)[:, :, 0], np.ones(own.shape, dtype=bool)
    t, flipped = loops(rng, strength, own, restarts)
    return t, flipped if null is Null.FLIPPED else np.ones(own.shape, dtype=bool)


def rejected(
    rng: np.random.Generator,
    strength: Strength,
    null: Null,
    found: Successes,
    plan: ControlPlan,
    *,
    statistic: str = "key_probability",
    restarts: int = 10,
) -> tuple[int, int]:
    """Test all successes.

    Returns:
        How many are significant at the level, and how many controls were drawn.
    """
    fuzz = estimate(rng, found.t, statistic)
    drawn: list[list[bool]] = [[] for _ in fuzz]
    open_ = np.arange(len(fuzz))
    while len(open_):
        rest = Successes(own=found.own[open_], t=found.t[open_], attempts=found.attempts[open_])
        block = plan.fixed or BLOCK
        t, counts = controls(rng, strength, null, rest, block, restarts)
        hard = estimate(rng, t, statistic) <= fuzz[open_, None] + TOLERANCE
        for i, row, counted in zip(open_, hard, counts, strict=True):
            # A fixed number of loops is what is paid for; those that never flipped do not count.
            drawn[i] = (drawn[i] + [bool(one) for one in row[counted]])[: plan.most]
        done = plan.fixed is not None
        open_ = np.array(
            [] if done else [i for i in open_ if not plan.is_done(drawn[i])], dtype=int
        )
    ps = [
        p_values(row, plan if plan.fixed is None else ControlPlan(fixed=len(row))).p
        for row in drawn
        if row
    ]
    return sum(p <= LEVEL for p in ps), sum(map(len, drawn))


def level(n: int, seed: int = 0) -> list[tuple[str, str, str, float, float, float]]:
    """Rejection rates under the planted nulls.

    Returns:
        Rows (target, statistic, test, rate, low, high), Wilson 95 %.
    """
    tests: list[tuple[str, Null, ControlPlan, int]] = [
        ("matched, 30", Null.MATCHED, ControlPlan(fixed=30), 10),
        ("matched, adaptive", Null.MATCHED, ControlPlan(), 10),
        ("matched, 30, loops = 1", Null.MATCHED, ControlPlan(fixed=30), 1),
        ("flipped, 30", Null.FLIPPED, ControlPlan(fixed=30), 10),
        ("neutral (single), 30", Null.NEUTRAL, ControlPlan(fixed=30), 1),
        ("best_of_k, 30", Null.BEST_OF_K, ControlPlan(fixed=30), 1),
    ]
    rows: list[tuple[str, str, str, float, float, float]] = []
    for target, strength in NULLS.items():
        for statistic in ("key_probability", "share_correct"):
            for name, null, plan, restarts in tests:
                rng = np.random.default_rng([seed, len(rows)])
                found = attack(rng, strength, n)
                k, _ = rejected(
                    rng, strength, null, found, plan, statistic=statistic, restarts=restarts
                )
                rows.append((target, statistic, name, k / n, *wilson_ends(k, n)))
    return rows


def power(n: int, seed: int = 1) -> list[tuple[float, float, float, float]]:
    """Share of successes found where the target reacts to biased insertions alone.

    Returns:
        Rows (true effect, power with 30 controls, power of the adaptive test, its mean number
        of controls).
    """
    rows: list[tuple[float, float, float, float]] = []
    for lower in (0.0, 0.1, 0.2, 0.3, 0.4, 0.6, 0.8):
        rng = np.random.default_rng([seed, len(rows)])

        def neutral(_: np.random.Generator, own: Array) -> Array:
            return np.full(own.shape, 0.9)

        def biased(_: np.random.Generator, own: Array, lower: float = lower) -> Array:
            return np.full(own.shape, 0.9 - lower)

        found = attack(rng, biased, n)
        k, _ = rejected(rng, neutral, Null.MATCHED, found, ControlPlan(fixed=30))
        adaptive, drawn = rejected(rng, neutral, Null.MATCHED, found, ControlPlan())
        rows.append((lower, k / n, adaptive / n, drawn / n))
    return rows


def main() -> None:
    """Print the tables of docs/significance.md."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--successes", type=int, default=2_000, metavar="N")
    n = parser.parse_args().successes
    print(f"Rejected at {LEVEL} under the null, {n:,} successes a cell (95 % interval)\n")
    rows = level(n)
    names = list(dict.fromkeys(row[2] for row in rows))
    print("| target | T | " + " | ".join(names) + " |")
    print("| --- | --- |" + " --- |" * len(names))
    cells = {row[:3]: f"{row[3]:.3f} ({row[4]:.3f}-{row[5]:.3f})" for row in rows}
    for target, statistic in dict.fromkeys(row[:2] for row in rows):
        values = " | ".join(cells[target, statistic, name] for name in names)
        print(f"| {target} | {statistic} | {values} |")
    n = min(n, 1_000)
    print(f"\nPower of the matched test at {LEVEL}, neutral t = .9, {n:,} successes a row\n")
    print("| true effect | 30 controls | adaptive | controls drawn, adaptive |")
    print("| --- | --- | --- | --- |")
    for effect, fixed, adaptive, drawn in power(n):
        print(f"| {effect:.1f} | {fixed:.3f} | {adaptive:.3f} | {drawn:.0f} |")


if __name__ == "__main__":
    main()
