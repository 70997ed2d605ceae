"""`[tune]`, the grid it gives to attacks, and which items n is chosen on."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.experiment.file.config import GRID
from medstress.experiment.file.config import Tune as TuneTable
from medstress.experiment.file.reading import check_table, read_experiment
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
    table = check_table("tune", {"choices": choices})
    assert table.share == 1
    assert max(table.grid) == (60 if choices == "as_released" else 50)
    assert check_table("tune", {"choices": choices, "share": 0.5}).share == 0.5


def test_by_default_a_fifth_of_the_items_and_n_from_minus_50_to_50():
    table = check_table("tune", {})
    assert (table.share, table.grid, table.budget, table.random) == (0.2, GRID, None, True)
    assert [-n for n in reversed(GRID)] == list(GRID)
    assert (min(GRID), max(GRID)) == (-50, 50)


@pytest.mark.parametrize(
    ("lines", "sentence"),
    [
        ("share = 0", "line 14: share = 0: expected greater than 0"),
        ("share = 1.5", "line 14: share = 1.5: expected less than or equal to 1"),
        ("grid = []", "line 14: grid = []: expected at least one value"),
        ("grid = [5, 5.0]", "line 14: grid = [5, 5.0]: values repeat"),
        ("grid = [0]", "line 14: grid = [0]: expected at least one n other than 0"),
        ("grid = [300]", "line 14: grid = [300]: every n must lie between -200 and"),
        ('grid = ["5"]', "line 14: grid = '5': expected a valid number"),
        ("budget = 0", "line 14: budget = 0: expected greater than or equal to 1"),
        ("shares = 0.2", "line 14: unknown key 'shares'; did you mean 'share'?"),
        ('choices = "published"', "line 14: choices = 'published': expected 'default'"),
    ],
)
def test_a_wrong_entry_of_the_table_is_refused_with_its_line(tmp_path, lines, sentence):
    path = tmp_path / "e.toml"
    path.write_text(f"{FILE}[tune]\n{lines}\n", "utf-8")
    with pytest.raises(UsageError) as caught:
        read_experiment(path, complete=tune_every_n)
    assert str(caught.value).startswith(f"e.toml, {sentence}")


def test_other_commands_accept_the_table_and_do_not_read_it(tmp_path):
    path = tmp_path / "e.toml"
    path.write_text(f"{FILE}n = -20\n[tune]\nshare = 0.3\n", "utf-8")
    experiment = read_experiment(path)
    assert experiment.tune is not None
    assert experiment.attack[0].parameters == {"n": -20}


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


def test_random_sampling_can_be_left_out_and_other_attacks_are_left_alone():
    nearest = {"sampler": "nearest", "budget": 3}
    found = attacks({"n": 5}, nearest, random=False)
    assert [row.get("sampler") for row in found] == [None, "nearest"]
    assert found[1] == {"name": "entity_substitution", **nearest}


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


def test_another_seed_tunes_on_other_items():
    one, other = (
        [plan(sample_seed=seed).is_tuned_on(item) for item in QUESTIONS] for seed in (0, 1)
    )
    assert one != other


def test_the_split_does_not_follow_the_order_in_which_items_are_drawn():
    """Or else a limit would draw tuning items only."""
    from medstress.datasets.source import draw

    n = sum(map(plan().is_tuned_on, draw(QUESTIONS, 400)))
    assert 40 < n < 120


class TestRefusals:
    def refusal(self, tmp_path: Path, *overrides: str, text: str = FILE) -> str:
        path = tmp_path / "e.toml"
        path.write_text(text, "utf-8")
        with pytest.raises(UsageError) as caught:
            plan_tuning(path, overrides=overrides)
        return str(caught.value)

    def test_without_a_pdws_attack_there_is_nothing_to_tune(self, tmp_path):
        assert self.refusal(tmp_path, "attack.sampler=nearest").startswith(
            'there is no n to tune: no [[attack]] has sampler = "pdws"; add '
        )

    def test_a_split_that_is_too_small_is_refused_with_its_numbers(self, tmp_path):
        assert self.refusal(tmp_path, "dataset.limit=20") == (
            "sample/drugs has 14 attackable items, of which share = 0.2 tunes n on 1 and reports "
            "on 13; each needs at least 5: use more items, or another share in [tune]"
        )
        told = self.refusal(tmp_path, "tune.share=0.99")
        assert "each needs at least 5: use more items, or another share" in told

    def test_a_budget_of_tuning_must_fit(self, tmp_path):
        assert self.refusal(tmp_path, "tune.budget=9").startswith(
            "[tune] budget = 9 is larger than that of attack 'entity_substitution"
        )
        told = self.refusal(tmp_path, "tune.budget=1", "tune.choices=as_published")
        assert told.startswith("[tune] budget = 1: with share = 1 the tuning trials are the report")

    def test_a_wrong_value_of_the_attack_is_refused_with_its_line(self, tmp_path):
        assert self.refusal(tmp_path, text=f"{FILE}budgte = 3\n").startswith(
            "e.toml, line 13: unknown key 'budgte' of entity_substitution"
        )
