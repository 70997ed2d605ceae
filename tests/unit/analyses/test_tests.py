"""Paired tests in families: planted differences, ties, goals, and attacks that never happened."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest

from medstress.analyses.results import TESTS, PairedTest, PairedTests
from medstress.analyses.run import Run
from medstress.core.arms import Arm
from medstress.core.trials import Trial
from medstress.stats.estimate import benjamini_hochberg
from medstress.stats.paired import exact_p
from planted_trials import NEAR, arm, control, planted_run, trial


def of(run: Run) -> Sequence[PairedTest]:
    computed = run.of(TESTS)
    assert isinstance(computed, PairedTests)
    return computed.rows


def attack(label: str, goal: str = "untargeted", seed: int | None = 0) -> Arm:
    return arm(replace(NEAR, label=label, goal=goal), seed=seed)


def lost(at: Arm, items: Iterable[int], n: int, **more: object) -> list[Trial]:
    flipped = set(items)
    return [trial(i, at, flipped_at=1 if i in flipped else None, **more) for i in range(n)]  # type: ignore[arg-type]


def test_without_a_second_arm_there_is_no_test():
    assert planted_run(lost(attack("near"), [1], 5)).of(TESTS) is None


def test_attacks_beside_controls_and_each_other_are_two_families():
    near, far = attack("near"), attack("far")
    trials = [*lost(near, range(30), 40), *lost(far, range(5), 40)]
    trials += [*lost(control(of=near), [0], 40), *lost(control(of=far), [0], 40)]
    rows = of(planted_run(trials))
    assert [(row.family, row.comparison, row.against) for row in rows] == [
        ("controls", "far", "far / no_op"),
        ("controls", "near", "near / no_op"),
        ("samplers", "far", "near"),
    ]
    far_test, near_test, samplers = rows
    assert near_test.difference.value == pytest.approx(29 / 40)
    assert (near_test.only_comparison, near_test.only_against) == (29, 0)
    assert samplers.difference.value == pytest.approx(-25 / 40)
    assert far_test.p == exact_p(4, 0) == 0.125
    ps = [far_test.p, near_test.p or 0.0]
    assert [far_test.p_adjusted, near_test.p_adjusted] == benjamini_hochberg(ps)
    # One test in its family: nothing to adjust for.
    assert samplers.p_adjusted == samplers.p


def test_attacks_with_different_goals_are_neither_compared_nor_one_family():
    arms = [attack("near"), attack("to B", goal="B"), attack("to B too", goal="B")]
    trials = [one for i, at in enumerate(arms) for one in lost(at, range(5 * i), 40)]
    trials += [one for at in arms for one in lost(control(of=at), [], 40)]
    rows = of(planted_run(trials))
    assert {(row.family, row.comparison, row.against) for row in rows} == {
        ("controls", "near", "near / no_op"),
        ("controls (goal B)", "to B", "to B / no_op"),
        ("controls (goal B)", "to B too", "to B too / no_op"),
        ("samplers (goal B)", "to B", "to B too"),
    }
    alone = rows[0]
    assert alone.p_adjusted == alone.p


def test_unreadable_answers_that_count_are_another_goal():
    record = replace(NEAR, label="released", params={**NEAR.params, "unreadable_is_success": True})
    trials = [*lost(attack("near"), [1], 5), *lost(arm(record), [2], 5)]
    assert planted_run(trials).of(TESTS) is None


def test_other_places_are_not_compared():
    here, there = attack("near"), replace(attack("far"), place=arm(victim="other").place)
    assert planted_run([*lost(here, [1], 5), *lost(there, [2], 5)]).of(TESTS) is None


def test_ties_are_no_difference():
    (row,) = of(planted_run([*lost(attack("near"), [1, 2], 9), *lost(attack("far"), [1, 2], 9)]))
    assert (row.difference.value, row.p, row.p_adjusted) == (0.0, 1.0, 1.0)


@pytest.mark.parametrize(("n", "p"), [(1, 1.0), (4, 0.125), (6, 0.03125)])
def test_few_questions_decide_only_from_six_on(n, p):
    (row,) = of(planted_run([*lost(attack("near"), range(n), n), *lost(attack("far"), [], n)]))
    assert row.p == p


def test_documents_and_seeds_are_no_further_questions():
    def p(n_documents: int, seeds: Sequence[int]) -> float:
        trials = [
            replace(one, cluster=f"d{int(one.item.id[1:]) % n_documents}")
            for seed in seeds
            for label, items in (("near", [i for i in range(40) if i % 4 == 0]), ("far", []))
            for one in lost(attack(label, seed=seed), items, 40)
        ]
        (row,) = of(planted_run(trials))
        assert row.p is not None
        return row.p

    once, thrice, in_documents = p(40, [0]), p(40, [0, 1, 2]), p(4, [0])
    assert once < 0.01
    assert thrice == pytest.approx(once, abs=0.005)
    assert in_documents > 0.05


def test_unreadable_answers_may_turn_a_difference():
    mute = lost(attack("far"), [], 40, asked=8, unreadable=8)
    (row,) = of(planted_run([*lost(attack("near"), range(20), 40), *mute]))
    # In the order of labels: far minus near.
    assert row.difference.value == -0.5
    assert row.difference.worst is not None
    assert row.difference.ends[1] > 0  # type: ignore[operator]
    assert (row.p, row.p_adjusted) == (1.0, 1.0)


def test_an_attack_that_never_happens_differs_from_none():
    trials = [*lost(attack("near"), [], 20, asked=0), *lost(attack("far"), [], 20, asked=0)]
    (row,) = of(planted_run(trials))
    assert (row.difference.value, row.p) == (0.0, 1.0)


def test_nothing_in_common_has_no_p_and_is_in_no_family():
    far = [trial(100 + i, attack("far")) for i in range(5)]
    mid = lost(attack("mid"), range(30), 40)
    rows = of(planted_run([*lost(attack("near"), [], 40), *far, *mid]))
    assert [(row.p is None, row.p_adjusted is None) for row in rows] == [
        (True, True),
        (True, True),
        (False, False),
    ]
    assert rows[-1].p_adjusted == rows[-1].p
