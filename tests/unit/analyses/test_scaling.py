"""Curves, regimes of n and sizes: planted truths come back, and what is equal stays equal."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from medstress.analyses.run import Run
from medstress.analyses.scaling import SCALING, Scaling
from medstress.analyses.shown import label
from medstress.core.arms import Arm, AttackRecord
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


@pytest.mark.parametrize(("n_ahead", "overtakes"), [(1, None), (30, "slow")])
def test_who_overtakes_is_said_where_the_later_lead_is_no_chance(n_ahead, overtakes):
    fast = arm_of_curve(arm(attack("fast")), [1] * 20 + [None] * 60)
    slow = arm_of_curve(arm(attack("slow")), [5] * (20 + n_ahead) + [None] * (60 - n_ahead))
    found = scaling(planted_run([*fast, *slow]))
    (pair,), shown = found.pairs, found.tables()[1]
    low, high = pair.both.gap.ends
    assert low * high > 0, "one of the leads is clear, whichever overtakes"
    assert pair.both.leads_after == overtakes
    assert pair.both.crossover.value == (overtakes and 5)
    values = {
        one.heading: entry.value for one, entry in zip(shown.columns, *shown.rows, strict=True)
    }
    assert values.get("Overtakes") == (overtakes and label(overtakes))


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
        at = arm(attack(f"{goal} n={n}", 1, goal, sampler=sampler, n=n, field="options"))
        order = np.random.default_rng(100 + int(n or 0)).permutation(m)
        trials += [trial(i, at, flipped_at=1 if order[i] < share * m else None) for i in range(m)]
    return trials


PLANTED = {-30.0: 0.3, -20.0: 0.7, -10.0: 0.4, None: 0.1, 10.0: 0.3, 20.0: 0.6, 30.0: 0.2}


def test_attacks_are_in_order_of_n_with_random_sampling_at_0():
    rows = scaling(planted_run(series_trials(PLANTED))).exponents
    assert [row.n for row in rows] == [-30, -20, -10, 0, 10, 20, 30]
    assert [row.asr.hits for row in rows] == [18, 42, 24, 6, 18, 36, 12]


def test_attacks_that_differ_in_more_than_n_are_no_line():
    at = arm(attack("other", 1, sampler="pdws", n=-5, field="stem"))
    trials = [*series_trials({-10.0: 0.5, 10.0: 0.5}, 10), *(trial(i, at) for i in range(10))]
    result = scaling(planted_run(trials))
    assert len({row.rule for row in result.exponents}) == 2
    assert {point.x for point in result.charts()[0].points} == {-10, 10}
