"""A form says what Jinja would, without Jinja; what is no form is told so."""

from __future__ import annotations

from typing import Any

import jinja2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.core.items import LETTERS
from medstress.tasks.prompt_forms import OPTIONAL, Form, form_from_json, form_of
from medstress.tasks.templates import load_template, shipped_prompts, stored_template

FORMS = [
    "{{ question }}",
    "{% set greeting = 'Hello' %}{{ greeting }}: {{ stem }}",
    "{% for a, b in options %}{% if context %}{{ context }}{% else %}-{% endif %}{{ a }}{{ b }}"
    "{% endfor %}",
    "{%- if context %}{% for x, y in options %}[{{ y }}]{% endfor %}{% endif -%} {{ stem }}\n\n",
    "{% for stem, context in options %}{{ stem }}{{ context }};{% endfor %}{{ stem }}",
    "{{ stem }}\x00{{ context }}",
    "{% if passage %}{{ passage }}{% if context %} {% endif %}{% else %}-{% endif %}{{ question }}",
]
MORE = [
    "{{ stem | upper }}",
    "{{ options }}",
    "{{ options[0][1] }}",
    "{% for a, b in options %}{{ loop.index }}{% endfor %}",
    "{% for a, b in options if a == 'A' %}{{ a }}{% endfor %}",
    "{% for pair in options %}{{ pair[0] }}{% endfor %}",
    "{% if stem %}{{ stem }}{% endif %}",
    "{% set stem = 'x' %}{{ stem }}",
    "{{ later }}{% set later = 'x' %}",
    "{% if context %}{% set late = 'x' %}{% endif %}{{ late }}",
    "{% include 'other.jinja' %}",
    "{% macro m() %}{% endmacro %}{{ m() }}",
    "{{ ''.__class__ }}",
    "{% if",
    "{% if context %}" * 200 + "{% endif %}" * 200,
    "x" * 70_000,
]


def by_jinja(
    source: str, passage: str, context: str, stem: str, options: list[tuple[str, str]]
) -> str:
    environment = jinja2.Environment(undefined=jinja2.StrictUndefined, keep_trailing_newline=True)
    values = {"passage": passage, "context": context, "stem": stem, "options": options}
    question = f"{context} {stem}" if context else stem
    return environment.from_string(source).render(**values, question=question)


def by_form(
    form: Form, passage: str, context: str, stem: str, options: list[tuple[str, str]]
) -> str:
    letters = "".join(letter for letter, _ in options)
    values = {"passage": passage, "context": context, "stem": stem, **dict(options)}
    values["question"] = f"{context} {stem}" if context else stem
    present = frozenset(name for name in OPTIONAL if values[name])
    pieces = form.laid_out(letters, present)
    return "".join(values[piece] if i % 2 else piece for i, piece in enumerate(pieces))


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    "source", [*(load_template(name).source for name in shipped_prompts()), *FORMS]
)
@given(passage=TEXTS, context=TEXTS, stem=TEXTS, options=st.lists(TEXTS, min_size=2, max_size=10))
def test_a_form_says_what_jinja_says(
    source: str, passage: str, context: str, stem: str, options: list[str]
) -> None:
    form = form_of(source)
    assert form is not None
    pairs = list(zip(LETTERS, options, strict=False))
    texts = (passage, context, stem, pairs)
    assert by_form(form, *texts) == by_jinja(source, *texts)
    assert form_from_json(form.as_json()) == form


@pytest.mark.parametrize("source", MORE, ids=range(len(MORE)))
def test_what_does_more_than_place_texts_has_no_form(source: str) -> None:
    assert form_of(source) is None


@pytest.mark.parametrize(
    "told",
    [
        None,
        "text",
        {},
        {"parts": []},
        {"parts": "text", "says": {}},
        {"parts": [{"place": "__class__"}], "says": {}},
        {"parts": [{"place": "letter"}], "says": {}},
        {"parts": [{"place": ["stem"]}], "says": {}},
        {"parts": [{"place": "stem", "more": 1}], "says": {}},
        {"parts": [{"each_option": [{"each_option": []}]}], "says": {}},
        {"parts": [1], "says": {}},
        {"parts": ["x"], "says": {"system": ["list"]}},
        {"parts": ["x" * 200_000], "says": {}},
    ],
)
def test_what_a_folder_calls_a_form_and_is_none_is_not_shown(told: Any) -> None:
    assert form_from_json(told) is None
    template = stored_template(
        {"name": "mine", "source": "{{ stem }}", "lists_options": True, "form": told}
    )
    assert not template.is_shown


def test_a_form_nested_without_end_is_not_shown() -> None:
    told: list[Any] = ["x"]
    for _ in range(500):
        told = [{"if_context": told, "else": []}]
    assert form_from_json({"parts": told, "says": {}}) is None
