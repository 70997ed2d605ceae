"""One name for an attack and a model, wherever people read it."""

from dataclasses import replace
from io import StringIO

import pytest
from rich.console import Console

from medstress.analyses.results import RESULTS
from medstress.analyses.run import Run
from medstress.analyses.shown import attack_names
from medstress.analyses.summary import spoken_of
from medstress.report.summary_page import markdown_page, print_summary
from planted_trials import (
    NEAR,
    arm,
    attacked,
    control,
    fooled,
    mute,
    planted_run,
    questions,
    respaced,
)


def unlabelled(*numbers: int) -> Run:
    """Return a run of attacks without labels of their own; the last is never answered."""
    trials = []
    for n in numbers:
        label = f"entity_substitution n={n}"
        record = replace(NEAR, label=label, params={**NEAR.params, "n": n})
        at = arm(record, victim="always_b")
        trials += attacked(mute if n == numbers[-1] else fooled, questions(30), at)
        trials += attacked(fooled, questions(30), control(of=at), respaced)
    return planted_run(trials)


def test_verdict_tables_and_warnings_call_a_thing_by_one_name():
    run = unlabelled(-20, 20)
    stream = StringIO()
    print_summary(Console(file=stream, width=160), run)
    for text in (stream.getvalue(), markdown_page(run)):
        assert "entity_substitution" not in text
        assert "entity substitution" not in text
        assert "always b" not in text
        assert "near names" in text
    assert "always_b knew 30 of 30 questions. Under near names it lost" in stream.getvalue()
    assert "! Not one answer of always_b under far names could be read" in stream.getvalue()


def test_pictures_have_the_names_too():
    shown = dict(spoken_of(unlabelled(-20, 20)))
    points = shown[RESULTS.name].charts()[0].points
    assert {point.x for point in points} == {"near names", "far names"}


def test_rows_are_sorted_by_the_numbers_in_their_labels():
    numbers = [10, -2, 2, -30, -10, 30]
    results = unlabelled(*numbers).of(RESULTS)
    assert [row.key.attack_spec["n"] for row in results.attacks] == sorted(numbers)


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"sampler": "random"}, "random names"),
        ({"sampler": "pdws", "n": -20}, "near names"),
        ({"sampler": "nearest"}, "nearest names"),
        ({"sampler": "exhaustive"}, "every name"),
    ],
)
def test_an_attack_is_called_by_what_its_sampler_draws(params, words):
    attack = replace(NEAR, label=NEAR.name, params=params)
    assert attack_names([attack]) == {NEAR.name: words}
