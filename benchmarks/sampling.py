"""Proposals for many items: time and memory against a loop over pairs in plain Python.

Distances of every key to every name, and the draws of powerscaled distance-weighted sampling for
every item and exponent, as an attack makes them (same functions, random numbers of each trial):

    python benchmarks/sampling.py
    python benchmarks/sampling.py --items 1000 --names 9848
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

from medstress.attacks.samplers import gumbel_noise, gumbel_top_k, log_weights
from medstress.seeding import rng_for

EXPONENTS = (-50, -40, -30, -20, -10, -5, 5, 10, 20, 30, 40, 50, 60)
"""The grid of the published script (Xian et al., 2025)."""
SIZE = 384
TOGETHER = 64


def ours(keys: np.ndarray, names: np.ndarray, n_draws: int) -> tuple[float, float, int]:
    """Seconds for distances and for draws, and a checksum of what was drawn."""
    for_distances = for_draws = 0.0
    total = 0
    for start in range(0, len(keys), TOGETHER):
        started = time.perf_counter()
        gaps = np.maximum(1 - keys[start : start + TOGETHER].astype(np.float64) @ names.T, 0)
        for_distances += time.perf_counter() - started
        started = time.perf_counter()
        for i, gap in enumerate(gaps):
            noise = gumbel_noise(rng_for(0, "sampling", "benchmark", str(start + i)), len(names))
            for n in EXPONENTS:
                total += int(gumbel_top_k(log_weights(gap, n), noise, n_draws).sum())
        for_draws += time.perf_counter() - started
    return for_distances, for_draws, total


def loop_seconds(key: Sequence[float], names: Sequence[Sequence[float]], n_draws: int) -> float:
    """Seconds of one item and one exponent in plain Python, a pair at a time."""
    rng = random.Random(0)
    started = time.perf_counter()
    weights = []
    for name in names:
        dot = norm_a = norm_b = 0.0
        for a, b in zip(key, name, strict=True):
            dot += a * b
            norm_a += a * a
            norm_b += b * b
        gap = max(1.0 - dot / math.sqrt(norm_a * norm_b), 1e-12)
        weights.append(gap**-5.0)
    for _ in range(n_draws):
        drawn = rng.choices(range(len(weights)), weights)[0]
        weights[drawn] = 0.0
    return time.perf_counter() - started


def main() -> None:
    """Print one JSON line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=10_000)
    parser.add_argument("--names", type=int, default=9_848)
    parser.add_argument("--draws", type=int, default=8)
    given = parser.parse_args()
    rng = np.random.default_rng(0)
    names = rng.normal(size=(given.names, SIZE))
    names /= np.linalg.norm(names, axis=1, keepdims=True)
    keys = rng.normal(size=(given.items, SIZE)).astype(np.float32)
    keys /= np.linalg.norm(keys, axis=1, keepdims=True)
    distances, draws, _ = ours(keys, names, given.draws)
    few = 200
    loop = loop_seconds(keys[0].tolist(), names[:few].tolist(), given.draws) * given.names / few
    n_proposals = given.items * len(EXPONENTS)
    found = {
        "items": given.items,
        "names": given.names,
        "exponents": len(EXPONENTS),
        "draws": given.draws,
        "distance_seconds": round(distances, 1),
        "draw_seconds": round(draws, 1),
        "seconds": round(distances + draws, 1),
        "loop_seconds_extrapolated": round(loop * n_proposals),
        "times_faster_than_the_loop": round(loop * n_proposals / (distances + draws)),
        "largest_resident_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
