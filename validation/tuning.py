"""How optimistic is the best of a grid on the items it was chosen on? As docs/tuning.md shows.

A victim under which n changes nothing: whether a name breaks an item is a coin toss of its own.
Every n of the grid then has the same true success rate, and what the best of them shows above
it on the items it was chosen on is optimism. The draws are the real ones: one noise an item,
shared by all n.

    python validation/tuning.py --to runs/validation
"""

from __future__ import annotations

import argparse
import csv
from pathlib import Path

import numpy as np

from medstress.analyses.choice import SIGNS, GridPoint, best_points
from medstress.attacks.samplers import gumbel_noise, gumbel_top_k, log_weights
from medstress.experiment.config import GRID
from medstress.stats.estimate import wilson

N_NAMES = 200
RATE = 0.15


def flips(rng: np.random.Generator, n_items: int, *, shared: bool = True) -> np.ndarray:
    """Whether the first draw at each n breaks each item, shape (n_items, n_values).

    Args:
        rng: of the simulation.
        n_items: eligible items.
        shared: whether all n share their noise, as in medstress, or have each its own.
    """
    found = np.zeros((n_items, len(GRID)), dtype=bool)
    for i in range(n_items):
        distances = rng.uniform(0.2, 1.0, N_NAMES)
        weak = rng.random(N_NAMES) < RATE
        noise = gumbel_noise(rng, N_NAMES)
        for j, n in enumerate(GRID):
            if not shared:
                noise = gumbel_noise(rng, N_NAMES)
            found[i, j] = weak[gumbel_top_k(log_weights(distances, n), noise, 1)[0]]
    return found


def best(found: np.ndarray) -> dict[str, GridPoint]:
    """The rule of `medstress tune` on these items."""
    hits, n_items = found.sum(axis=0), found.shape[0]
    return best_points(
        [
            GridPoint(n=n, attack="pdws", estimate=wilson(int(k), n_items))
            for n, k in zip(GRID, hits, strict=True)
        ]
    )


def simulate(n_items: int, repeats: int, seed: int = 0, share: float = 0.2) -> dict[str, float]:
    """Mean rates over both regimes: the maximum on all items, on the tuning split, and held out.

    Args:
        n_items: eligible items in all.
        repeats: simulated experiments.
        seed: of the simulation.
        share: of the items that n is tuned on.
    """
    rng = np.random.default_rng(seed)
    same: list[float] = []
    tuned: list[float] = []
    held: list[float] = []
    n_tuning = round(share * n_items)
    for _ in range(repeats):
        found = flips(rng, n_items)
        same += [best(found)[regime].estimate.value or 0.0 for regime in SIGNS]
        for point in best(found[:n_tuning]).values():
            tuned.append(point.estimate.value or 0.0)
            held.append(found[n_tuning:, GRID.index(point.n)].mean())
    means = (float(np.mean(values)) for values in (same, tuned, held))
    return dict(zip(("same_items", "tuning_split", "held_out"), means, strict=True))


def main() -> None:
    """Write tuning.csv: 100 experiments a row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("runs/validation"))
    given = parser.parse_args()
    given.to.mkdir(parents=True, exist_ok=True)
    path = given.to / "tuning.csv"
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["eligible_items", "same_items", "tuning_split", "held_out"])
        for n_items in (50, 100, 200):
            writer.writerow([n_items, *simulate(n_items, 100).values()])
    print(path)


if __name__ == "__main__":
    main()
