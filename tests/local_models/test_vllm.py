"""The vllm back end against a stand-in with the real package's names; numbers by transformers."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medstress.backends import vllm as back_end
from medstress.backends.local.transformers import TransformersBackend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Choose, Decoding, Failure, Generate, Message, Score, Scored
from medstress.core.errors import UsageError
from medstress.testing import check_backend

pytest.importorskip("torch", reason="needs the extra transformers")
pytest.importorskip("transformers", reason="needs the extra transformers")


@pytest.fixture
def stand_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stand_ins: Any, folder_of: Callable[..., Path]
) -> Any:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "vllm", None)  # put back as it was, whatever was there
    stand_ins.installed("vllm", stand_ins.vllm_module())
    return stand_ins.LLM


def opened(folder_of: Callable[[str], Path], **how: Any) -> Any:
    return back_end.open_backend(BackendOptions(model=str(folder_of("llama")), **how))


def test_answers_are_those_of_the_transformers_back_end(
    stand_in: Any,
    folder_of: Callable[[str], Path],
    open_tiny: Callable[..., TransformersBackend],
    questions: Callable[[int], list[Score]],
    sentence: Callable[[int, int], str],
) -> None:
    calls = [
        *questions(6),
        Score(sentence(1, 8), (" A", " B", " a dose"), first_token=True),
        Score((Message("user", sentence(2, 5)),), ("A", "B"), first_token=True),
        Generate(sentence(3, 6), Decoding(max_new_tokens=5)),
        Generate((Message("user", "the drug"),), Decoding(max_new_tokens=3)),
    ]
    backend, expected = opened(folder_of), open_tiny("llama")
    check_backend(backend, calls)
    for mine, theirs in zip(backend.answer(calls), expected.answer(calls), strict=True):
        if isinstance(theirs, Scored):
            assert np.allclose(mine.log_probs, theirs.log_probs, atol=1e-4)
            assert mine.n_tokens == theirs.n_tokens
            assert mine.tokens_in == theirs.tokens_in
        else:
            assert mine == theirs
    assert stand_in.opened == {"enable_prefix_caching": True, "dtype": "float32"}
    assert backend.traits.parameters == expected.traits.parameters
    assert backend.identity.hash != expected.identity.hash
    assert backend.counters["tokens_forwarded"] > 0


def test_letters_that_share_a_context_are_one_request_and_only_unlisted_ones_are_echoed(
    stand_in: Any, folder_of: Callable[[str], Path]
) -> None:
    backend = opened(folder_of)
    words = (" aspirin", " insulin", " pain", " scurvy", " dose")
    tokens = backend._tokenizer.tokens(["the drug"], chat=False)[0]
    (output,) = backend._ask([tokens], [{"logprobs": 20, "max_tokens": 1, "temperature": 0.0}])
    one_token_each = backend._tokenizer.tokens([f"the drug{word}" for word in words], chat=False)
    unlisted = [one for one in one_token_each if one[-1] not in output.outputs[0].logprobs[0]]
    assert unlisted
    stand_in.asked.clear()
    (reply,) = backend.answer([Score("the drug", words, first_token=True)])
    assert isinstance(reply, Scored)
    assert reply.n_tokens == (1,) * 5
    assert [params.logprobs for params in stand_in.asked] == [20] + [None] * len(unlisted)
    assert [params.prompt_logprobs for params in stand_in.asked] == [None] + [0] * len(unlisted)


def test_a_call_that_does_not_fit_the_context_fails_alone_and_nothing_is_cut(
    stand_in: Any, folder_of: Callable[[str], Path], sentence: Callable[[int, int], str]
) -> None:
    backend = opened(folder_of, context_tokens=40)
    long, fits, much, choose = backend.answer(
        [
            Score(sentence(0, 60), (" A",), first_token=True),
            Score("the drug", (" A",), first_token=True),
            Generate("the drug", Decoding(max_new_tokens=40)),
            Choose("x", "AB"),
        ]
    )
    assert "more than the 40 tokens of context" in long.error
    assert isinstance(fits, Scored)
    assert "more than the 40 tokens of context" in much.error
    assert isinstance(choose, Failure)


def test_what_vllm_refuses_is_one_sentence(
    stand_in: Any, folder_of: Callable[[str], Path], tmp_path: Path
) -> None:
    for path in folder_of("llama").iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "too-new").touch()
    with pytest.raises(UsageError, match=r"vLLM cannot load the model .* are not") as told:
        back_end.open_backend(BackendOptions(model=str(tmp_path)))
    assert "\n" not in str(told.value)
    with pytest.raises(UsageError, match=r'backend = "llama_cpp"'):
        back_end.open_backend(BackendOptions(model="x.gguf"))


def test_without_vllm_the_message_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_end, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"environment of its own.*'medstress\[vllm\]'"):
        back_end.open_backend(BackendOptions(model="x"))


def test_without_vllm_the_sentence_is_that_of_the_system(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(back_end, "find_spec", lambda _: None)
    for system, way_out in (
        ("linux", r"pip install 'medstress\[vllm\]'"),
        ("darwin", "Linux alone"),
    ):
        monkeypatch.setattr(back_end.sys, "platform", system)
        with pytest.raises(UsageError, match=way_out):
            back_end.open_backend(BackendOptions(model="x"))


def test_a_missing_compiler_is_named_with_the_command_that_brings_one(
    stand_in: Any, folder_of: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object, **__: object) -> None:
        raise RuntimeError("Failed to find C compiler. Please specify via CC environment variable.")

    monkeypatch.setattr(stand_in, "__init__", fails)
    with pytest.raises(UsageError, match=r"; a compiler is missing: apt-get install gcc") as told:
        opened(folder_of)
    assert "\n" not in str(told.value)
