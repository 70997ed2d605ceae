"""Growth with M on a victim whose names flip by chance: one pass has a plateau, iterating none.

Planted: three distractor entities, and each name in each place flips with p = .058, whatever the
name's neighbours do. One pass asks M + 1 names in each place, so ASR is 1 - (1 - p)^(3 (M + 1))
once 3 (M + 1) queries are spent and stays there; iterating has 1 - (1 - p)^50 = .95 for every M.
"""

import tomllib
from functools import cache

import numpy as np
import pytest

from medstress import recipes
from medstress.attacks.protocol import Attack, most_queries
from medstress.backends.mock import MockBackend
from medstress.core.calls import Chosen
from medstress.core.hashing import digest
from medstress.core.items import Mention, Question
from medstress.engine.trial import Trial, conduct
from medstress.engine.work import CallRound
from medstress.experiment.file.config import Attack as AttackTable
from medstress.experiment.plan.parts import make_attacks
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.templates import load_template
from medstress.tasks.victim import Victim
from medstress.testing import PerturbationTable, tiny_resources

P, BUDGET, N_ITEMS = 0.058, 50, 200
SIZES = (2, 3, 5, 10)
SAID = {2: 0.35, 3: 0.51, 5: 0.67, 10: 0.83}
"""Shares at 50 queries that were measured on such a victim when the study could not show them."""
NAMES = tuple(f"name{i:03}" for i in range(400))
VICTIM = Victim(
    label="chance",
    task=MultipleChoice(template=load_template("qstab"), answer_by=AnswerBy.CHOICE),
    backend=MockBackend(),
)


def vector(text: str) -> np.ndarray:
    return np.random.default_rng(sum(map(ord, text))).standard_normal(6)


RESOURCES = tiny_resources(PerturbationTable(NAMES, lambda anchor, text: 0.5, vector))


def item(i: int) -> Question:
    options = (f"key {i}", *(f"entity {i} {letter}" for letter in "BCD"))
    mentions = tuple(
        Mention(field=letter, start=0, end=len(option), type="T121")
        for letter, option in zip("BCD", options[1:], strict=True)
    )
    return Question(id=f"q{i}", stem=f"Which, {i}?", options=options, key="A", mentions=mentions)


def answer(call_round: CallRound, i: int) -> Chosen:
    assert call_round.candidate is not None
    edits = call_round.candidate.edits
    told = [[i, edit.field, edit.replacement.lower()] for edit in edits]
    chance = int.from_bytes(digest(told)[:8], "big") / 2**64
    flips = bool(edits) and chance < P
    return Chosen(scores=(0.2, 0.6, 0.1, 0.1) if flips else (0.6, 0.2, 0.1, 0.1))


def first_success(attack: Attack, i: int) -> int | None:
    trial = Trial(
        dataset="planted",
        group="drugs",
        item=item(i),
        victim=VICTIM,
        attack_label="a",
        attack=attack,
        resources=RESOURCES,
        seed=0,
        flip_check=False,
    )
    flow = conduct(trial)
    try:
        call_round = next(flow)
        while True:
            call_round = flow.send(tuple(answer(call_round, i) for _ in call_round.requests))
    except StopIteration as stop:
        found: int | None = stop.value.first_success
        return found


@cache
def arms() -> dict[str, Attack]:
    """The arms of the shipped study of M, by label."""
    tables = tomllib.loads(recipes.text_of("xian2025-appendix-m"))["attack"]
    return {part.label: part.attack for part in make_attacks([AttackTable(**t) for t in tables])}


@cache
def asr(label: str) -> float:
    return float(np.mean([first_success(arms()[label], i) is not None for i in range(N_ITEMS)]))


@pytest.mark.parametrize(
    "m", [SIZES[0], *(pytest.param(m, marks=pytest.mark.release) for m in SIZES[1:])]
)
def test_in_one_pass_few_candidates_reach_their_plateau_early(m):
    label = f"discrete_zoo M={m} as published"
    assert most_queries(arms()[label], item(0), RESOURCES) == 3 * (m + 1)
    expected = 1 - (1 - P) ** (3 * (m + 1))
    error = (expected * (1 - expected) / N_ITEMS) ** 0.5
    assert asr(label) == pytest.approx(expected, abs=3 * error)
    assert expected == pytest.approx(SAID[m], abs=0.07)


@pytest.mark.release
def test_the_share_grows_with_m_in_one_pass_and_not_when_the_search_goes_on():
    once = [asr(f"discrete_zoo M={m} as published") for m in SIZES]
    assert np.diff(once).min() > 0.08
    again = [asr(f"discrete_zoo M={m}") for m in (2, 10)]
    assert again == pytest.approx([1 - (1 - P) ** BUDGET] * 2, abs=0.045)
