"""Which n is chosen from the trials of a grid."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.metrics.old_stats.estimates import wilson
from medstress.tuning.choice import (
    FAR,
    NEAR,
    GridPoint,
    choose,
    regime_of,
    template_of,
    tuning_grids,
)


def point(n: float, hits: int, n_items: int = 20) -> GridPoint:
    return GridPoint(n=n, attack=f"pdws n={n:g}", estimate=wilson(hits, n_items))


@pytest.fixture
def at(trial: Callable[..., TrialRow]) -> Callable[..., TrialRow]:
    """A trial at an n."""

    def make(n: float, item: int, *, flipped: bool, **given: Any) -> TrialRow:
        spec = {"name": "entity_substitution", "sampler": "pdws", "n": n, "budget": 4}
        return trial(
            **{
                "attack": f"pdws n={n:g}",
                "attack_spec": json.dumps(spec),
                "item_id": f"q{item}",
                "verdict": Verdict.FLIPPED if flipped else Verdict.HELD,
                **given,
            }
        )

    return make


def test_the_best_n_of_each_sign_is_chosen() -> None:
    chosen = choose([point(-10, 3), point(-5, 7), point(0, 20), point(5, 2), point(10, 4)])
    assert {regime: best.n for regime, best in chosen.items()} == {NEAR: -5, FAR: 10}


def test_of_equal_rates_the_smaller_exponent_is_chosen() -> None:
    points = [point(n, 5) for n in (-50, -20, -5, 5, 20, 50)]
    assert [best.n for best in choose(points).values()] == [-5, 5]


def test_a_regime_without_values_or_without_eligible_trials_has_no_choice() -> None:
    assert set(choose([point(-5, 1), point(0, 9)])) == {NEAR}
    assert choose([point(-5, 0, 0), point(5, 0, 0)]) == {}


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(0, 9)), unique_by=lambda p: p[0]))
def test_no_value_of_the_same_sign_beats_the_chosen_one(pairs: list[tuple[int, int]]) -> None:
    chosen = choose([point(n, hits, 9) for n, hits in pairs])
    assert set(chosen) == {regime_of(n) for n, _ in pairs} - {None}
    for regime, best in chosen.items():
        rivals = [(hits, -abs(n)) for n, hits in pairs if regime_of(n) == regime]
        assert (round((best.estimate.value or 0) * 9), -abs(best.n)) == max(rivals)


def test_grids_are_told_apart_by_place_and_attack_and_pool_the_seeds(
    at: Callable[..., TrialRow], trial: Callable[..., TrialRow]
) -> None:
    trials = [
        at(n, item, flipped=n < 0, seed=seed, victim=victim)
        for n in (5.0, -5.0)
        for item in range(3)
        for seed in (0, 1)
        for victim in ("a", "b")
    ]
    trials += [trial(attack_spec=json.dumps({"sampler": "random", "budget": 4}))]
    first, second = tuning_grids(trials)
    assert (first.victim, second.victim) == ("a", "b")
    assert [p.n for p in first.points] == [-5.0, 5.0]
    assert [(p.estimate.value, p.estimate.n) for p in first.points] == [(1.0, 6), (0.0, 6)]
    assert (first.n_items, first.n_eligible, first.name) == (3, 3, "pdws")


def test_items_that_were_wrong_count_as_asked_and_not_as_eligible(
    at: Callable[..., TrialRow],
) -> None:
    trials = [at(-5.0, 0, flipped=True), at(-5.0, 1, flipped=False)]
    trials += [at(-5.0, 2, flipped=False, verdict=Verdict.ALREADY_WRONG)]
    trials += [at(-5.0, 3, flipped=False, verdict=Verdict.NOT_ATTACKABLE)]
    (grid,) = tuning_grids(trials)
    assert (grid.n_items, grid.n_eligible, grid.points[0].estimate.value) == (3, 2, 0.5)


def test_refuted_successes_count_only_where_the_metric_says_so(at: Callable[..., TrialRow]) -> None:
    trials = [at(-5.0, i, flipped=True, valid=None if i == 0 else False) for i in range(4)]
    assert tuning_grids(trials, "asr")[0].points[0].estimate.value == 1
    assert tuning_grids(trials, "asr_unrefuted")[0].points[0].estimate.value == 0.25


@pytest.mark.parametrize("key", ["sampler", "budget", "victim_span"])
def test_whatever_differs_but_n_makes_another_attack(key: str) -> None:
    spec = {"sampler": "pdws", "n": -5, "budget": 8, "victim_span": "nearest"}
    assert template_of(spec) == template_of({**spec, "n": 7})
    assert template_of(spec) != template_of({**spec, key: 3})
