"""Scores of several victims as one: means over them, with seeds drawn from three on."""

from __future__ import annotations

from typing import Any

import pytest

from medstress.core import registry
from medstress.core.sentences import Entity
from medstress.metrics.sentences.correlations import Scored
from medstress.metrics.sentences.entity_scores import Reading
from medstress.summary.dataset_scores import Place, ScoredArm
from medstress.summary.training_seeds import together

NAMES = [f"s{number}" for number in range(12)]
NOISE = dict(registry.load("attacks", "swap_noise")().spec())
CONTROL = dict(registry.load("attacks", "non_entity_noise")(noise="swap_noise").spec())
HERE: Place = ("bc5cdr", "all", "", "noise")


def reading(name: str, *, found: bool) -> Reading:
    entity = (Entity(start=0, end=1, type="Drug"),)
    return Reading(cluster=name, gold=entity, found=entity if found else ())


def tagged(spec: dict[str, Any], before: int, after: int, seed: int | None = 0) -> ScoredArm:
    """The entities of so many sentences are found."""
    arm = ScoredArm(spec)
    for i, name in enumerate(NAMES):
        arm.before[seed, name] = reading(name, found=i < before)
        arm.after[seed, name] = reading(name, found=i < after)
    return arm


def f1(found: int) -> float:
    return 2 * found / (found + 12)


def test_scores_of_all_victims_are_averaged() -> None:
    arms = {
        ("bc5cdr", "all", "a", "noise"): tagged(NOISE, 12, 6),
        ("bc5cdr", "all", "b", "noise"): tagged(NOISE, 6, 0),
    }
    row = together(arms, HERE, ["a", "b"])
    assert row["precision"]["value"] == 1.0
    assert row["recall"]["value"] == 18 / 24
    assert row["recall_after"]["value"] == row["recall_relaxed_after"]["value"] == 6 / 24
    assert row["f1"]["n"] == 18 + 24
    assert row["f1_drop"]["value"] == pytest.approx((f1(12) + f1(6) - f1(6) - f1(0)) / 2)
    assert row["f1_net_drop"]["value"] is None
    # One that marks nothing has no precision, and so the mean has none.
    assert row["precision_after"]["value"] is None


def test_from_three_seeds_on_their_spread_is_in_the_interval() -> None:
    arms = {
        ("bc5cdr", "all", name, "noise"): tagged(NOISE, 12, after)
        for name, after in (("a", 10), ("b", 6), ("c", 8))
    }
    three, one = (together(arms, HERE, names) for names in (["a", "b", "c"], ["c"]))
    assert "1 training seed, so nothing of other seeds" in one["recall_after"]["method"]
    assert "3 training seeds" in three["recall_after"]["method"]
    # 10, 6 and 8 of 12: the mean of seeds alone is 8/12 +- 4.30 * (2 / 12) / sqrt(3).
    assert three["recall_after"]["low"] < 8 / 12 - 0.35
    assert one["recall_after"]["low"] > 8 / 12 - 0.35


def test_one_victim_together_with_none_is_what_it_is_alone() -> None:
    arms = {("bc5cdr", "all", name, "noise"): tagged(NOISE, 9, 4) for name in ("a", "b")}
    alone, both = (together(arms, HERE, names) for names in (["a"], ["a", "b"]))
    for field in ("precision", "recall_after", "f1", "f1_drop"):
        assert alone[field]["value"] == both[field]["value"]
        assert alone[field]["low"] == both[field]["low"]


def test_each_victim_is_held_against_its_own_control_also_where_the_attack_has_no_seed() -> None:
    arms = {}
    for victim, left in (("a", 8), ("b", 4)):
        arms["bc5cdr", "all", victim, "noise"] = tagged(NOISE, 12, left, seed=None)
        arms["bc5cdr", "all", victim, "control"] = tagged(CONTROL, 12, 10)
    row = together(arms, HERE, ["a", "b"])
    assert row["f1_net_drop"]["value"] == pytest.approx(f1(10) - (f1(8) + f1(4)) / 2)


def test_coefficients_of_pairs_are_averaged_over_victims() -> None:
    gold = [float(i % 5) for i in range(len(NAMES))]
    arms = {}
    for victim, sign in (("a", 1.0), ("b", -1.0)):
        arm = ScoredArm({"name": "synonym", "search": "none"})
        for name, score in zip(NAMES, gold, strict=True):
            arm.before[None, name] = Scored(score, score, name)
            arm.after[None, name] = Scored(score, sign * score, name)
        arms["biosses", "all", victim, "noise"] = arm
    row = together(arms, ("biosses", "all", "", "noise"), ["a", "b"])
    assert row["pearson"]["value"] == pytest.approx(1.0)
    assert row["pearson_after"]["value"] == pytest.approx(0.0)
    assert row["spearman_drop"]["value"] == pytest.approx(1.0)
