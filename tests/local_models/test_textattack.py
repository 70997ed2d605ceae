"""TextAttack's own recipes as attacks, where TextAttack is installed."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from medstress.attacks.textattack.attack import TextAttack
from medstress.attacks.textattack.recipes import RECIPES
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import CleanAnswer
from medstress.testing import tiny_questions

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(find_spec("textattack") is None, reason="textattack is not installed"),
]
ITEM = tiny_questions(1)[0]


def played(attack, wrong=None):
    """All queries of a trial, and its result; the victim errs on the text `wrong`."""
    asked = []
    flow = attack.run(ITEM, np.random.default_rng(0), None)
    step = next(flow)
    try:
        while True:
            queries = () if isinstance(step, CleanAnswer) else step.queries
            asked += queries
            errs = [not each.probe and each.candidate.stem == wrong for each in queries] or [False]
            replies = [
                Prediction(
                    outcome=Outcome.WRONG if each else Outcome.RIGHT,
                    answer=next(x for x in ITEM.letters if (x != ITEM.key) == each),
                    reached_goal=each,
                )
                for each in errs
            ]
            step = flow.send(tuple(replies))
    except StopIteration as stop:
        return asked, stop.value


@pytest.mark.parametrize("recipe", RECIPES)
def test_a_recipe_misspells_words_within_its_budget_and_the_same_again(recipe):
    attack = TextAttack(recipe=recipe, field="stem", budget=60)
    asked, found = played(attack)
    assert found is None
    assert 0 < len(asked) <= 60
    assert any(query.probe for query in asked) == (recipe == "deepwordbug")
    tried = [query.candidate.stem for query in asked if not query.probe]
    assert len(set(tried)) == len(tried)
    assert ITEM.stem not in tried
    assert played(attack)[0] == asked
    _, success = played(attack, wrong=tried[-1])
    assert success.stem == tried[-1]
