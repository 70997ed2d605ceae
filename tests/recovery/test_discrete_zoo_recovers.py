"""DiscreteZOO on victims that are linear in the embedding: the direction, and what it is worth."""

import tomllib
from collections.abc import Mapping
from functools import cache, partial

import numpy as np
import pytest

from medstress import recipes
from medstress.attacks import DiscreteZoo, EntitySubstitution
from medstress.attacks.discrete_zoo import estimate_gradient
from medstress.attacks.protocol import Attack, most_queries
from medstress.backends.mock import MockBackend
from medstress.core.calls import Chosen
from medstress.core.hashing import digest
from medstress.core.items import Mention, Question
from medstress.core.outcomes import Verdict
from medstress.engine.trial import Trial, TrialResult, conduct
from medstress.experiment.arms import make_attacks
from medstress.experiment.config import Attack as AttackTable
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import PerturbationTable, tiny_resources

N_NAMES, DIMENSIONS, N_ITEMS, BUDGET = 600, 6, 80, 24
NAMES = tuple(f"name{i:03}" for i in range(N_NAMES))
TASK = MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE)
VICTIM = Victim(label="linear", task=TASK, backend=MockBackend())
ARMS: Mapping[str, Attack] = {
    "zoo": DiscreteZoo(budget=BUDGET, candidates=5),
    "zoo, small steps": DiscreteZoo(budget=BUDGET, candidates=5, learning_rate=0.1),
    "zoo, hard": DiscreteZoo(budget=BUDGET, candidates=5, answers="hard"),
    "neighbourhood": DiscreteZoo(budget=BUDGET, candidates=5, update="none"),
    "random": EntitySubstitution(sampler="random", budget=BUDGET),
}


def cosine(a, b):
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def estimated(directions, seed):
    """Cosine of the estimate and the gradient of a planted linear score."""
    rng = np.random.default_rng([seed, 1])
    n, d = directions.shape
    origin, w = rng.standard_normal(d), rng.standard_normal(d)
    points = origin + directions * rng.uniform(0.1, 3, (n, 1))
    return cosine(estimate_gradient(origin, points, points @ w - origin @ w), w)


@pytest.mark.parametrize(("d", "times", "least"), [(128, 5, 0.87), (384, 5, 0.9)])
def test_m_of_five_times_the_dimension_recover_the_direction(d, times, least):
    """Isotropic directions: 1/sqrt(1 + (d - 1)/M) is .913 at M = 5 d, on average.

    Single estimates scatter around it, in 128 dimensions by about .01, so that there the mean
    of 20 victims is asked for .9 and each one for a little less.
    """
    found = []
    for seed in range(20):
        directions = np.random.default_rng(seed).standard_normal((times * d, d))
        directions /= np.linalg.norm(directions, axis=1, keepdims=True)
        found.append(estimated(directions, seed))
    assert np.mean(found) > 0.9
    assert min(found) > least


def vector(text):
    seed = int(text[4:]) if text.lower().startswith("name") else sum(map(ord, text))
    return np.random.default_rng([seed, 7]).standard_normal(DIMENSIONS)


TABLE = PerturbationTable(NAMES, lambda anchor, text: 0.5, vector)
RESOURCES = tiny_resources(TABLE)


def item(i):
    options = (f"key {i}", f"entity {i}", "neither", "no")
    span = Mention(field="B", start=0, end=len(options[1]), type="T121")
    return Question(id=f"q{i}", stem=f"Which, {i}?", options=options, key="A", mentions=(span,))


def linear_answer(call_round, w, border):
    """The key loses as w.e of the name grows, and loses out in the last percent of names."""
    assert call_round.candidate is not None
    name = call_round.candidate.options[1].lower()
    margin = border - float(w @ TABLE.vector(name))
    key = 1 / (1 + np.exp(-2 * margin))
    return Chosen(scores=(key, 1 - key, 1e-6, 1e-6))


def played(attack, question, resources, answer):
    """One trial, whose calls are answered here."""
    flow = conduct(
        Trial(
            dataset="planted",
            group="drugs",
            item=question,
            victim=VICTIM,
            attack_label="a",
            attack=attack,
            resources=resources,
            seed=0,
            flip_check=False,
        )
    )
    try:
        asked = next(flow)
        while True:
            asked = flow.send(tuple(answer(asked) for _ in asked.requests))
    except StopIteration as stop:
        result: TrialResult = stop.value
        return result


