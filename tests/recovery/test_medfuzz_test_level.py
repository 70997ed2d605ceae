"""The significance test keeps its level under planted nulls and finds planted effects."""

from __future__ import annotations

import importlib.util
import math
import sys
from itertools import product
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from medstress.analyses.families import LEVEL, Null, Statistic
from medstress.stats.permutation import ControlPlan, p_values

SCRIPT = Path(__file__).parents[2] / "validation" / "medfuzz_test.py"
N = 2_500
"""Attacked items."""


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("medfuzz_test", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


SIMULATION = _load()
TARGETS, TESTS = list(SIMULATION.TARGETS), list(SIMULATION.TESTS)


def outcome(target: str, name: str, n: int = N) -> Any:
    """Tests of n attacked items of a target that nothing but chance misleads."""
    rng = np.random.default_rng([7, TARGETS.index(target), TESTS.index(name)])
    return SIMULATION.outcome(rng, SIMULATION.TESTS[name], n, SIMULATION.TARGETS[target])


def most(level: float, n: int) -> float:
    """A share of n no larger than this is within three standard errors of the level."""
    return level + 3 * math.sqrt(level * (1 - level) / n)


def test_every_null_and_generator_is_simulated() -> None:
    planted = {(test.null, test.written) for test in SIMULATION.TESTS.values()}
    assert set(product(Null, (False, True))) <= planted


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [name for name in TESTS if name.startswith("matched")])
def test_the_default_holds_its_level_over_attacked_items(name: str, target: str) -> None:
    assert outcome(target, name).n_rejected / N <= most(LEVEL, N)


@pytest.mark.parametrize(("name", "target"), list(product(TESTS, TARGETS)))
def test_a_null_holds_its_level_among_successes_or_says_how_far_it_does_not(
    name: str, target: str
) -> None:
    found = outcome(target, name)
    null = SIMULATION.TESTS[name].null
    n = len(found.p)
    assert n > 100
    assert found.n_rejected / n <= most(null.level_among_successes, n)
    if found.n_rejected / n > most(LEVEL, n):
        assert f"up to {null.level_among_successes:.2f}".replace("0.", ".") in null.caution


@pytest.mark.release
def test_what_is_said_of_a_null_is_no_exaggeration() -> None:
    """Somewhere it rejects about as often as the output says."""
    for name in ("matched (default)", "neutral, 30"):
        null = SIMULATION.TESTS[name].null
        shares = [
            (found.n_rejected / len(found.p), len(found.p))
            for found in (outcome(target, name, 6_000) for target in TARGETS)
        ]
        worst, n = max(shares)
        assert worst > null.level_among_successes - 3 * math.sqrt(0.25 / n)


def test_loops_that_draw_from_a_pool_of_thirty_texts_would_reject_too_often() -> None:
    """What fresh texts and the least p of repeated ones prevent."""
    rng = np.random.default_rng(5)
    strength = SIMULATION.TARGETS["3 % of insertions with t = .1, else .95"]
    n_rejected, n = 0, 1_500
    for _ in range(n):
        own = np.array([rng.beta(4, 1)])
        found = SIMULATION.attack(rng, strength, 1)
        if not len(found[0]):
            continue
        pool = strength(rng, np.repeat(own, 30))
        tried = rng.choice(pool, (66, 5))
        shown = SIMULATION.reasoning(rng, tried)
        erred = rng.random(tried.shape) > shown
        flipped, first = erred.any(axis=1), erred.argmax(axis=1)
        t = SIMULATION.estimate(rng, tried[np.arange(66), first], Statistic.KEY_PROBABILITY)
        observed = SIMULATION.estimate(rng, found[1], Statistic.KEY_PROBABILITY)
        hard = [bool(one) for one in flipped & (t <= observed)]
        plan = ControlPlan(fixed=66)
        n_rejected += p_values(hard, plan).p <= LEVEL
        assert p_values(hard, plan, n_distinct=6).p >= 1 / 7
    assert n_rejected / n > most(LEVEL, n)


def test_power_grows_with_the_effect_and_nears_one_within_the_calls_of_one_success() -> None:
    found = dict(SIMULATION.power(500, seed=3))
    shares = {effect: one.n_rejected / len(one.p) for effect, one in found.items()}
    assert shares[0.0] < 0.2
    assert 0.55 < shares[0.1] < 0.85
    assert shares[0.3] > 0.97
    for one in found.values():
        # 2,000 calls of three a conversation, and T of the clean item on top.
        assert one.conversations.max() <= 2_000 / 3 + 5
