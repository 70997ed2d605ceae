"""Proposals for many items: time and memory against a loop over pairs in plain Python.

Distances of every key to every name, once an item, and for every item and exponent the draws of
powerscaled distance-weighted sampling, with the function that attacks call and the random numbers
of each trial:

    python benchmarks/sampling.py
    python benchmarks/sampling.py --items 1000 --names 9848

The loop is asked for the same, distances once a pair; what it takes where each exponent is a run of
its own, which measures distances anew, stands beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import resource
import time
from collections.abc import Sequence

import numpy as np
from common import at_least

from medstress.attacks.samplers import draw
from medstress.core.seeding import rng_for

EXPONENTS = (-50, -40, -30, -20, -10, -5, 5, 10, 20, 30, 40, 50, 60)
"""The grid of the published script (Xian et al., 2025)."""
SIZE = 384
TOGETHER = 64


def ours(keys: np.ndarray, names: np.ndarray, n_draws: int) -> tuple[float, float, int]:
    """Seconds for distances and for draws, and a checksum of what was drawn."""
    for_distances = for_draws = 0.0
    total, allowed = 0, np.arange(len(names))
    for start in range(0, len(keys), TOGETHER):
        started = time.perf_counter()
        gaps = np.maximum(1 - keys[start : start + TOGETHER].astype(np.float64) @ names.T, 0)
        for_distances += time.perf_counter() - started
        started = time.perf_counter()
        for i, gap in enumerate(gaps):
            for n in EXPONENTS:
                rng = rng_for(0, "sampling", "benchmark", str(start + i), str(n))
                total += int(draw("pdws", gap, allowed, rng, n_draws, n).sum())
        for_draws += time.perf_counter() - started
    return for_distances, for_draws, total


def loop_seconds(
    key: Sequence[float], names: Sequence[Sequence[float]], n_draws: int
) -> tuple[float, float]:
    """Seconds of one item in plain Python: its distances, and the draws of one exponent."""
    rng = random.Random(0)
    started = time.perf_counter()
    gaps = []
    for name in names:
        dot = norm_a = norm_b = 0.0
        for a, b in zip(key, name, strict=True):
            dot += a * b
            norm_a += a * a
            norm_b += b * b
        gaps.append(max(1.0 - dot / math.sqrt(norm_a * norm_b), 1e-12))
    measured = time.perf_counter()
    weights = [gap**-5.0 for gap in gaps]
    for _ in range(n_draws):
        drawn = rng.choices(range(len(weights)), weights)[0]
        weights[drawn] = 0.0
    return measured - started, time.perf_counter() - measured


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=at_least(1), default=10_000)
    parser.add_argument("--names", type=at_least(1), default=9_848)
    parser.add_argument("--draws", type=at_least(1), default=8)
    given = parser.parse_args()
    if given.names < given.draws:
        parser.error(f"{given.draws} different names cannot be drawn from {given.names}")
    rng = np.random.default_rng(0)
    names = rng.normal(size=(given.names, SIZE))
    names /= np.linalg.norm(names, axis=1, keepdims=True)
    keys = rng.normal(size=(given.items, SIZE)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    distances, draws, _ = ours(keys, names, given.draws)
    few = min(given.names, 200)
    pairs, loop_draws = (
        seconds * given.items * given.names / few
        for seconds in loop_seconds(keys[0].tolist(), names[:few].tolist(), given.draws)
    )
    once = pairs + loop_draws * len(EXPONENTS)
    each = (pairs + loop_draws) * len(EXPONENTS)
    found = {
        "items": given.items,
        "names": given.names,
        "exponents": len(EXPONENTS),
        "draws": given.draws,
        "distance_seconds": round(distances, 1),
        "draw_seconds": round(draws, 1),
        "seconds": round(distances + draws, 1),
        "loop_seconds_extrapolated": round(once),
        "times_faster_than_the_loop": round(once / (distances + draws)),
        "times_faster_with_distances_each_time": round(each / (distances + draws)),
        "largest_resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