def attacked(attack, i):
    question = item(i)
    w = np.random.default_rng([i, 3]).standard_normal(DIMENSIONS)
    w /= np.linalg.norm(w)
    border = float(np.quantile(TABLE.vectors_of(np.arange(len(NAMES))) @ w, 0.99))
    return played(attack, question, RESOURCES, lambda asked: linear_answer(asked, w, border))


@cache
def share_flipped(arm):
    every = [attacked(ARMS[arm], i) for i in range(N_ITEMS)]
    results = [result for result in every if result.verdict is not Verdict.ALREADY_WRONG]
    assert len(results) >= 0.95 * N_ITEMS
    assert {result.verdict for result in results} <= {Verdict.FLIPPED, Verdict.HELD}
    assert all(result.n_asked <= BUDGET for result in results)
    return float(np.mean([result.verdict is Verdict.FLIPPED for result in results]))


@pytest.mark.release
def test_random_draws_succeed_as_often_as_they_must():
    """Six of 600 names, 24 draws: 1 - C(594, 24)/C(600, 24) = .217; 80 items, s.e. .046."""
    assert share_flipped("random") == pytest.approx(0.217, abs=0.14)


def test_the_gradient_finds_within_the_budget_what_random_draws_need_far_more_for():
    """Above .6; random draws without replacement would need 85 queries for that."""
    assert share_flipped("zoo") > 0.6


@pytest.mark.release
def test_without_a_step_worth_the_name_or_without_probabilities_the_advantage_is_gone():
    for arm in ("neighbourhood", "zoo, hard", "zoo, small steps"):
        assert share_flipped(arm) < share_flipped("zoo") - 0.3


# -- growth with M: one pass has a plateau, iterating none ----------------------------------------
# Planted: three distractor entities, and each name in each place flips with p = .058, whatever the
# name's neighbours do. One pass asks M + 1 names in each place, so ASR is 1 - (1 - p)^(3 (M + 1))
# once 3 (M + 1) queries are spent and stays there; iterating has 1 - (1 - p)^50 = .95 for every M.
P, GROWTH_BUDGET, N_GROWTH = 0.058, 50, 200
SIZES = (2, 3, 5, 10)


def gaussian(text):
    return np.random.default_rng(sum(map(ord, text))).standard_normal(6)


MANY = tiny_resources(
    PerturbationTable(tuple(f"name{i:03}" for i in range(400)), lambda anchor, text: 0.5, gaussian)
)


def three_entities(i):
    options = (f"key {i}", *(f"entity {i} {letter}" for letter in "BCD"))
    mentions = tuple(
        Mention(field=letter, start=0, end=len(option), type="T121")
        for letter, option in zip("BCD", options[1:], strict=True)
    )
    return Question(id=f"q{i}", stem=f"Which, {i}?", options=options, key="A", mentions=mentions)


def chance_answer(asked, i):
    assert asked.candidate is not None
    edits = asked.candidate.edits
    names = [[i, edit.field, edit.replacement.lower()] for edit in edits]
    flips = bool(edits) and int.from_bytes(digest(names)[:8], "big") / 2**64 < P
    return Chosen(scores=(0.2, 0.6, 0.1, 0.1) if flips else (0.6, 0.2, 0.1, 0.1))


@cache
def arms():
    """The arms of the shipped study of M, by label."""
    tables = tomllib.loads(recipes.text_of("xian2025-appendix-m"))["attack"]
    return {part.label: part.attack for part in make_attacks([AttackTable(**t) for t in tables])}


@cache
def asr(label):
    trials = [
        played(arms()[label], three_entities(i), MANY, partial(chance_answer, i=i))
        for i in range(N_GROWTH)
    ]
    return float(np.mean([trial.first_success is not None for trial in trials]))


@pytest.mark.parametrize(
    "m", [SIZES[0], *(pytest.param(m, marks=pytest.mark.release) for m in SIZES[1:])]
)
def test_in_one_pass_few_candidates_reach_their_plateau_early(m):
    label = f"discrete_zoo M={m} as published"
    assert most_queries(arms()[label], three_entities(0), MANY) == 3 * (m + 1)
    expected = 1 - (1 - P) ** (3 * (m + 1))
    error = (expected * (1 - expected) / N_GROWTH) ** 0.5
    assert asr(label) == pytest.approx(expected, abs=3 * error)


@pytest.mark.release
def test_the_share_grows_with_m_in_one_pass_and_not_when_the_search_goes_on():
    assert np.diff([asr(f"discrete_zoo M={m} as published") for m in SIZES]).min() > 0.08
    again = [asr(f"discrete_zoo M={m}") for m in (2, 10)]
    assert again == pytest.approx([1 - (1 - P) ** GROWTH_BUDGET] * 2, abs=0.045)
