"""Scores of several victims as one: entities counted together, coefficients averaged."""

from __future__ import annotations

from typing import Any

import pytest

from medstress import registry
from medstress.experiment.sentence_summary import Arm, Place, together
from medstress.metrics.correlations import Scored
from medstress.metrics.entity_scores import Reading
from medstress.sentences import Entity

NAMES = [f"s{number}" for number in range(12)]
NOISE = dict(registry.load("attacks", "swap_noise")().spec())
CONTROL = dict(registry.load("attacks", "non_entity_noise")(noise="swap_noise").spec())
HERE: Place = ("bc5cdr", "all", "", "noise")


def reading(name: str, *, found: bool) -> Reading:
    entity = (Entity(start=0, end=1, type="Drug"),)
    return Reading(cluster=name, gold=entity, found=entity if found else ())


def tagged(spec: dict[str, Any], before: int, after: int, seed: int | None = 0) -> Arm:
    """The entities of so many sentences are found."""
    arm = Arm(spec)
    for i, name in enumerate(NAMES):
        arm.before[seed, name] = reading(name, found=i < before)
        arm.after[seed, name] = reading(name, found=i < after)
    return arm


def test_entities_of_all_victims_are_counted_together() -> None:
    arms = {
        ("bc5cdr", "all", "a", "noise"): tagged(NOISE, 12, 6),
        ("bc5cdr", "all", "b", "noise"): tagged(NOISE, 6, 0),
    }
    row = together(arms, HERE, ["a", "b"])
    assert row["precision"]["value"] == 1.0
    assert row["recall"]["value"] == 18 / 24
    assert row["recall_after"]["value"] == row["recall_relaxed_after"]["value"] == 6 / 24
    assert row["f1"]["n"] == 18 + 24
    assert row["f1_drop"]["value"] == pytest.approx(2 * 18 / 42 - 2 * 6 / 30)
    assert row["f1_net_drop"]["value"] is None


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
    assert row["f1_net_drop"]["value"] == pytest.approx(2 * 20 / 44 - 2 * 12 / 36)


def test_coefficients_of_pairs_are_averaged_over_victims() -> None:
    gold = [float(i % 5) for i in range(len(NAMES))]
    arms = {}
    for victim, sign in (("a", 1.0), ("b", -1.0)):
        arm = Arm({"name": "synonym", "search": "none"})
        for name, score in zip(NAMES, gold, strict=True):
            arm.before[None, name] = Scored(score, score, name)
            arm.after[None, name] = Scored(score, sign * score, name)
        arms["biosses", "all", victim, "noise"] = arm
    row = together(arms, ("biosses", "all", "", "noise"), ["a", "b"])
    assert row["pearson"]["value"] == pytest.approx(1.0)
    assert row["pearson_after"]["value"] == pytest.approx(0.0)
    assert row["spearman_drop"]["value"] == pytest.approx(1.0)
