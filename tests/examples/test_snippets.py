"""Every command, file and block of code on the pages is read as medstress reads it.

Tests beside this one run what is quick.
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


def test_every_command_on_the_pages_is_one(snippets: ModuleType) -> None:
    found = list(snippets.commands())
    assert len(found) > 80
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
