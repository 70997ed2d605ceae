"""How n was chosen, on planted grids: rates, ties, few items, and what other items say."""

import json
from typing import Any

from medstress.analyses.choice import (
    FAR,
    NEAR,
    TUNING,
    Chosen,
    GridPoint,
    Tuning,
    best_points,
    choice_notes,
    competitors,
    notes_on,
    rates_of,
)
from medstress.analyses.run import Run
from medstress.analyses.shown import as_json
from medstress.core.arms import AttackRecord
from medstress.core.outcomes import Verdict
from medstress.core.trials import Trial
from medstress.stats.estimate import wilson
from planted_trials import arm, planted_run, trial

SETTINGS = {"share": 0.2, "budget": None, "grid": [-20.0, -5.0, 5.0]}


def attack(n: float | None, budget: int = 8, label: str | None = None) -> AttackRecord:
    """An attack with an exponent; without one it draws at random."""
    params = {"name": "entity_substitution", "sampler": "pdws", "n": n, "budget": budget}
    if n is None:
        params |= {"sampler": "random"}
    return AttackRecord(
        label=label or ("random" if n is None else f"near n={n:g}"),
        name="entity_substitution",
        budget=budget,
        params=params,
        draws_names=True,
    )


def at(n: float | None, n_lost: int, n_items: int, first: int = 1, **where: Any) -> list[Trial]:
    """The trials of one attack, of which so many are lost at a query."""
    where_it_is = arm(attack(n, where.pop("budget", 8)), **where)
    return [trial(i, where_it_is, flipped_at=first if i < n_lost else None) for i in range(n_items)]


def tuned(trials: list[Trial], part: str = "tuning", **notes: Any) -> Run:
    settings = {**SETTINGS, **notes.pop("settings", {})}
    entry = {
        "part": part,
        "settings": settings,
        "rule": "the largest",
        "optimistic": part == "same_items",
        **notes,
    }
    return planted_run(trials, tuning=entry)


def result(run: Run) -> Tuning:
    return run.of(TUNING)


def rules(tuning: Tuning) -> set[str]:
    return {remark.rule for remark in tuning.remarks()}


GRID = [*at(-20, 6, 12), *at(-5, 8, 12), *at(5, 3, 12), *at(None, 11, 12)]


def test_the_best_n_of_each_sign_is_chosen():
    tuning = result(tuned(GRID))
    (grid,) = tuning.grids
    assert [(point.n, point.estimate.hits) for point in grid.points] == [(-20, 6), (-5, 8), (5, 3)]
    assert (grid.n_items, grid.n_eligible) == (12, 12)
    assert [(one.regime, one.n, one.tuned_on.n_eligible) for one in tuning.choices] == [
        (NEAR, -5, 12),
        (FAR, 5, 12),
    ]
    assert rules(tuning) == {"tuning_split"}


def test_of_equal_rates_the_smaller_exponent_is_chosen():
    points = [GridPoint(n=n, attack="", estimate=wilson(5, 9)) for n in (-50, -5, 5, 50)]
    assert [point.n for point in best_points(points).values()] == [-5, 5]


def test_three_eligible_items_are_said_wherever_they_are_used():
    known = at(-5, 2, 3)
    wrong = [trial(i, arm(attack(-5)), verdict=Verdict.ALREADY_WRONG) for i in range(3, 20)]
    run = tuned([*known, *wrong])
    tuning = result(run)
    (choice,) = tuning.choices
    assert choice.is_of_few
    (note,) = notes_on(run, run.attacks)
    assert "3 questions" in note
    assert note in tuning.tables()[0].notes
    # With ten it is said no more.
    enough = tuned(at(-5, 2, 10))
    assert notes_on(enough, enough.attacks) == []


def report_of(tuning: Tuning, trials: list[Trial], **settings: Any) -> Run:
    stored = as_json(tuning)
    return tuned(
        trials, "report", settings=settings, grids=stored["grids"], choices=stored["choices"]
    )


def test_other_items_say_what_the_chosen_n_is_worth():
    chosen = result(tuned(GRID))
    other = [trial(100 + i, arm(attack(-5)), flipped_at=1 if i < 3 else None) for i in range(10)]
    tuning = result(report_of(chosen, [*other, *at(5, 1, 4)]))
    near, far = tuning.choices
    assert near.tuned_on == chosen.choices[0].tuned_on
    assert (near.reported_on.estimate.hits, near.reported_on.n_eligible) == (3, 10)
    assert far.reported_on.estimate.hits == 1
    assert rules(tuning) == set()
    headings = [column.heading for column in tuning.tables()[0].columns]
    assert "Lost on the others" in headings


def test_papers_tables_say_that_n_was_chosen_before_the_run():
    grid = [*GRID, *at(-5, 3, 9, victim="few"), *at(-20, 1, 9, victim="few")]
    chosen = result(tuned(grid, settings={"budget": 8}))
    run = report_of(chosen, [*at(-5, 5, 10), *at(5, 1, 10), *at(-5, 1, 9, victim="few")])
    lines = rates_of(competitors(run), 8)
    of = {line.setting.place.victim: line.choices for line in lines}
    near, far, few = of["model"]["near"], of["model"]["far"], of["few"]["near"]
    assert (near.rule, near.tried, near.n_eligible) == ("tuned before", (-20, -5), 12)
    assert (near.tuning.hits, near.estimate.hits) == (8, 5)
    assert (few.rule, few.n_eligible) == ("tuned before", 9)
    assert far.rule == "given"  # the only value of its sign
    before, given = choice_notes(lines)
    assert before == "n was chosen on other items before the run (medstress tune)."
    assert given == "Where there is one value, n was given, not chosen."


def test_a_model_that_knows_nothing_is_left_out_by_name():
    blank = arm(attack(-5), victim="blank")
    wrong = [trial(i, blank, verdict=Verdict.ALREADY_WRONG) for i in range(9)]
    split = result(tuned([*GRID, *wrong]))
    tuning = result(report_of(split, at(-5, 2, 5)))
    (remark,) = tuning.remarks()
    assert remark.rule == "left_out"
    assert "blank" in remark.sentence
    assert "9 tuning questions" in remark.sentence


def test_what_a_split_chose_comes_back_from_json():
    tuning = result(tuned(GRID))
    chosen = Chosen(grids=tuning.grids, choices=tuning.choices)
    assert Chosen.read(json.loads(json.dumps(as_json(chosen)))) == chosen
