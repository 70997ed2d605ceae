"""Coroutine functions, answers that are awaitables, and classes as python victims."""

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from medstress.backends.options import BackendOptions
from medstress.backends.python import PythonBackend, open_backend, wrap_function
from medstress.core.calls import Choose, Chosen, Failure
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.testing import check_backend

CALLS = [Choose(f"prompt {i}", "ABC") for i in range(8)]


def load(folder: Path, source: str, name: str, **given: Any) -> PythonBackend:
    (folder / "mine.py").write_text(source, "utf-8")
    return open_backend(BackendOptions(target=f"mine.py:{name}", base=folder, **given))


def closed(backend: PythonBackend) -> list[Any]:
    """Its answers to all calls, after which it is closed."""
    replies = backend.answer(CALLS)
    backend.close()
    return replies


# -- coroutines ----------------------------------------------------------------------------------


def test_a_coroutine_function_is_run_to_completion():
    async def victim(prompts: list[str]) -> list[dict[str, str]]:
        await asyncio.sleep(0)
        return [{"answer": "ABC"[int(prompt[-1]) % 3]} for prompt in prompts]

    assert closed(wrap_function(victim)) == [Chosen(answer="ABC"[i % 3]) for i in range(8)]


def test_answers_that_are_awaitables_are_awaited_together():
    started: list[float] = []

    async def one(prompt: str) -> str:
        started.append(time.monotonic())
        await asyncio.sleep(0.2)
        return prompt[-1]

    def victim(prompts: list[str]) -> list[Any]:
        return [one(prompt) for prompt in prompts]

    before = time.monotonic()
    assert closed(wrap_function(victim)) == [Chosen(text=str(i)) for i in range(8)]
    assert max(started) - min(started) < 0.2
    assert time.monotonic() - before < 8 * 0.2


def test_one_awaitable_that_raises_fails_alone():
    async def one(prompt: str) -> str:
        if prompt.endswith("3"):
            raise ConnectionError("refused")
        return "A"

    async def victim(prompts: list[str]) -> list[Any]:
        return [one(prompt) for prompt in prompts]

    replies = closed(wrap_function(victim, version="1"))
    name = "test_one_awaitable_that_raises_fails_alone.<locals>.victim"
    failed = Failure(error=f"python victim {name!r} raised ConnectionError: refused")
    assert replies == [failed if i == 3 else Chosen(text="A") for i in range(8)]


def test_a_coroutine_function_that_raises_fails_the_batch(said):
    async def victim(prompts: list[str]) -> list[str]:
        raise KeyError("weights")

    backend = wrap_function(victim)
    with pytest.raises(PermanentBackendError) as caught:
        backend.answer(CALLS)
    said(str(caught.value), "'weights'")
    backend.close()


def test_too_few_awaitables_are_refused_and_none_is_left_unawaited(said):
    async def one() -> str:
        return "A"

    backend = wrap_function(lambda prompts: [one()], version="1")
    with pytest.raises(UsageError) as caught:
        backend.answer(CALLS)
    said(str(caught.value))
    backend.close()


def test_the_event_loop_is_the_same_for_every_batch():
    loops = []

    async def victim(prompts: list[str]) -> list[str]:
        loops.append(asyncio.get_running_loop())
        return ["A"] * len(prompts)

    backend = wrap_function(victim)
    backend.answer(CALLS)
    backend.answer(CALLS)
    assert loops[0] is loops[1]
    backend.close()
    assert loops[0].is_closed()


def test_it_works_while_another_event_loop_is_running():
    async def victim(prompts: list[str]) -> list[str]:
        return ["A"] * len(prompts)

    async def notebook() -> list[Any]:
        return closed(wrap_function(victim))

    assert asyncio.run(notebook()) == [Chosen(text="A")] * 8


# -- classes -------------------------------------------------------------------------------------

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
        ("async def answer", "Model"),
        ("async def generate_batch", "Model.generate_batch"),
    ],
)
def test_an_instance_is_made_once_and_closed_at_the_end(tmp_path, method, target):
    backend = load(tmp_path, CLASS.format(method=method), target, batch_size=8)
    check_backend(backend, CALLS)
    kind = type(backend._owner)
    assert backend.answer(CALLS) == [Chosen(scores=(1.0, 2.0, 0.0))] * 8
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
    assert closed(load(tmp_path, source, "Model"))[0] == Chosen(text="A")


def test_an_object_of_the_file_is_asked_like_an_instance(tmp_path):
    source = CLASS.format(method="def answer") + "\nmine = Model()\n"
    assert closed(load(tmp_path, source, "mine"))[0] == Chosen(scores=(1.0, 2.0, 0.0))
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
        ("class Model:\n    pass\n", "Model", "python victim 'mine.py:Model'"),
        ("class Model:\n    pass\n", "Model.answer", "python victim 'mine.py:Model.answer'"),
        (
            "class Model:\n    def __init__(self, path):\n        pass\n",
            "Model",
            "python victim 'mine.py:Model'",
        ),
        (
            "class Model:\n    def __init__(self):\n        raise OSError('no weights')\n",
            "Model",
            "python victim 'mine.py:Model'",
        ),
    ],
)
def test_a_class_that_cannot_be_used_is_refused(tmp_path, source, target, where, said):
    with pytest.raises(UsageError) as caught:
        load(tmp_path, source, target)
    said(str(caught.value), where)


def test_an_error_while_closing_is_not_told(tmp_path):
    source = CLASS.format(method="def answer").replace("Model.closed += 1", "1 / 0")
    backend = load(tmp_path, source, "Model")
    backend.close()
    assert type(backend._owner).closed == 0
