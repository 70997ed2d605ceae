"""Folders of prompts: what is wrong with one is said before anything is asked."""

from __future__ import annotations

import re

import pytest

from medstress.core.errors import UsageError
from medstress.datasets.sample import load
from medstress.datasets.source import DatasetOptions
from medstress.tasks.prompt_sets import load_prompts


def test_no_worked_question_tells_the_answer_of_an_item_that_the_recipes_attack():
    items = load(DatasetOptions()).questions
    keys = {item.options[item.letters.index(item.key)].casefold() for item in items}
    exemplars = load_prompts("patient_characteristics").exemplars
    assert (len(items), len(exemplars)) == (200, 10)
    for each in exemplars:
        assert dict(each.options)[each.answer].casefold() not in keys
        shown = " ".join([each.question, *dict(each.options).values(), each.reasoning]).casefold()
        named = [key for key in keys if re.search(rf"\b{re.escape(key)}\b", shown)]
        assert named == [], each.id


@pytest.mark.parametrize(
    ("file", "text", "said"),
    [
        ("attacker_plan.jinja", "{{ listing ", "attacker_plan.jinja is not a usable Jinja"),
        (
            "attacker_plan.jinja",
            "{{ lising }}",
            "attacker_plan.jinja uses the unknown variable 'lising'; did you mean 'listing'?",
        ),
        ("judge_mention.jinja", "{{ xyz }}", "uses the unknown variable 'xyz' .known: "),
        ("target_system.jinja", "{{ xyz }}", "known: none"),
        ("categories.toml", "category = 3", r"expected \[\[category\]\] tables"),
        ("categories.toml", "[[category]]\nnam = 'x'", "category.0.name: Field required; expected"),
        ("categories.toml", "[[category", "categories.toml is not valid TOML: "),
        ("exemplars.jsonl", "{}", "exemplars.jsonl, line 1: expected an object with options"),
        ("attacker_plann.jinja", "x", "did you mean 'attacker_plan.jinja'"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_what_is_wrong(tmp_path, file, text, said):
    (tmp_path / file).write_text(text)
    with pytest.raises(UsageError, match=said):
        load_prompts(str(tmp_path))


def test_a_loop_and_its_own_names_are_no_unknown_values(tmp_path):
    loop = "{% for letter, option in options %}{{ loop.index }} {{ letter }}{% endfor %}"
    (tmp_path / "judge_key.jinja").write_text(loop + "{% set n = 1 %}{{ n }} {{ question }}")
    made = load_prompts(str(tmp_path))
    assert made.render("judge_key", options=[("A", "x")], question="Why?") == "1 A1 Why?"
