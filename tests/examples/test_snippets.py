"""Every command, file and block of code on the pages is read as medstress reads it.

`make release-check` runs the commands; tests beside this one run what is quick.
"""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def snippets() -> ModuleType:
    spec = importlib.util.spec_from_file_location("snippets", ROOT / "scripts" / "snippets.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["snippets"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def snippet_runs(snippets: ModuleType) -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "scripts"))
        return importlib.import_module("snippet_runs")


def test_every_command_on_the_pages_is_one(snippets: ModuleType) -> None:
    found = list(snippets.commands())
    assert len(found) > 100
    assert [fault for each in found if (fault := snippets.fault_of_command(each))] == []


def test_every_file_and_block_of_code_on_the_pages_can_be_read(snippets: ModuleType) -> None:
    found = list(snippets.blocks())
    kinds = Counter(each.language for each in found)
    assert min(kinds["toml"], kinds["python"], kinds["json"]) > 2
    assert [fault for each in found if (fault := snippets.fault_of_block(each))] == []


@pytest.mark.parametrize(
    ("language", "text", "told"),
    [
        ("python", "def f(:\n", "invalid syntax"),
        ("json", '{"id": }\n', "Expecting value"),
        ("toml", "[victim]\nbackends = 1\n", "backends"),
        ("toml", '[[attack]]\nname = "entity_substitution"\nbudget = 0\n', "budget"),
        ("toml", "distanc = 1\n", "distanc"),
    ],
)
def test_a_block_with_a_fault_is_found(
    snippets: ModuleType, language: str, text: str, told: str
) -> None:
    block = snippets.Block(page="docs/x.md", line=3, language=language, text=text)
    fault = snippets.fault_of_block(block)
    assert told in fault


@pytest.mark.parametrize("words", [("rum", "mine.toml"), ("run", "--fast"), ("verify",)])
def test_a_command_with_a_fault_is_found(snippets: ModuleType, words: tuple[str, ...]) -> None:
    command = snippets.Command(place="docs/x.md:3", words=words)
    assert snippets.fault_of_command(command).startswith("docs/x.md:3: medstress ")


def test_what_is_not_run_before_a_release_stands_on_a_page(
    snippets: ModuleType, snippet_runs: ModuleType
) -> None:
    lines = [" ".join(each.words) for each in snippets.commands()]
    stale = [
        beginning
        for beginning in snippet_runs.LEFT_OUT
        if not any(f"{line} ".startswith(f"{beginning.rstrip('$')} ") for line in lines)
    ]
    others = [line for _, line in snippets.other_lines()]
    stale += [each for each in snippet_runs.OTHERS if not any(o.startswith(each) for o in others)]
    assert stale == []
    assert sum(snippet_runs.left_out(each) is None for each in snippets.commands()) > 100


def test_every_line_that_calls_another_program_is_run_or_has_a_reason(
    snippets: ModuleType, snippet_runs: ModuleType
) -> None:
    found = list(snippets.other_lines())
    assert {"make demo", "python make_csv.py"} <= {line for _, line in found}
    silent = [
        each
        for each in found
        if not snippet_runs.is_run(each[1]) and not snippet_runs.other_left_out(each[1])
    ]
    assert silent == []


def test_the_index_says_how_many_lines_are_run(snippet_runs: ModuleType) -> None:
    n_run, n_lines = snippet_runs.share()
    text = " ".join((ROOT / "docs/README.md").read_text("utf-8").split())
    assert f"Of the {n_lines} lines to type" in text, "write these numbers into docs/README.md"
    assert f" {n_run} are run before a release" in text
    assert f"The other {n_lines - n_run} want" in text


def test_what_no_command_of_a_page_prints_is_found(snippet_runs: ModuleType) -> None:
    """Before a release the pages themselves are compared."""
    page = "docs/first-steps.md"
    shown = [text for _, text in snippet_runs.printed(page)]
    assert any(text.startswith("understood: questions.csv: 200 questions") for text in shown)
    assert any("right answers (" in text for text in shown)
    assert list(snippet_runs.not_printed(page, shown)) == []
    (fault,) = snippet_runs.not_printed(
        page, [each.replace("25 of 25", "7 of 9") for each in shown]
    )
    assert "prints: 25 of 25 right answers" in fault


@pytest.mark.parametrize("page", ["docs/tutorial.md", "docs/first-steps.md"])
def test_runs_whose_results_are_shown_do_not_depend_on_what_is_installed(
    snippets: ModuleType, page: str
) -> None:
    lines = [each.words for each in snippets.commands() if each.place.startswith(f"{page}:")]
    runs = [words for words in lines if words[0] == "run" and "--data" in words]
    assert runs
    assert all("entities.embedding=ngram" in words for words in runs)


@pytest.mark.parametrize("page", ["README.md", "docs/first-steps.md", "docs/quickstart.md"])
def test_pages_that_install_say_how_the_command_is_found(page: str) -> None:
    assert ". .venv/bin/activate" in (ROOT / page).read_text("utf-8")
