"""The fixture `said` and its file."""

from __future__ import annotations

import json
from pathlib import Path
from types import ModuleType

import pytest

TESTS = Path(__file__).resolve().parents[1]


@pytest.fixture
def fixtures(pytestconfig: pytest.Config) -> ModuleType:
    """The module tests/conftest.py."""
    plugins = pytestconfig.pluginmanager.get_plugins()
    file = str(TESTS / "conftest.py")
    (found,) = (each for each in plugins if getattr(each, "__file__", None) == file)
    assert isinstance(found, ModuleType)
    return found


def test_every_stored_sentence_belongs_to_a_test_that_is_there() -> None:
    stored = json.loads((TESTS / "sentences.json").read_text("utf-8"))
    assert list(stored) == sorted(stored)
    sources: dict[str, str] = {}
    for node, sentences in stored.items():
        path, _, test = node.partition("::")
        if path not in sources:
            sources[path] = (TESTS.parent / path).read_text("utf-8")
        assert f"def {test.partition('[')[0]}(" in sources[path], f"{node} is not there any more"
        assert sentences
        assert all(sentences)


@pytest.mark.parametrize("sentences", [{}, {"a.py::b": []}, {"a.py::b": [""]}])
def test_a_sentence_that_is_not_stored_fails_with_what_to_do(
    fixtures: ModuleType, sentences: dict[str, list[str]]
) -> None:
    with pytest.raises(pytest.fail.Exception, match=r"run pytest --write-sentences a\.py$"):
        fixtures.expected("a.py::b", sentences, 0)


def test_folders_of_the_day_and_ports_are_marks(fixtures: ModuleType) -> None:
    text = f"/tmp/x/test_a0/run: no file, not in {TESTS.parent}; http://127.0.0.1:48123/v1"
    told = fixtures.normal(text, Path("/tmp/x"))
    assert told == "<tmp>/run: no file, not in <root>; http://127.0.0.1:<port>/v1"


def test_words_have_to_stand_in_a_message(fixtures: ModuleType) -> None:
    with pytest.raises(AssertionError, match="'key' does not stand in: the sentence"):
        fixtures.stands("the sentence", ("sentence", "key"))
    fixtures.stands("the key", ("key",))
