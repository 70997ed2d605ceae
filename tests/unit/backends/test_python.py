"""Functions and classes of the user's: what they get and may return, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medstress.backends.options import BackendOptions
from medstress.backends.python import PythonBackend, open_backend, wrap_function
from medstress.core.calls import Choose, Chosen, Compare, Compared, Tag, Tagged
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.testing import check_backend

CALLS = [Choose("first", "ABC"), Choose("second", "ABC")]


TAG, PAIR = [Tag(("no", "aspirin"))], [Compare("a", "b")]


def answers(value: Any, calls: Any = CALLS, task: str = "multiple_choice") -> Any:
    return wrap_function(lambda prompts: value, version="1", task=task).answer(calls)


def test_it_receives_all_prompts_of_a_batch_at_once_and_may_return_texts_letters_and_scores():
    seen = []

    def victim(prompts: list[str]) -> list[Any]:
        seen.append(prompts)
        return ["It is A", {"answer": "B"}]

    replies = wrap_function(victim).answer(CALLS)
    assert (seen, replies) == ([["first", "second"]], [Chosen(text="It is A"), Chosen(answer="B")])
    replies = answers(({"scores": {"B": 2, "A": 0.5, "C": 0}}, ""))
    assert replies == [Chosen(scores=(0.5, 2.0, 0.0)), Chosen(text="")]


def test_a_tagger_is_given_words_and_a_scorer_pairs():
    def tag(sentences: list[list[str]]) -> list[list[str]]:
        return [["B-Chemical" if w == "aspirin" else "O" for w in words] for words in sentences]

    backend = wrap_function(tag, task="ner")
    assert backend.traits.calls == {"tag"}
    assert backend.answer(TAG) == [Tagged(labels=("O", "B-Chemical"))]
    check_backend(backend, [Tag(("aspirin",) * n) for n in range(1, 6)])
    rows = [np.array(["O", "B-Chemical"])]
    assert answers(rows, TAG, "ner") == [Tagged(labels=("O", "B-Chemical"))]
    assert answers(np.full(1, 0.5), PAIR, "similarity") == [Compared(score=0.5)]


@pytest.mark.parametrize(
    ("labels", "read"),
    [("B-Drug E-Drug S-Drug", "B-Drug I-Drug B-Drug"), ("B I O", "B I O"), ("B E S", "B I B")],
)
def test_labels_of_iobes_are_read_as_iob2_and_may_be_bare(labels, read):
    (reply,) = answers([labels.split()], [Tag(("folic", "acid", "aspirin"))], "ner")
    assert reply == Tagged(labels=tuple(read.split()))


NO_LISTS = ("AB", b"AB", None, {}, ["A"], ["A"] * 3)
NO_ANSWERS = (3, {"answer": "D"}, {"answer": "AB"}, {"answer": None}, {"answer": "A", "why": "x"})
NO_SCORES = (
    *({"scores": {"A": bad, "B": 0, "C": 0}} for bad in (0, -0.1, float("nan"), "x", None)),
    *({"scores": scores} for scores in ({"A": 1, "B": 0}, [1, 2, 3])),
)


@pytest.mark.parametrize(
    ("value", "calls", "task"),
    [
        *((value, CALLS, "multiple_choice") for value in NO_LISTS),
        *((["A", one], CALLS, "multiple_choice") for one in (*NO_ANSWERS, *NO_SCORES, "\ud800")),
        *((v, TAG, "ner") for v in ([["O"]], [["O", "Chemical"]], [["O", None]], ["O O"], [])),
        *(([one], PAIR, "similarity") for one in ("high", None, float("nan"), "0.5", [0.5])),
    ],
)
def test_nonsense_is_refused_with_a_sentence(value, calls, task):
    with pytest.raises(UsageError, match=r"^python model '.*; mend the function and run again$"):
        answers(value, calls, task)


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
        ("mine.py:nothing", "python model 'mine.py:nothing'"),
        ("mine.py:number", "python model 'mine.py:number'"),
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


# -- classes ---------------------------------------------------------------------------------
def load(folder: Path, source: str, name: str, **options: Any) -> PythonBackend:
    write(folder, source)
    return open_backend(BackendOptions(target=f"mine.py:{name}", base=folder, **options))


CLASS = """
class Model:
    made = 0
    closed = 0

    def __init__(self):
        Model.made += 1

    {method}(self, prompts):
        return [{{"scores": {{"A": 1, "B": 2, "C": 0}}}} for _ in prompts]

    def close(self):
        Model.closed += 1
"""


@pytest.mark.parametrize(
    ("method", "target"),
    [
        ("def answer", "Model"),
        ("def __call__", "Model"),
        ("def generate_batch", "Model.generate_batch"),
    ],
)
def test_an_instance_is_made_once_and_closed_at_the_end(tmp_path, method, target):
    backend = load(tmp_path, CLASS.format(method=method), target, batch_size=8)
    check_backend(backend, CALLS)
    kind = type(backend._owner)
    assert backend.answer(CALLS) == [Chosen(scores=(1.0, 2.0, 0.0))] * 2
    before = kind.closed  # the conformance suite may close as well
    backend.close()
    assert (kind.made, kind.closed) == (1, before + 1)


def test_the_method_answer_goes_before_calling(tmp_path):
    source = """
class Model:
    def answer(self, prompts):
        return ["A"] * len(prompts)
    def __call__(self, prompts):
        return ["B"] * len(prompts)
"""
    assert load(tmp_path, source, "Model").answer(CALLS)[0] == Chosen(text="A")


def test_an_object_of_the_file_is_asked_like_an_instance(tmp_path):
    source = CLASS.format(method="def answer") + "\nmine = Model()\n"
    assert load(tmp_path, source, "mine").answer(CALLS)[0] == Chosen(scores=(1.0, 2.0, 0.0))
    changed = source.replace('"A": 1', '"A": 5')
    one, other = (load(tmp_path, text, "mine").identity.hash for text in (source, changed))
    assert one != other


def test_a_class_from_another_file_is_part_of_the_identity(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    hashes = []
    for n in (1, 2):
        (tmp_path / f"base_of_{n}.py").write_text(
            CLASS.format(method="def answer") + f"# {n}\n", "utf-8"
        )
        (tmp_path / "mine.py").write_text(f"from base_of_{n} import Model\n", "utf-8")
        hashes.append(load(tmp_path, f"from base_of_{n} import Model\n", "Model").identity.hash)
    assert hashes[0] != hashes[1]


@pytest.mark.parametrize(
    ("source", "target", "where"),
    [
        ("class Model:\n    pass\n", "Model", "python model 'mine.py:Model'"),
        ("class Model:\n    pass\n", "Model.answer", "python model 'mine.py:Model.answer'"),
        (
            "class Model:\n    def __init__(self, path):\n        pass\n",
            "Model",
            "python model 'mine.py:Model'",
        ),
        (
            "class Model:\n    def __init__(self):\n        raise OSError('no weights')\n",
            "Model",
            "python model 'mine.py:Model'",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(tmp_path, source, target, where, said):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, source, target)
    said(str(caught.value), where)
