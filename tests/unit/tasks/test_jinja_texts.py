"""Templates are rendered in Jinja's sandbox, and whatever they raise is one error."""

import pytest

from medstress.core.errors import TrialError, UsageError
from medstress.tasks.templates import render

NAME = "prompt 'mine.jinja'"


def test_a_template_gives_its_text_and_what_it_sets():
    made = render("{% set system = 'Be brief.' %}{{ stem }}!\n", {"stem": "Why?"}, name=NAME)
    assert made == ("Why?!\n", {"system": "Be brief."})


def test_a_text_that_is_too_long_is_refused():
    source = "{% for i in range(99999) %}{{ 'words and words' * 100 }}{% endfor %}"
    with pytest.raises(UsageError, match="makes more than"):
        render(source, {}, name=NAME)


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ options.append(1) }}",
        "{{ options.nothing.at_all }}",
    ],
)
def test_the_sandbox_gives_no_way_out(source):
    with pytest.raises(TrialError, match="cannot be rendered"):
        render(source, {"options": []}, name=NAME)


@pytest.mark.parametrize("source", ["{% if", "{{ x | nothing }}", "{% if a %}" * 3_000])
def test_what_is_no_jinja_is_refused(source):
    with pytest.raises(UsageError, match="not a usable Jinja template"):
        render(source, {}, name=NAME)


def test_a_chat_template_has_what_models_use() -> None:
    source = (
        "{% for turn in messages %}\n{% if turn.role == 'end' %}\n{% break %}\n{% endif %}\n"
        "{% generation %}{{ turn.content | tojson }}{% endgeneration %}\n{% endfor %}\n"
        "{{ strftime_now('%Y')[:2] }}"
    )
    turns = [{"role": "user", "content": "<é>"}, {"role": "end", "content": ""}]
    text, _ = render(source, {"messages": turns}, name=NAME, chat=True)
    assert text == '"<é>"20'
    with pytest.raises(TrialError, match="no tools here"):
        render("{{ raise_exception('no tools here') }}", {}, name=NAME, chat=True)
