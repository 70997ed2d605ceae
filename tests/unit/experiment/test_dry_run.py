"""What a dry run expects: of searches by simulation, of answers by their kind."""

import random
from typing import Any

import pytest

from medstress.attacks.protocol import Attack
from medstress.core.calls import Decoding
from medstress.core.items import Question
from medstress.experiment.dry_run import Usual, expected, size_of
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template

QUESTION = Question(id="1", stem="Which drug?", options=("a", "b", "c", "d"), key="A")
USUAL = Usual(accuracy=0.6, flips=0.3)


class Planned(Attack):
    """An attack that declares what it is given, and asks nothing here."""

    name = "planned"

    def __init__(self, **declared: Any) -> None:
        vars(self).update(declared)

    def obstacle(self, item: Any, resources: Any) -> str | None:
        return None

    def run(self, item: Any, rng: Any, resources: Any) -> Any:
        yield from ()


def simulated(attack: Attack, n: int, draws: random.Random) -> tuple[int, bool]:
    """One trial: queries about the edited item, and whether a right answer was lost."""
    right = draws.random() < USUAL.accuracy
    if not right and not attack.every_item:
        return min(n, int(attack.is_control)), False
    asked, lost = 0, False
    for _ in range(n):
        asked += 1
        lost = lost or draws.random() < USUAL.flips
        if lost and attack.ends != "all":
            break
    return asked, lost and right


@pytest.mark.parametrize(
    ("n", "keys"),
    [
        (1, {}),
        (5, {}),
        (5, {"ends": "all"}),
        (5, {"ends": "all", "every_item": True}),
        (5, {"is_control": True}),
        (0, {"is_control": True}),
        (1, {"every_item": True}),
    ],
)
def test_expected_queries_are_the_mean_of_simulated_searches(n, keys):
    attack, draws = Planned(**keys), random.Random(0)
    trials = [simulated(attack, n, draws) for _ in range(20_000)]
    queries, lost = expected(attack, n, USUAL)
    assert queries == pytest.approx(sum(q for q, _ in trials) / len(trials), abs=0.05)
    assert lost == pytest.approx(sum(s for _, s in trials) / len(trials), abs=0.02)


def test_a_victim_that_never_flips_is_asked_for_the_whole_budget():
    usual = Usual(accuracy=1.0, flips=0.0)
    assert expected(Planned(), 7, usual) == (7.0, 0.0)


@pytest.mark.parametrize(
    ("answer_by", "model", "most", "about"),
    [
        (AnswerBy.LETTER, "m", 128, 1),
        (AnswerBy.TEXT, "m", 128, 0),
        (AnswerBy.GENERATE, "m", 128, 2),
        (AnswerBy.GENERATE, "m", 1, 1),
        (AnswerBy.GENERATE, "m", 2048, 600),
        (AnswerBy.GENERATE, "org/o3-mini", 300, 300),
        (AnswerBy.GENERATE, "meta-r1b", 128, 2),
    ],
)
def test_what_is_written_depends_on_the_kind_of_answer(answer_by, model, most, about):
    task = MultipleChoice(
        template=load_template("qstab"), answer_by=answer_by, decoding=Decoding(max_new_tokens=most)
    )
    size = size_of(task, QUESTION, model)
    assert size.about_out == about
    assert size.about_in > 0
