"""Curves, regimes of n and sizes: planted truths come back, and what is equal stays equal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from scipy.stats import linregress
from scipy.stats import t as student

from medstress.analyses.run import Cell, Run
from medstress.analyses.scaling import (
    SCALING,
    Rated,
    Scaling,
    trend,
)
from medstress.analyses.shown import as_json
from medstress.core.arms import Arm, AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from planted_trials import arm, planted_run, trial


def attack(label: str, budget: int = 8, goal: str = "untargeted", **params: Any) -> AttackRecord:
    spec = {"name": "entity_substitution", "budget": budget, "goal": goal, **params}
    return AttackRecord(
        label=label,
        name="entity_substitution",
        budget=budget,
        params=spec,
        goal=goal,
        draws_names=True,
    )


def scaling(run: Run) -> Scaling:
    return run.of(SCALING)


def arm_of_curve(at: Arm, firsts: Sequence[int | None]) -> list[Trial]:
    return [trial(i, at, flipped_at=first) for i, first in enumerate(firsts)]


# Curves ----------------------------------------------------------------------------------------


def test_a_curve_with_a_bend_has_a_budget_and_one_without_has_none():
    bend = arm_of_curve(arm(attack("bend")), [1] * 30 + [2] * 40 + [3] * 40 + [None] * 90)
    rise = arm_of_curve(arm(attack("rise")), [b for b in range(1, 9) for _ in range(b)] * 3)
    curves = {curve.attack: curve for curve in scaling(planted_run([*bend, *rise])).curves}
    assert curves["bend"].shape.recommended_budget == 3
    assert curves["bend"].n_items == 200
    assert curves["rise"].shape.recommended_budget is None
    assert "no plateau" in curves["rise"].shape.inflection.method


def test_one_query_and_attacks_that_ask_every_name_have_no_curve():
    every = attack("every name")
    every = AttackRecord(
        label="every name", name=every.name, budget=8, params={**every.params, "budget": None}
    )
    trials = [trial(1, arm(attack("one", 1)), flipped_at=1), trial(1, arm(every), flipped_at=1)]
    assert SCALING.compute(planted_run(trials)) is None


def test_the_attack_that_starts_slowly_overtakes_and_goals_are_not_mixed():
    fast = arm_of_curve(arm(attack("fast")), [1] * 40 + [None] * 60)
    slow = arm_of_curve(arm(attack("slow")), [1] * 10 + [5] * 70 + [None] * 20)
    other = arm_of_curve(arm(attack("to C", goal="C")), [1] * 50 + [None] * 50)
    (pair,) = scaling(planted_run([*fast, *slow, *other])).pairs
    assert (pair.attack, pair.against, pair.both.leads_after) == ("fast", "slow", "slow")
    assert (pair.both.crossover.value, pair.both.budget, pair.both.n_items) == (5, 8, 100)
    assert pair.both.gap.value == pytest.approx(-0.4)


def test_seeds_of_one_item_count_together():
    trials = [
        trial(i, arm(attack("near"), seed=s), flipped_at=1 + s) for i in range(6) for s in range(5)
    ]
    (curve,) = scaling(planted_run(trials)).curves
    assert (curve.n_items, curve.shape.inflection.n) == (6, 30)


# Series over n ---------------------------------------------------------------------------------


def series_trials(rates: dict[float | None, float], m: int = 60, goal: str = "untargeted") -> Any:
    """An attack for each n (None: random sampling), that flips a share of the same items."""
    trials: list[Trial] = []
    for n, share in rates.items():
        sampler = "random" if n is None else "pdws"
        at = arm(attack(f"{goal} n={n}", 1, goal, sampler=sampler, n=n))
        order = np.random.default_rng(100 + int(n or 0)).permutation(m)
        trials += [trial(i, at, flipped_at=1 if order[i] < share * m else None) for i in range(m)]
    return trials


PLANTED = {-30.0: 0.3, -20.0: 0.7, -10.0: 0.4, None: 0.1, 10.0: 0.3, 20.0: 0.6, 30.0: 0.2}


def test_a_series_is_in_order_of_n_beside_random_sampling():
    result = scaling(planted_run(series_trials(PLANTED)))
    (series,) = result.exponents
    assert [point.n for point in series.points] == [-30, -20, -10, 10, 20, 30]
    assert series.random.attack == "untargeted n=None"


def test_a_series_holds_what_differs_in_n_alone():
    trials = [
        *series_trials({-10.0: 0.5, 10.0: 0.5}, 10),
        *(
            trial(i, arm(attack("other", 1, sampler="pdws", n=-5, field="stem")), flipped_at=1)
            for i in range(10)
        ),
    ]
    result = scaling(planted_run(trials))
    assert sorted(len(series.points) for series in result.exponents) == [1, 2]


# Sizes -----------------------------------------------------------------------------------------


def sized(size: float, asr: float | None) -> Rated:
    return Rated(size, asr, least=asr or 0.0, most=asr or 0.0)


def test_a_planted_slope_is_recovered_with_students_interval():
    noise = (0.01, -0.02, 0.015, -0.005)
    rates = [0.9 - 0.1 * i + e for i, e in enumerate(noise)]
    got, line = (
        trend([sized(10.0 ** (6 + i), y) for i, y in enumerate(rates)]),
        linregress(range(4), rates),
    )
    half = student.ppf(0.975, 2) * line.stderr
    assert got.value == pytest.approx(line.slope)
    assert got.value == pytest.approx(-0.1, abs=0.01)
    assert (got.low, got.high) == pytest.approx((line.slope - half, line.slope + half))


@pytest.mark.parametrize("step", [0.0, 0.1])
def test_models_on_one_line_have_a_trend_without_an_interval(step):
    got = trend([sized(10.0**i, 0.4 + step * i) for i in range(3)])
    assert got.value == pytest.approx(step)
    assert (got.low, got.high) == (None, None)
    assert trend([sized(1e6, 0.3), sized(1e7, 0.3), sized(1e8, None)]).value is None


def test_answers_that_cannot_be_read_make_the_trend_open():
    def model(name: str, size: float, n_flipped: int, n_mute: int) -> tuple[list[Trial], Any]:
        at = arm(attack("near"), victim=name)
        trials = [trial(i, at, flipped_at=1) for i in range(n_flipped)]
        trials += [trial(100 + i, at, asked=8, unreadable=8) for i in range(n_mute)]
        return [*trials, *(trial(200 + i, at) for i in range(20))], {"parameters": size}

    made = {name: model(name, 10.0**i, 10, 20 if i == 3 else 0) for i, name in enumerate("abcd", 1)}
    run = planted_run(
        [t for trials, _ in made.values() for t in trials],
        victims={name: {**size, "group": "generalist"} for name, (_, size) in made.items()},
    )
    (row,) = scaling(run).size
    assert [point.victim for point in row.points] == ["a", "b", "c", "d"]
    worst = row.trend["all"].worst
    assert worst[1] >= row.trend["all"].high
    assert row.trend["specialist"].value is None
    assert as_json(row)["trend"]["generalist"]["n"] == 4


def test_the_result_shows_itself():
    result = scaling(planted_run(series_trials(PLANTED), victims={"model": {"parameters": 1e9}}))
    names = [t.name for t in result.tables() if t.rows]
    assert names == ["exponents", "size"]
    chart = result.charts()[0]
    assert [point.x for point in chart.points] == [-30, -20, -10, 0, 10, 20, 30]
    curves = scaling(planted_run(arm_of_curve(arm(attack("near")), [1, 2, 8, None])))
    assert [t.name for t in curves.tables() if t.rows] == ["scaling"]


def test_nothing_that_was_right_is_nothing_to_scale():
    assert SCALING.compute(planted_run([trial(1, verdict=Verdict.ALREADY_WRONG)])) is None
    assert isinstance(planted_run([trial(1)]).cells[0], Cell)
