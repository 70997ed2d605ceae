"""Templates end with their process: whatever they take, whoever asks goes on."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from medstress import rendering
from medstress.core.errors import TrialError, UsageError
from medstress.rendering import names_read, render

NAME = "prompt 'mine.jinja'"


def test_a_template_gives_its_text_and_what_it_sets() -> None:
    found = render("{% set system = 'Be brief.' %}{{ stem }}!\n", {"stem": "Why?"}, name=NAME)
    assert (found.text, dict(found.exports)) == ("Why?!\n", {"system": "Be brief."})


@pytest.mark.parametrize(
    "source",
    [
        "{{ 'a' * 10**10 }}",
        "{{ 'a' | center(10**10) }}",
        "{{ '%1000000000d' % 1 }}",
        "{% for i in range(99999) %}{{ 'words and words' * 100 }}{% endfor %}",
    ],
)
def test_a_template_that_makes_too_much_text_is_refused_at_once(source: str, said) -> None:
    started = time.monotonic()
    with pytest.raises(UsageError) as caught:
        render(source, {}, name=NAME)
    said(str(caught.value))
    assert time.monotonic() - started < rendering.SECONDS
    assert render("still here", {}, name=NAME).text == "still here"


def test_a_template_without_end_is_ended_and_the_next_one_is_rendered(
    monkeypatch: pytest.MonkeyPatch,
    said,
) -> None:
    monkeypatch.setattr(rendering, "SECONDS", 0.5)
    loop = "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"
    with pytest.raises(UsageError) as caught:
        render(loop, {}, name=NAME)
    said(str(caught.value))
    monkeypatch.setattr(rendering, "SECONDS", 5.0)
    assert render("{{ 1 + 1 }}", {}, name=NAME).text == "2"


@pytest.mark.parametrize(
    "source",
    [
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{{ cycler.__init__.__globals__.os.system('true') }}",
        "{{ options.append(1) }}",
        "{{ options.nothing.at_all }}",
    ],
)
def test_the_sandbox_gives_no_way_out(source: str, said) -> None:
    with pytest.raises(TrialError) as caught:
        render(source, {"options": []}, name=NAME)
    said(str(caught.value))


def test_the_process_that_renders_has_no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_SERVERS_KEY", "sk-12345678")
    rendering._renderer.close()
    render("x", {}, name=NAME)
    process = rendering._renderer._process
    assert process is not None
    environment = Path(f"/proc/{process.pid}/environ")
    if not environment.exists():
        pytest.skip("needs /proc to look at another process's environment")
    assert b"sk-12345678" not in environment.read_bytes()


def test_what_is_no_jinja_is_refused_with_the_reason(said) -> None:
    with pytest.raises(UsageError) as caught:
        render("{% if", {}, name=NAME)
    said(str(caught.value), "not a usable Jinja template")


def test_names_are_those_a_template_reads_and_does_not_set() -> None:
    assert names_read("{% set b = 1 %}{{ b }}{{ a }}{{ c }}", name=NAME) == ["a", "c"]


def test_naming_what_a_template_reads_computes_nothing_of_it() -> None:
    assert names_read("{{ 'a' * 10**10 }}{{ b }}", name=NAME) == ["b"]


def test_a_chat_template_has_what_models_use() -> None:
    source = (
        "{% for turn in messages %}\n{% if turn.role == 'end' %}\n{% break %}\n{% endif %}\n"
        "{% generation %}{{ turn.content | tojson }}{% endgeneration %}\n{% endfor %}\n"
        "{{ strftime_now('%Y')[:2] }}"
    )
    turns = [{"role": "user", "content": "<é>"}, {"role": "end", "content": ""}]
    found = render(source, {"messages": turns}, name=NAME, chat=True)
    assert found.text == '"<é>"20'
    with pytest.raises(TrialError, match="no tools here"):
        render("{{ raise_exception('no tools here') }}", {}, name=NAME, chat=True)
