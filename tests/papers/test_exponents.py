"""How n is chosen, and on which items it is reported."""

from __future__ import annotations

import json
import random

import pytest

from medstress.papers.exponents import SHARE, best_exponent, tuning_items


@pytest.fixture
def near(grid):
    return [
        trial
        for trial in grid.trials
        if trial.group == "drugs" and (json.loads(trial.attack_spec)["n"] or 0) < 0
    ]


def test_without_rows_there_is_nothing_to_choose():
    assert best_exponent([]) is None


def test_n_is_chosen_on_a_fifth_of_the_items_and_reported_on_the_others(near):
    choice = best_exponent(near)
    on = tuning_items(near)
    assert len(on) == round(SHARE * 40)
    assert choice.rule == "tuned"
    assert choice.tried == (-40.0, -20.0, -5.0)
    eligible = {row.item_hash for row in near if row.verdict in ("held", "flipped")}
    assert choice.estimate.n == len(eligible - on)
    assert choice.tuning.n == len(eligible & on)


def test_as_published_n_is_the_maximum_on_the_same_items(near):
    choice = best_exponent(near, choices="as_published")
    assert (choice.value, choice.rule) == (-40.0, "same items")
    assert choice.estimate.value == 22 / 32
    assert choice.estimate == choice.tuning


def test_a_single_exponent_is_no_choice_and_keeps_all_items(near):
    rows = [row for row in near if row.attack == "pdws n=-20"]
    choice = best_exponent(rows)
    assert (choice.value, choice.rule, choice.tuning) == (-20.0, "given", None)
    assert choice.estimate.n == 32


def test_ties_go_to_the_exponent_nearest_to_random_sampling(made_up):
    attacks = {f"n={n}": made_up.substitution("pdws", float(n)) for n in (-50, -5, -20)}
    run = made_up.MadeUp(attacks, lambda i, spec: 1)
    assert best_exponent(run.trials).value == -5.0


def test_neither_the_order_of_trials_nor_other_arms_move_the_split(near):
    shuffled = random.Random(0).sample(near, len(near))
    assert tuning_items(shuffled) == tuning_items(near)
    assert tuning_items(near[: len(near) // 3]) == tuning_items(near)
    assert best_exponent(shuffled) == best_exponent(near)


@pytest.mark.release
def test_a_choice_on_noise_is_optimistic_only_on_the_same_items(made_up):
    rng = random.Random(7)
    luck = {(i, n): rng.random() < 0.3 for i in range(400) for n in range(-30, 0)}
    attacks = {f"n={n}": made_up.substitution("pdws", float(n)) for n in range(-30, 0)}
    run = made_up.MadeUp(
        attacks, lambda i, spec: 1 if luck[i, int(spec["n"])] else None, n_items=400, wrong=0
    )
    same = best_exponent(run.trials, choices="as_published").estimate
    held_out = best_exponent(run.trials).estimate
    assert same.value > 0.33  # the greatest of thirty draws around .30
    assert held_out.low < 0.30 < held_out.high
