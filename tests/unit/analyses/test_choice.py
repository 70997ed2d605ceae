"""n chosen on planted grids: on other items or on the same, ties, few items, rules of the paper."""

from collections.abc import Mapping
from typing import Any

import pytest

from medstress.analyses.choice import (
    EXPONENT,
    LEARNING_RATE,
    NO_ITEMS,
    Choice,
    Rates,
    choice_notes,
    choose,
    competitors,
    rates_of,
    tuning_items,
    zoo_searches,
)
from planted_trials import Outcome, outcomes, planted_run, question


def pdws(n: float | None, budget: int = 1, **more: Any) -> dict[str, Any]:
    """Parameters of PDWS with an exponent; without one, of random sampling."""
    sampler = "random" if n is None else "pdws"
    params = {"name": "entity_substitution", "sampler": sampler, "n": n, "budget": budget}
    return {**params, "choices": "default", **more}


def zoo(learning_rate: float, **more: Any) -> dict[str, Any]:
    params = {"name": "discrete_zoo", "learning_rate": learning_rate, "budget": 8}
    return {**params, "choices": "default", **more}


GRID = {"random": pdws(None), **{f"n={n:g}": pdws(n) for n in (-40.0, -20.0, -5.0, 5.0, 20.0)}}
SPLIT = tuning_items(
    [one.cell for one in competitors(planted_run(outcomes(GRID, lambda i, s: None)))]
)
"""The items of 40 that choose."""
CHOOSING = {i for i in range(40) if question(i, key="ABCD"[i % 4]).hash in SPLIT}


def of(attacks: Mapping[str, Mapping[str, Any]], outcome: Outcome, n: int = 40, **more: Any) -> Any:
    return competitors(planted_run(outcomes(attacks, outcome, n, **more)))


def near(
    outcome: Outcome,
    n: int = 40,
    attacks: Mapping[str, Any] | None = None,
    *,
    as_published: bool = False,
) -> Choice:
    every = of(attacks or GRID, outcome, n)
    members = [one for one in every if one.method == "near"]
    split = NO_ITEMS if as_published else tuning_items(one.cell for one in members)
    choice = choose(members, EXPONENT, 1, split)
    assert choice is not None
    return choice


def only_where_it_chooses(i: int, params: Mapping[str, Any]) -> int | None:
    """n = -20 flips the items that choose; n = -5 flips all others."""
    return 1 if (i in CHOOSING) == (params["n"] == -20.0) and params["n"] in (-20.0, -5.0) else None


def test_n_is_chosen_on_some_items_and_reported_on_the_others():
    choice = near(only_where_it_chooses)
    assert (choice.value, choice.rule, choice.tried) == (-20.0, "tuned", (-40.0, -20.0, -5.0))
    assert (choice.tuning.hits, choice.tuning.n) == (8, 8)
    assert (choice.estimate.hits, choice.estimate.n) == (0, 32)


def test_as_published_the_best_of_the_same_items_is_reported():
    choice = near(only_where_it_chooses, as_published=True)
    assert (choice.value, choice.rule) == (-5.0, "same items")
    assert (choice.estimate.hits, choice.estimate.n) == (32, 40)
    assert any("optimistic" in note for note in choice_notes(rates(only_where_it_chooses, True)))


def rates(outcome: Outcome, as_published: bool, attacks: Any = None) -> list[Rates]:
    return rates_of(of(attacks or GRID, outcome), 1, as_published=as_published)


@pytest.mark.parametrize("as_published", [False, True])
def test_of_equal_rates_the_n_nearest_to_0_is_chosen(as_published):
    choice = near(lambda i, params: 1 if i % 2 else None, as_published=as_published)
    assert choice.value == -5.0


@pytest.mark.parametrize(("n", "is_of_few"), [(15, True), (40, True), (49, False)])
def test_a_choice_on_few_known_items_is_said(n, is_of_few):
    choice = near(lambda i, s: 1 if i % 2 else None, n)
    assert choice.n_eligible == round(n / 5)
    assert choice.is_of_few is is_of_few
    if n == 15:
        assert "3 questions" in choice.on_few


def test_every_column_is_of_the_items_that_did_not_choose():
    (line,) = rates(only_where_it_chooses, False)
    assert line.clean.answered.sum() == 32
    assert {name: share.n for name, share in line.asr.items()} == dict.fromkeys(
        ("random", "near", "far"), 32
    )
    (all_items,) = rates(only_where_it_chooses, True)
    assert {share.n for share in all_items.asr.values()} == {40}


def test_attacks_as_published_use_the_items_that_their_table_uses():
    attacks = {**GRID, "as published": pdws(-20.0, choices="as_published")}
    lines = rates(only_where_it_chooses, False, attacks)
    assert [line.clean.answered.sum() for line in lines] == [32, 32]
    own = next(line for line in lines if "as_published" in line.setting.rule)
    assert own.asr["near"].hits == 0
    lines = rates(only_where_it_chooses, True, attacks)
    assert [line.clean.answered.sum() for line in lines] == [40, 40]


def test_of_two_budgets_of_one_n_the_larger_counts():
    attacks = {"short": pdws(-20.0, 1), "long": pdws(-20.0, 8), "other": pdws(-5.0, 8)}
    members = of(attacks, lambda i, params: 4 if params["n"] == -20.0 else None)
    choice = choose(members, EXPONENT, 8, NO_ITEMS)
    assert (choice.chosen.label, choice.estimate.hits) == ("long", 40)


def test_of_two_budgets_of_one_method_the_table_takes_the_nearest():
    """Random sampling with 1 and with 8 queries is one column of a table of one query."""
    attacks = {**GRID, "random 8": pdws(None, 8)}
    outcome = lambda i, params: 1 if params["n"] is None else None  # noqa: E731
    (line,) = rates_of(of(attacks, outcome), 1)
    assert (line.columns["random"].label, line.asr["random"].hits) == ("random", 32)
    (line,) = rates_of(of(attacks, outcome), 8)
    assert (line.columns["random"].label, line.asr["random"].hits) == ("random 8", 40)


def test_learning_rates_of_one_search_are_chosen_and_others_stay_apart():
    attacks = {"slow": zoo(0.1), "fast": zoo(10.0), "many": zoo(0.1, candidates=10)}
    every = of(attacks, lambda i, params: 2 if params["learning_rate"] == 10.0 else None)
    assert [len(group) for group in zoo_searches(every)] == [2, 1]
    choice = choose(zoo_searches(every)[0], LEARNING_RATE, 8, SPLIT)
    assert (choice.value, choice.estimate.hits) == (10.0, 32)
    hard = of({"a": zoo(0.1, answers="hard"), "b": zoo(1.0, answers="hard")}, lambda i, s: None)
    (line,) = rates_of(hard, 8)
    assert not line.choices
