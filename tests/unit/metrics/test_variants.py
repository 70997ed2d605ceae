"""Rates over all variants of all items, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.controls import repaired
from medstress.metrics.variants import consistency_net, variant_fields

Make = Callable[..., TrialRow]


def rows(
    trial: Make, *told: tuple[str, str | None, list[str | None]], **more: str
) -> list[TrialRow]:
    """Trials by (key, clean answer, answers to variants)."""
    return [
        trial(
            item_id=str(at),
            key=key,
            answer_before=clean,
            verdict=Verdict.HELD if clean == key else Verdict.ALREADY_WRONG,
            variant_answers=json.dumps(answers),
            **more,
        )
        for at, (key, clean, answers) in enumerate(told)
    ]


def test_rates_by_hand(trial: Make) -> None:
    found = variant_fields(
        rows(
            trial,
            ("A", "A", ["A", "A"]),  # right and alike throughout
            ("A", "A", ["B", None]),
            ("A", "B", ["B", "B"]),  # wrong and alike throughout
            ("A", "B", ["A", "C"]),
            ("A", None, ["A", None]),  # unreadable answers are like no other
        )
    )["variants"]
    counts = (found["n_trials"], found["n_answers"], found["n_unreadable"])
    assert counts == (5, 10, 2)
    expected = {
        "accuracy": (4 / 10, 10),
        "accuracy_all": (1 / 5, 5),
        "consistency": (2 / 5, 5),
        "right_to_wrong": (1 / 4, 4),
        "wrong_to_right": (2 / 6, 6),
        "change": (0.0, 10),
    }
    for name, (value, n) in expected.items():
        assert found[name]["value"] == pytest.approx(value), name
        assert found[name]["n"] == n, name
    assert "by_variant" not in found


def test_a_trial_that_failed_on_the_way_counts_in_no_rate(trial: Make) -> None:
    told = rows(trial, ("A", "A", ["A", "A"]))
    cut = trial(
        item_id="x",
        answer_before="A",
        verdict=Verdict.FAILED,
        at="attack",
        variant_answers='["B"]',
    )
    assert variant_fields([*told, cut])["variants"]["n_trials"] == 1
    assert variant_fields([trial()]) == {}


def test_named_variants_are_told_apart_where_every_trial_has_them_all(trial: Make) -> None:
    spec = json.dumps({"name": "challenge", "variants": ["doubt", "neutral"]})
    told = rows(trial, ("A", "A", ["B", "A"]), ("A", "B", ["A", "B"]), attack_spec=spec)
    named = variant_fields(told)["variants"]["by_variant"]
    assert {name: each["accuracy"]["value"] for name, each in named.items()} == {
        "doubt": 1 / 2,
        "neutral": 1 / 2,
    }
    assert (
        named["doubt"]["right_to_wrong"]["value"] == named["doubt"]["wrong_to_right"]["value"] == 1
    )
    short = rows(trial, ("A", "A", ["B"]), attack_spec=spec)
    assert "by_variant" not in variant_fields([*told, *short])["variants"]


def test_consistency_stands_beside_that_of_the_control_on_the_same_trials(trial: Make) -> None:
    attack = rows(trial, *[("A", "A", ["B"])] * 6, *[("A", "B", ["B"])] * 4)
    control = rows(trial, *[("A", "A", ["A"])] * 8, ("A", "B", ["A"]))
    net = consistency_net(attack, {"no_op": control})["no_op"]
    # Of the nine that both have, the probe leaves 3 alike, the control 8.
    assert (net["value"], net["n"]) == (pytest.approx((3 - 8) / 9), 9)
    assert -1 < net["low"] < net["value"] < net["high"] < 0.1


def test_the_first_variant_of_a_control_tells_what_it_repairs(trial: Make) -> None:
    found = repaired(
        rows(trial, ("A", "B", ["A", "B"]), ("A", "B", ["C", "A"]), ("A", "B", [None]))
    )
    assert (found["wrong_to_right"]["value"], found["wrong_to_right"]["n"]) == (1 / 2, 2)
