"""Perturbed copies and searches for few edits: which queries they ask, driven by hand."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from medstress.attacks.noise import NoiseResources, SwapNoise
from medstress.attacks.set_search import greedy, importance, random_growth
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer
from medstress.core.sentences import SentencePair, TaggedText
from medstress.core.text import Edit

TEXT = TaggedText(
    id="s",
    tokens=("patients", "took", "warfarin", "every", "day"),
    labels=("O", "O", "B-Drug", "O", "O"),
)
(UNIT,) = TEXT.units()
PAIR = SentencePair(id="p", text_a="patients took warfarin", text_b="they bled", score=2.0)
NOTHING = NoiseResources()
LABELS = "O O B-Drug O O"


def rng(seed=0):
    return np.random.default_rng(seed)


def found(labels=LABELS):
    return Prediction(outcome=Outcome.RIGHT, answer="B-Drug", text=labels)


def token_edits():
    return [
        Edit(field="tokens", start=i, end=i + 1, replacement=word)
        for i, word in enumerate(["ptaients", "tkoo", "wrafarin", "eevry", "dya"])
    ]


def _given(answers, names):
    return answers.get(names, found())


def asked(flow, answers=None):
    """Drive a search to its end; the replacements of every set asked, in order.

    `answers` is a function of a set, or a dict of sets; others leave the entity found.
    """
    if not callable(answers):
        answers = partial(_given, answers or {})
    sets: list[list[str]] = []
    step = next(flow)
    while True:
        if isinstance(step, CleanAnswer):
            replies: Any = (found(),)
        else:
            assert isinstance(step, Ask)
            names = [tuple(e.replacement for e in q.candidate.edits) for q in step.queries]
            sets += map(list, names)
            replies = tuple(map(answers, names))
        try:
            step = flow.send(replies)
        except StopIteration:
            return sets


LONE = TaggedText(id="e", tokens=("some", "word"), labels=("O", "O")).units()[0]


@pytest.mark.parametrize("item", [UNIT, PAIR, LONE], ids=["entity", "pair", "no entity"])
def test_a_perturbed_copy_is_one_query_with_all_edits(item):
    (edits,) = asked(SwapNoise(scope="all").run(item, rng(), NOTHING))
    assert len(edits) >= 2


def test_greedy_asks_single_edits_then_the_most_important_together():
    edits = token_edits()
    changed = {("tkoo",): found("O B-Drug B-Drug O O"), ("dya",): found("B-Drug O B-Drug O B-Drug")}
    sets = asked(greedy(UNIT, edits, 9), changed)
    assert sets[:5] == [[e.replacement] for e in edits]
    assert [sorted(each) for each in sets[5:]] == [
        ["dya", "tkoo"],
        ["dya", "ptaients", "tkoo"],
        ["dya", "ptaients", "tkoo", "wrafarin"],
        ["dya", "eevry", "ptaients", "tkoo", "wrafarin"],
    ]


@pytest.mark.parametrize("budget", range(1, 12))
def test_searches_never_ask_for_more_than_their_budget(budget):
    edits = token_edits()
    assert len(asked(greedy(UNIT, edits, budget))) <= budget
    assert len(asked(random_growth(UNIT, edits, budget, rng()))) == budget
    assert len(asked(greedy(UNIT, edits[:1], budget))) == 1
    assert len(asked(random_growth(UNIT, edits[:1], budget, rng()))) == 1


def test_random_growth_begins_alike_whatever_the_budget():
    small = asked(random_growth(UNIT, token_edits(), 4, rng(5)))
    large = asked(random_growth(UNIT, token_edits(), 12, rng(5)))
    assert large[:4] == small
    assert [len(each) for each in large[:7]] == [1, 2, 3, 4, 5, 1, 2]


def test_random_growth_asks_no_set_twice_and_all_of_them_within_a_large_budget():
    sets = [frozenset(each) for each in asked(random_growth(UNIT, token_edits()[:3], 50, rng()))]
    assert len(sets) == len(set(sets)) == 7


def success(*needed):
    """Answers of a victim that misses the entity where these edits are among the others."""
    missed = Prediction(outcome=Outcome.WRONG, answer="O", text="O O O O O", is_success=True)
    return lambda names: missed if set(needed) <= set(names) else found()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("search", ["greedy", "random"])
def test_a_set_that_succeeds_is_made_as_small_as_it_can_be(search, seed):
    edits, budget = token_edits(), 40
    flow = (
        greedy(UNIT, edits, budget)
        if search == "greedy"
        else random_growth(UNIT, edits, budget, rng(seed))
    )
    answers = success("ptaients", "dya")
    sets = asked(flow, answers)
    successes = [each for each in sets if answers(each).is_success]
    assert sorted(min(successes, key=len)) == ["dya", "ptaients"]
    assert len({frozenset(each) for each in sets}) == len(sets)


def test_edits_in_the_entity_come_first_then_the_nearest():
    order = [edit.start for edit in UNIT.nearest_first(token_edits())]
    assert order == [2, 1, 3, 0, 4]
    assert PAIR.nearest_first(token_edits()) == token_edits()


def test_importance_counts_labels_that_differ_or_the_distance_of_scores():
    assert importance(found(), found("O O O O B-Drug")) == 2
    assert importance(found(), found("O O B-Drug O O O O")) == 2
    scores = [Prediction(outcome=Outcome.RIGHT, answer=None, scores=(v,)) for v in (0.5, 0.2)]
    assert importance(*scores) == pytest.approx(0.3)
    # Labels that only moved do not differ.
    longer = Edit(field="tokens", start=0, end=1, replacement="the patients of mine")
    assert importance(found(), found("O O O O O B-Drug O O"), longer) == 0
    assert importance(found(), found("O O O O O O O O"), longer) == 1
