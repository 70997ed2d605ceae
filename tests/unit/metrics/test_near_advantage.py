"""What survives of near draws' advantage over random ones, counted by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.near_advantage import (
    BEHIND,
    LABELS,
    NO_ADVANTAGE,
    near_advantages,
    why_no_near_advantage,
)
from medstress.metrics.surviving import CASES

Make = Callable[..., TrialRow]
NEAR = {"name": "entity_substitution", "sampler": "pdws", "n": -20, "budget": 4}
RANDOM = {**NEAR, "sampler": "random", "n": None}
LABELLED = {"validity_reason": "review", "sampled": True}
KINDS: dict[str, dict[str, Any]] = {
    "u": {"valid": None, "validity_reason": "rule"},
    "r": {"valid": False, "validity_reason": "synonym", "first_unrefuted_success": None},
    "c": {
        "valid": False,
        "validity_reason": "synonym",
        "first_unrefuted_success": None,
        "censored": True,
    },
    "v": {"valid": True, **LABELLED},
    "n": {"valid": False, **LABELLED, "first_unrefuted_success": 1},
    "d": {"valid": None, **LABELLED},
}
"""Successes: unknown, refuted by a rule, refuted and censored, labelled valid, labelled invalid,
disputed in the sample."""


def arm(
    trial: Make, label: str, spec: dict[str, Any], ended: str, seed: int | None = 0, **given: Any
) -> list[TrialRow]:
    """One trial an item: a success of a kind, `.` held, `x` wrong before any edit."""
    return [
        trial(
            attack=label,
            attack_spec=json.dumps(spec),
            item_id=f"q{i}",
            seed=seed,
            verdict=Verdict.FLIPPED
            if one in KINDS
            else Verdict.HELD
            if one == "."
            else Verdict.ALREADY_WRONG,
            **KINDS.get(one, {}),
            **given,
        )
        for i, one in enumerate(ended)
    ]


def row_of(trial: Make, near: str, random: str) -> dict[str, Any]:
    near_, random_ = arm(trial, "near", NEAR, near), arm(trial, "random", RANDOM, random)
    (row,) = near_advantages(near_ + random_)
    return row


def values(found: dict[str, Any]) -> dict[str, float]:
    return {name: None if each is None else round(each["value"], 6) for name, each in found.items()}


def test_bounds_count_what_is_unknown_either_way_and_censored_searches_too(trial: Make) -> None:
    #          40 near successes: 20 unknown, 10 refuted, 10 refuted and censored; 10 random ones
    row = row_of(trial, "u" * 20 + "r" * 10 + "c" * 10 + "." * 60, "." * 50 + "u" * 10 + "." * 40)
    assert row["advantage"]["value"] == pytest.approx(0.3)
    assert values(row["left"]) == {
        "worst": -0.1,
        "no_unknown_valid": 0,
        "all_unknown_valid": 0.1,
        "best": 0.2,
        "worst_censored": -0.1,
        "best_censored": 0.3,
        LABELS: None,
    }
    assert values(row["share"]) == {
        name: pytest.approx(None if left is None else left / 0.3, abs=1e-6)
        for name, left in values(row["left"]).items()
    }
    for name in CASES:
        share = row["share"][name]
        assert share["low"] <= share["value"] <= share["high"]
    assert row["why_no_share"] is None
    assert "nothing vouches" in row["why_no_estimate"] or "label" in row["why_no_estimate"]
    assert (row["n_items"], row["n_pairs"], row["n_labels"]) == (100, 100, [0, 0])


def test_people_settle_the_bounds_and_give_the_share(trial: Make) -> None:
    """All judged: 20 of 40 near successes valid, and all ten random ones: (.2 - .1) / .3."""
    row = row_of(trial, "vn" * 20 + "." * 60, "." * 50 + "v" * 10 + "." * 40)
    assert row["n_labels"] == [40, 10]
    assert row["share"][LABELS]["value"] == pytest.approx(1 / 3)
    assert {round(row["share"][name]["value"], 6) for name in CASES} == {round(1 / 3, 6)}
    known = row["share"][LABELS]
    assert known["low"] < known["value"] < known["high"] < 1


def test_what_a_rule_refuted_stays_refuted_where_nobody_labelled_it(trial: Make) -> None:
    """Of 40 near successes 20 are refuted, ten of the others labelled, five valid: .2 / 2 - .1."""
    row = row_of(trial, "vn" * 5 + "u" * 10 + "r" * 20 + "." * 60, "." * 50 + "v" * 10 + "." * 40)
    assert row["left"][LABELS]["value"] == pytest.approx(0.2 / 2 - 0.1)
    assert row["share"][LABELS]["value"] == pytest.approx(0, abs=1e-9)


def test_disputes_of_the_sample_count_at_their_worst(trial: Make) -> None:
    row = row_of(trial, "v" * 12 + "d" * 4 + "u" * 24 + "." * 60, "." * 50 + "v" * 10 + "." * 40)
    low, high = row["settled_ends"]
    known = row["share"][LABELS]
    assert low < known["low"]
    assert high >= known["high"]
    assert row["n_unsettled"] == [4, 0]


def test_fewer_than_ten_labels_of_an_arm_give_bounds_alone(trial: Make) -> None:
    row = row_of(trial, "v" * 9 + "u" * 31 + "." * 60, "." * 50 + "v" * 10 + "." * 40)
    assert (row["left"][LABELS], row["share"][LABELS], row["settled_ends"]) == (None, None, None)
    assert row["why_no_estimate"].startswith("near draws: 9 labels")
    assert row["share"]["worst"] is not None


@pytest.mark.parametrize(
    ("near", "random", "why"),
    [
        ("u" * 30 + "." * 30, "u" * 30 + "." * 30, NO_ADVANTAGE),  # ties
        ("u" * 5 + "." * 55, "." * 4 + "u" * 3 + "." * 53, NO_ADVANTAGE),  # not clear of 0
        ("." * 60, "." * 60, NO_ADVANTAGE),  # nothing succeeds
        ("v" * 12 + "." * 48, "v" * 40 + "." * 20, BEHIND),
    ],
)
def test_without_a_clear_advantage_no_share_exists(
    trial: Make, near: str, random: str, why: str
) -> None:
    row = row_of(trial, near, random)
    assert row["why_no_share"] == why
    assert set(row["share"].values()) == {None}
    assert row["settled_ends"] is None
    assert row["left"]["all_unknown_valid"]["value"] == row["advantage"]["value"]


def test_only_items_eligible_under_both_count_and_a_fixed_arm_stands_for_every_seed(
    trial: Make,
) -> None:
    near = arm(trial, "near", NEAR | {"sampler": "nearest", "n": None}, "u" * 12 + ".x", seed=None)
    random = [
        row for seed in range(3) for row in arm(trial, "random", RANDOM, "." * 12 + "xu", seed=seed)
    ]
    (row,) = near_advantages(near + random)
    assert (row["n_items"], row["n_pairs"]) == (12, 36)
    assert row["advantage"]["value"] == 1
    assert row["share"]["all_unknown_valid"]["value"] == 1


def test_a_near_arm_is_held_against_the_random_arm_most_like_it(trial: Make) -> None:
    mark = {"variants": "mark"}
    trials = [
        *arm(trial, "near", NEAR | mark, "u" * 20),
        *arm(trial, "a", RANDOM, "." * 20),
        *arm(trial, "b", RANDOM | mark, "." * 20),
        *arm(trial, "c", NEAR | mark | {"n": 0}, "." * 20),
        *arm(trial, "far", NEAR | mark | {"n": 20}, "u" * 20),
        *arm(trial, "longer", RANDOM | mark | {"budget": 8}, "." * 20),
    ]
    (row,) = near_advantages(trials)
    assert (row["near"], row["random"], row["differs"]) == ("near", "b", [])
    (row,) = near_advantages([one for one in trials if one.attack in ("near", "a")])
    assert (row["random"], row["differs"]) == ("a", ["variants"])
    (row,) = near_advantages([one for one in trials if one.attack in ("near", "c")])
    assert row["random"] == "c"


def test_controls_are_no_random_arm_and_reasons_are_said(trial: Make) -> None:
    near = arm(trial, "near", NEAR, "u" * 20)
    control = arm(trial, "near / same_type", RANDOM, "." * 20, arm="same_type")
    assert near_advantages(near + control) == []
    told = {
        "no attack draws at random": near,
        "no attack draws near names": arm(trial, "far", NEAR | {"n": 20}, "u"),
        "a budget of 4, random ones of 8": [
            *near,
            *arm(trial, "random", RANDOM | {"budget": 8}, "." * 20),
        ],
        "no item is eligible under": [*near, *arm(trial, "random", RANDOM, "x" * 20)],
    }
    for reason, trials in told.items():
        assert near_advantages(trials) == []
        assert reason in why_no_near_advantage(trials)


def test_the_share_of_a_victim_that_guesses_says_so(trial: Make) -> None:
    """Always A, and A is the key of all: clean answers are the commonest letter's."""
    row = row_of(trial, "u" * 40 + "." * 60, "." * 100)
    assert row["guesses"] is True
