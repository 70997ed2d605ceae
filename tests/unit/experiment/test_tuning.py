"""`[tune]`, the grid it gives to attacks, and which items n is chosen on."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.experiment.config import GRID
from medstress.experiment.config import Tune as TuneTable
from medstress.experiment.reading import resolve
from medstress.experiment.tuning import TuningPlan, plan_tuning, tune_every_n

FILE = """[experiment]
name = "x"
[dataset]
name = "sample"
[entities]
type = "drugs"
vocabulary = "drugs"
embedding = "ngram"
[victim]
backend = "mock"
[attack]
name = "entity_substitution"
"""


def plan(**keys: Any) -> TuningPlan:
    """A plan of which only the table is read."""
    table = TuneTable.model_validate(keys)
    return TuningPlan(prepared=None, table=table)  # type: ignore[arg-type]


def question(i: int, options: tuple[str, ...] = ("a", "b"), name: str = "q") -> Question:
    return Question(id=f"{name}{i}", stem=f"What treats {i}?", options=options, key="A")


QUESTIONS = [question(i) for i in range(2000)]


def attacks(*rows: dict[str, Any], **tune: Any) -> list[dict[str, Any]]:
    """The attacks that are left switched on."""
    raw: dict[str, Any] = {"attack": [{"name": "entity_substitution", **row} for row in rows]}
    if tune:
        raw["tune"] = tune
    tune_every_n(raw)
    return [row for row in raw["attack"] if row.get("use", True)]


@pytest.mark.parametrize("choices", ["as_published", "as_released"])
def test_the_published_choice_is_the_maximum_on_the_same_items(choices):
    table = TuneTable.read({"choices": choices})
    assert table.share == 1
    assert max(table.grid) == (60 if choices == "as_released" else 50)
    assert TuneTable(choices=choices, share=0.5).share == 0.5


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("share = 0", "line 14: share = 0: expected greater than 0"),
        ("grid = [300]", "line 14: grid = [300]: every n must lie between -200 and"),
        ('choices = "published"', "line 14: choices = 'published': expected 'default'"),
    ],
)
def test_a_wrong_entry_of_the_table_is_refused_with_its_line(tmp_path, lines, sentence):
    path = tmp_path / "e.toml"
    path.write_text(f"{FILE}[tune]\n{lines}\n", "utf-8")
    with pytest.raises(UsageError) as caught:
        resolve(path, complete=tune_every_n)
    assert str(caught.value).startswith(f"e.toml, {sentence}")


def test_n_may_be_left_out_and_random_sampling_joins():
    near, at_random = attacks({"budget": 4, "label": "mine"}, grid=[-5, 5])
    assert (near["n"], near["label"]) == ([-5.0, 5.0], "mine")
    assert at_random == {"name": "entity_substitution", "budget": 4, "sampler": "random"}


def test_attacks_that_differ_in_n_alone_are_one():
    found = attacks(
        {"n": -20, "label": "near"},
        {"n": 20, "label": "far", "sampler": "pdws", "budget": 8},
        {"sampler": "random"},
    )
    assert [row.get("n") for row in found] == [list(GRID), None]
    assert "label" not in found[0]


def test_what_is_malformed_is_left_for_the_check():
    for raw in ({}, {"attack": 3}, {"attack": [3]}, {"attack": [{"name": "x"}]}):
        before = repr(raw)
        tune_every_n(raw)
        assert repr(raw) == before


def test_about_the_share_of_the_items_is_tuned_on():
    n = sum(map(plan().is_tuned_on, QUESTIONS))
    assert 330 < n < 470  # binomial(2000, .2): 400 +- 3.9 standard deviations
    assert sum(map(plan(share=1.0).is_tuned_on, QUESTIONS)) == 2000


@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99), st.integers(0, 5))
def test_a_larger_share_contains_a_smaller_one(one, other, seed):
    small = plan(share=min(one, other), sample_seed=seed)
    large = plan(share=max(one, other), sample_seed=seed)
    for item in QUESTIONS[:50]:
        assert large.is_tuned_on(item) or not small.is_tuned_on(item)


def test_a_question_lies_on_one_side_whatever_its_id_and_the_order_of_its_options():
    for i in range(200):
        twin = question(i, ("b", "a"), "other")
        assert plan().is_tuned_on(question(i)) == plan().is_tuned_on(twin)


def test_the_split_does_not_follow_the_order_in_which_items_are_drawn():
    """Or else a limit would draw tuning items only."""
    from medstress.datasets.source import draw

    n = sum(map(plan().is_tuned_on, draw(QUESTIONS, 400)))
    assert 40 < n < 120


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["attack.sampler=nearest"], "no n to tune"),
        (["dataset.limit=20"], "tunes n on 1 attackable items and reports on 13"),
        (["tune.budget=9"], "budget = 9"),
        (["tune.budget=1", "tune.choices=as_published"], "budget = 1"),
    ],
)
def test_a_plan_that_cannot_tune_is_refused(tmp_path, overrides, words):
    path = tmp_path / "e.toml"
    path.write_text(FILE, "utf-8")
    with pytest.raises(UsageError, match=words):
        plan_tuning(path, overrides=overrides)
