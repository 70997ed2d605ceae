"""How many items a clear verdict needs, and how often an early one is wrong, by simulation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom

from medstress.metrics.watching import EARLY
from medstress.stats.sequences import ConfidenceSequence

PAGE = (Path(__file__).parents[2] / "docs" / "criteria.md").read_text("utf-8")
LIMIT, MOST = 0.2, 600


def stopped_at(rate: float, seed: int) -> tuple[int, bool | None]:
    """Items until the limit is surely met (True) or missed (False), and which."""
    rng, sequence = np.random.default_rng(seed), ConfidenceSequence(EARLY)
    for n in range(1, MOST + 1):
        sequence.add(float(rng.random() < rate))
        low, high = sequence.interval
        if high <= LIMIT or low > LIMIT:
            return n, high <= LIMIT
    return MOST, None


@pytest.mark.parametrize(("place", "rate"), list(enumerate((0.05, 0.10, 0.40))))
def test_a_clear_verdict_needs_as_few_items_as_the_page_says(place: int, rate: float) -> None:
    found = re.search(r"after (\d+), (\d+) and (\d+) of 600 items", " ".join(PAGE.split()))
    assert found is not None
    runs = [stopped_at(rate, seed) for seed in range(200)]
    assert np.mean([n for n, _ in runs]) == pytest.approx(int(found[place + 1]), rel=0.15)
    assert all(met is (rate < LIMIT) for _, met in runs if met is not None)


@pytest.mark.parametrize("n", [60, pytest.param(300, marks=pytest.mark.release)])
def test_at_the_limit_an_early_verdict_is_rare(n: int) -> None:
    runs = [stopped_at(LIMIT, seed) for seed in range(n)]
    assert sum(met is not None for _, met in runs) <= binom.ppf(0.999, n, EARLY)
