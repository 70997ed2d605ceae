"""The two regimes: series, planted differences, local maxima."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy.stats import permutation_test

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.arms import Hits, arrange
from medstress.metrics.curves.exponents import compare_regimes, exponent_rows, peak, sign_flip_p
from medstress.metrics.item_means import item_mean
from medstress.metrics.old_stats.estimates import wilson_ends

Make = Callable[..., TrialRow]


def planted(shares: dict[str, float], m: int, seed: int = 0) -> dict[str, Hits]:
    rng = np.random.default_rng(seed)
    ones = np.ones(m)
    return {
        name: Hits(successes=(rng.random((m, 1)) < share).astype(float), counts=ones)
        for name, share in shares.items()
    }


def test_a_planted_difference_of_regimes_is_found_with_its_size() -> None:
    found = planted({"a": 0.4, "b": 0.4, "c": 0.2, "d": 0.2, "r": 0.2}, 500)
    row = compare_regimes(found, {"a": -20, "b": -10, "c": 10, "d": 20}, "r")
    tests = {(test["comparison"], test["against"]): test for test in row["tests"]}
    near = tests["near", "far"]
    assert near["p"] == pytest.approx(1 / 5000)  # the least of 4,999 sign flips
    assert near["difference"]["value"] == pytest.approx(0.2, abs=0.06)  # three standard errors
    assert tests["random", "far"]["p"] > 0.01
    assert row["regimes"]["near"]["value"] == pytest.approx(0.4, abs=0.05)


@pytest.mark.release
def test_the_interval_of_a_difference_covers_the_planted_one() -> None:
    """Nominal 95 %; of 60 simulations at least 52 (P < .01 for fewer)."""
    n_inside = 0
    for seed in range(60):
        arms = planted({"a": 0.4, "c": 0.2}, 100, seed)
        (test,) = compare_regimes(arms, {"a": -5, "c": 5}, None)["tests"]
        n_inside += test["difference"]["low"] <= 0.2 <= test["difference"]["high"]
    assert n_inside >= 52


@pytest.mark.release
def test_regimes_that_do_not_differ_are_told_apart_at_the_nominal_rate() -> None:
    p_values = [
        compare_regimes(planted({"a": 0.3, "c": 0.3}, 60, s), {"a": -5, "c": 5}, None)["tests"][0][
            "p"
        ]
        for s in range(80)
    ]
    assert sum(p <= 0.05 for p in p_values) <= 9  # P(more | 5 %) < .01


def test_the_exact_sign_flip_p_value_of_a_small_sample_is_reproduced() -> None:
    """Five items, all flipped by near only: 2 of the 32 sign patterns are as extreme."""
    arms = {
        "a": Hits(successes=np.ones((5, 1)), counts=np.ones(5)),
        "c": Hits(successes=np.zeros((5, 1)), counts=np.ones(5)),
    }
    (test,) = compare_regimes(arms, {"a": -5, "c": 5}, None)["tests"]
    assert test["p"] == 2 / 32


def test_the_sign_flip_test_agrees_with_scipys() -> None:
    rng = np.random.default_rng(4)
    for m, tolerance in ((9, 1e-12), (60, 0.03)):
        values = rng.normal(0.25, 1, m)
        expected = permutation_test(
            (values,),
            lambda x, axis: x.mean(axis=axis),
            permutation_type="samples",
            n_resamples=4_999,
            vectorized=True,
            random_state=2,
        ).pvalue
        assert sign_flip_p(values) == pytest.approx(expected, abs=tolerance)
    assert sign_flip_p(np.zeros(4)) == 1


def test_without_a_random_attack_n_0_stands_for_it() -> None:
    found = planted({"a": 0.5, "zero": 0.1, "c": 0.5}, 100)
    row = compare_regimes(found, {"a": -5, "zero": 0, "c": 5}, None)
    assert row["regimes"]["random"]["value"] == pytest.approx(0.1, abs=0.1)
    assert len(row["tests"]) == 3


def test_a_local_maximum_inside_the_grid_is_told_from_one_at_its_end() -> None:
    rng = np.random.default_rng(1)
    inside = (rng.random((800, 3)) < [0.2, 0.5, 0.2]).astype(float)
    end = (rng.random((800, 3)) < [0.5, 0.3, 0.1]).astype(float)
    assert peak(inside, [-30, -20, -10])["n"]["value"] == -20
    assert peak(inside, [-30, -20, -10])["inside_share"] == 1
    assert peak(end, [-30, -20, -10])["inside_share"] == 0


def spec(**keys: Any) -> str:
    return json.dumps({"name": "entity_substitution", "budget": 4, "victim_span": "nearest"} | keys)


def test_a_series_holds_what_differs_in_n_alone_and_finds_its_random_attack(trial: Make) -> None:
    specs = {
        "n10": spec(sampler="pdws", n=10),
        "n-10": spec(sampler="pdws", n=-10),
        "other": spec(sampler="pdws", n=-10, victim_span="random"),
        "rand": spec(sampler="random", n=None),
        "rand8": spec(sampler="random", n=None, budget=8),
        "rands": spec(sampler="random", n=None, victim_span="random"),
    }
    rows = [
        trial(item_id=str(i), attack=attack, attack_spec=text, verdict=Verdict.FLIPPED)
        for attack, text in specs.items()
        for i in range(3)
    ]
    pooled = {name: {"asr": name, "asr_at": [f"{name} at 1"]} for name in specs}
    first, second = exponent_rows(arrange(rows), lambda _, attack: pooled[attack])
    assert [point["n"] for point in first["points"]] == [-10.0, 10.0]
    assert first["points"][0]["asr_at_1"] == "n-10 at 1"
    assert first["random"]["attack"] == "rand"
    assert (len(second["points"]), second["random"]["attack"]) == (1, "rands")


def test_p_values_are_adjusted_over_all_series(trial: Make) -> None:
    rows = [
        trial(
            item_id=str(i),
            attack=f"n{n}",
            attack_spec=spec(sampler="pdws", n=n),
            group=group,
            verdict=Verdict.FLIPPED if n < 0 else Verdict.HELD,
        )
        for group in ("drugs", "diseases")
        for n in (-5, 5)
        for i in range(5)
    ]
    found = exponent_rows(arrange(rows), lambda *_: None)
    assert [test["p_adjusted"] for row in found for test in row["tests"]] == [2 / 32, 2 / 32]


def test_whole_documents_are_flipped_and_drawn() -> None:
    # 4 documents of 10 items that all agree: by item p is tiny, by document at most 1 in 8.
    successes = {"near": np.ones((40, 1)), "far": np.zeros((40, 1))}
    found = {k: Hits(successes=v, counts=np.ones(40)) for k, v in successes.items()}
    documents = np.arange(40) // 10
    exponents = {"near": -5, "far": 5}
    (by_item,) = compare_regimes(found, exponents, None)["tests"]
    (by_document,) = compare_regimes(found, exponents, None, documents)["tests"]
    assert by_item["p"] < 0.001
    assert by_document["p"] == 2 / 16
    assert "over 4 documents" in by_document["method"]
    found["near"].successes[:20] = 0
    row = compare_regimes(found, exponents, None, documents)
    narrow = compare_regimes(found, exponents, None)["regimes"]["near"]
    wide = row["regimes"]["near"]
    assert wide["value"] == narrow["value"] == 0.5
    assert wide["high"] - wide["low"] > 2 * (narrow["high"] - narrow["low"])
    assert row["n_items"] == 40
    # Two documents that look alike are two, however many items they hold.
    same = item_mean(np.ones(100), 0.0, np.repeat([0, 1], 50))
    assert same.low == pytest.approx(wilson_ends(2, 2)[0])
    assert "over 2 documents that look alike" in same.method
