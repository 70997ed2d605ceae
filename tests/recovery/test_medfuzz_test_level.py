"""The significance test keeps its level under planted nulls and finds planted effects."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from medstress.metrics.estimates import wilson_ends
from medstress.metrics.monte_carlo import ControlPlan
from medstress.metrics.significance import Null

SCRIPT = Path(__file__).parents[2] / "scripts" / "simulate_medfuzz_test.py"
N = 2_000
FIXED = ControlPlan(fixed=30)


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("simulate_medfuzz_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def rejections(simulation: ModuleType, target: str, null: Null, restarts: int = 10) -> int:
    rng = np.random.default_rng(7)
    strength = simulation.NULLS[target]
    found = simulation.attack(rng, strength, N)
    return int(simulation.rejected(rng, strength, null, found, FIXED, restarts=restarts)[0])


@pytest.mark.parametrize(
    "target",
    [
        "the same t = .8 everywhere",
        "t of an item from Beta(4, 1)",
        "t of an insertion from Beta(4, 1)",
        "3 % of insertions with t = .1, else .95",
    ],
)
def test_the_matched_test_rejects_at_most_its_level_among_two_thousand_null_successes(
    simulation: ModuleType, target: str
) -> None:
    k = rejections(simulation, target, Null.MATCHED)
    # Within simulation error: the lower end of the interval does not lie above the level.
    assert wilson_ends(k, N)[0] <= 0.05
    assert k / N <= 0.055


def test_one_neutral_insertion_as_control_rejects_too_often_where_insertions_differ(
    simulation: ModuleType,
) -> None:
    k = rejections(simulation, "3 % of insertions with t = .1, else .95", Null.NEUTRAL)
    assert wilson_ends(k, N)[0] > 0.15


def test_the_best_of_k_is_better_than_one_and_still_rejects_too_often(
    simulation: ModuleType,
) -> None:
    target = "3 % of insertions with t = .1, else .95"
    best = rejections(simulation, target, Null.BEST_OF_K)
    assert 0.08 < best / N < rejections(simulation, target, Null.NEUTRAL) / N


def test_a_control_that_gives_up_after_k_attempts_rejects_more_than_one_that_starts_over(
    simulation: ModuleType,
) -> None:
    target = "0.3 % of insertions with t = .05, else .98"
    once = rejections(simulation, target, Null.MATCHED, restarts=1)
    assert once > 1.5 * rejections(simulation, target, Null.MATCHED)


def test_power_grows_with_the_effect_and_nears_one(simulation: ModuleType) -> None:
    found = []
    for lower in (0.0, 0.1, 0.3):
        rng = np.random.default_rng(3)
        biased = simulation.attack(
            rng, lambda _, own, lower=lower: np.full(own.shape, 0.9 - lower), 400
        )
        k, _ = simulation.rejected(
            rng, lambda _, own: np.full(own.shape, 0.9), Null.MATCHED, biased, FIXED
        )
        found.append(k / 400)
    assert found[0] < 0.08
    assert 0.3 < found[1] < 0.6
    assert found[2] > 0.95
