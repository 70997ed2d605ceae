"""Functions of the user's: what they may return, and what they are told when it is nonsense."""

from pathlib import Path
from typing import Any

import pytest

from medstress.backends.options import BackendOptions
from medstress.backends.python import open_backend, wrap_function
from medstress.core.calls import Choose, Chosen
from medstress.core.errors import PermanentBackendError, UsageError

CALLS = [Choose("first", "ABC"), Choose("second", "ABC")]


def answers(value: Any) -> Any:
    return wrap_function(lambda prompts: value, version="1").answer(CALLS)


def test_it_receives_all_prompts_of_a_batch_at_once():
    seen = []

    def victim(prompts: list[str]) -> list[str]:
        seen.append(prompts)
        return ["A"] * len(prompts)

    wrap_function(victim).answer(CALLS)
    assert seen == [["first", "second"]]


def test_it_may_return_texts_letters_and_scores():
    assert answers(["It is A", {"answer": "B"}]) == [Chosen(text="It is A"), Chosen(answer="B")]
    one, other = answers([{"scores": {"B": 2, "A": 0.5, "C": 0}}, ""])
    assert one == Chosen(scores=(0.5, 2.0, 0.0))
    assert other == Chosen(text="")
    assert answers(("A", "B")) == [Chosen(text="A"), Chosen(text="B")]


@pytest.mark.parametrize(
    ("value", "what"),
    [
        *((value, "expected a list, one answer per prompt") for value in ("AB", b"AB", None, {})),
        (["A"], "returned 1 answers for 2 prompts"),
        (["A"] * 3, "returned 3 answers for 2 prompts"),
        *(
            (["A", {"answer": bad}], f"returned the answer {bad!r}; expected one of A, B, C")
            for bad in ("D", "AB", "", None)
        ),
        (["A", 3], "returned 3; expected a text, or exactly {'answer': 'A'}"),
        (["A", {"answer": "A", "why": "x"}], "expected a text, or exactly"),
        (["A", {"scores": {"A": 1, "B": 0}}], "expected one for each of A, B, C"),
        (["A", {"scores": [1, 2, 3]}], "expected one for each of A, B, C"),
        *(
            (["A", {"scores": {"A": bad, "B": 0, "C": 0}}], "expected finite probabilities >= 0")
            for bad in (0, -0.1, float("nan"), float("inf"), "x", None)
        ),
    ],
)
def test_nonsense_is_refused_with_a_sentence(value, what):
    with pytest.raises(UsageError) as caught:
        answers(value)
    assert str(caught.value).startswith("python victim '")
    assert what in str(caught.value)
    assert str(caught.value).endswith("; mend the function and run again")


def test_an_error_of_the_function_fails_the_batch(said):
    def victim(prompts: list[str]) -> list[str]:
        raise KeyError("weights")

    with pytest.raises(PermanentBackendError) as caught:
        wrap_function(victim).answer(CALLS)
    said(str(caught.value), "'weights'")


def write(folder: Path, text: str, name: str = "mine.py") -> Path:
    (folder / name).write_text(text, "utf-8")
    return folder


def test_a_function_in_a_file_is_found(tmp_path):
    write(tmp_path, "def answer(prompts):\n    return ['B' for _ in prompts]\n")
    backend = open_backend(BackendOptions(target="mine.py:answer", base=tmp_path, batch_size=7))
    assert backend.answer(CALLS) == [Chosen(text="B")] * 2
    assert (backend.traits.batch_size, backend.traits.workers, backend.traits.ahead) == (7, 1, 0)
    assert backend.identity.name == "mine.py:answer"
    assert backend.traits.calls == {"choose", "generate"}


def test_a_function_in_a_module_is_found(tmp_path, monkeypatch):
    folder = write(tmp_path, "def answer(prompts):\n    return ['C' for _ in prompts]\n", "zyx.py")
    monkeypatch.syspath_prepend(folder)
    assert open_backend(BackendOptions(target="zyx:answer")).answer(CALLS)[0] == Chosen(text="C")


@pytest.mark.parametrize(
    ("target", "where"),
    [
        (None, "'python'"),
        ("mine.py", "'python'"),
        ("other.py:answer", "python victim"),
        ("mine.py:nothing", "python victim 'mine.py:nothing'"),
        ("mine.py:number", "python victim 'mine.py:number'"),
        ("broken.py:answer", "python victim"),
        ("no_such_module:answer", "python victim"),
    ],
)
def test_a_target_that_cannot_be_used_is_refused(tmp_path, target, where, said):
    write(tmp_path, "number = 1\n")
    write(tmp_path, "1 / 0\n", "broken.py")
    with pytest.raises(UsageError) as caught:
        open_backend(BackendOptions(target=target, base=tmp_path))
    said(str(caught.value), where)


def identity(folder: Path, source: str, version: str | None = None) -> str:
    write(folder, source)
    options = BackendOptions(target="mine.py:answer", base=folder, version=version)
    return open_backend(options).identity.hash


def test_the_source_file_is_the_identity_or_a_version_stands_for_it(tmp_path):
    one = "def answer(prompts):\n    return ['A' for _ in prompts]\n"
    (tmp_path / "elsewhere").mkdir()
    assert identity(tmp_path, one) == identity(tmp_path / "elsewhere", one)
    assert identity(tmp_path, one) != identity(tmp_path, one.replace("'A'", "'B'"))
    assert identity(tmp_path, one, "1") == identity(tmp_path, one + "\n\n", "1")
    assert len({identity(tmp_path, one, version) for version in (None, "1", "2")}) == 3


FACTORY = """from medstress.testing import planted, tiny_questions
answer = planted(tiny_questions(1), lambda item, options: {cue!r} in options)
"""


def test_a_function_made_by_a_library_is_known_by_the_file_of_the_target(tmp_path):
    one = identity(tmp_path, FACTORY.format(cue="x"))
    assert one != identity(tmp_path, FACTORY.format(cue="y"))


class Calls:
    def __call__(self, prompts: list[str]) -> list[str]:
        return ["A"] * len(prompts)


def test_an_object_without_source_needs_a_version(said):
    victim = Calls()
    with pytest.raises(UsageError) as caught:
        wrap_function(victim)
    said(str(caught.value), "'Calls'")
    assert wrap_function(victim, "1").answer(CALLS) == [Chosen(text="A")] * 2


def test_what_comes_after_answers_says_that_they_are_stored(said):
    returned = [["A", "B"], "AB"]
    backend = wrap_function(lambda prompts: returned.pop(0), version="1")
    backend.answer(CALLS)
    with pytest.raises(UsageError) as error:
        backend.answer(CALLS)
    said(str(error.value), "earlier answers are stored")
