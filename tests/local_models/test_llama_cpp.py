"""The llama_cpp back end with a stand-in for llama.cpp; numbers by transformers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medstress.backends import llama_cpp
from medstress.backends.local import files
from medstress.backends.local.files import GgufFacts, read_facts
from medstress.backends.options import BackendOptions
from medstress.core.calls import Decoding, Generate, Message, Score, Scored
from medstress.core.errors import UsageError
from medstress.testing import check_backend

pytest.importorskip("torch", reason="needs the extra transformers")
pytest.importorskip("transformers", reason="needs the extra transformers")
gguf = pytest.importorskip("gguf", reason="needs the extra transformers or llama-cpp")
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<reply>{% endif %}"
)


def write_gguf(path: Path, *, template: str | None = TEMPLATE) -> Path:
    """A header and one tensor: what the stand-in computes comes from elsewhere."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_token_list([f"t{i}" for i in range(400)])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(1)
    if template:
        writer.add_chat_template(template)
    writer.add_tensor("token_embd.weight", np.zeros((3, 5), dtype=np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


@pytest.fixture
def backend(tmp_path, monkeypatch, stand_ins, folder_of):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))
    folder = str(folder_of("llama"))
    monkeypatch.setattr(llama_cpp, "open_engine", lambda *_: stand_ins.LlamaEngine(folder))
    return llama_cpp.open_backend(BackendOptions(model=str(write_gguf(tmp_path / "tiny.gguf"))))


def test_answers_are_those_of_the_transformers_back_end(backend, open_tiny, sentence):
    calls = [
        *(Score(sentence(i, 8), (" A", " B", " a dose"), first_token=True) for i in range(3)),
        Score((Message("user", sentence(2, 5)),), ("A", "B"), first_token=True),
        Generate(sentence(3, 6), Decoding(max_new_tokens=5)),
        Generate((Message("user", "the drug"),), Decoding(max_new_tokens=3)),
    ]
    expected = open_tiny("llama")
    check_backend(backend, calls)
    for mine, theirs in zip(backend.answer(calls), expected.answer(calls), strict=True):
        if isinstance(theirs, Scored):
            assert np.allclose(mine.log_probs, theirs.log_probs, atol=1e-4)
            assert (mine.n_tokens, mine.tokens_in) == (theirs.n_tokens, theirs.tokens_in)
        else:
            assert mine == theirs
    assert backend.traits.parameters == 15


def test_prompts_that_begin_alike_are_read_one_after_the_other_and_only_once(backend, sentence):
    beginnings = [sentence(i, 40) for i in range(3)]
    calls = [
        Score(f"{beginnings[i % 3]} drug{i}", (" A", " B"), first_token=True) for i in range(9)
    ]
    backend.answer(calls)
    naive, read = (backend.counters[f"tokens_{name}"] for name in ("naive", "forwarded"))
    assert read < 0.6 * naive
    assert backend._engine.n_evaluated == read
    # Asked again on purpose (the flip check), a prompt is read anew from its beginning.
    backend.answer(calls[:1])
    length = backend.counters["tokens_naive"] - naive
    assert backend.counters["tokens_forwarded"] - read == length


def test_a_letter_that_is_not_among_the_likeliest_is_asked_for_among_all(backend):
    everything = backend._engine.next_tokens
    asked: list[int] = []

    def likeliest(context: Any, n: int, *, reuse: bool) -> dict[int, float]:
        asked.append(n)
        found = sorted(everything(context, n, reuse=reuse).items(), key=lambda one: -one[1])
        return dict(found[:n])

    call = Score("the drug treats", (" A", " B", " C", " D"), first_token=True)
    (expected,) = backend.answer([call])
    backend._engine.next_tokens = likeliest
    (found,) = backend.answer([call])
    assert np.allclose(found.log_probs, expected.log_probs)
    assert asked == [100, 400, 100, 400]  # a letter is two tokens of this tokenizer
    backend._engine.next_tokens = lambda context, n, *, reuse: {0: -0.1}
    (none,) = backend.answer([call])
    assert "does not give the log probability of every letter" in none.error


def test_texts_are_refused_with_the_way_out(backend):
    with pytest.raises(UsageError, match=r'"text" cannot be done.*"transformers"'):
        backend.answer([Score("the drug", (" aspirin",))])


def test_a_call_that_does_not_fit_the_context_fails_alone_and_nothing_is_cut(backend, sentence):
    long, fits, much = backend.answer(
        [
            Score(sentence(0, 90), (" A",), first_token=True),
            Score("the drug", (" A",), first_token=True),
            Generate("the drug", Decoding(max_new_tokens=64)),
        ]
    )
    assert "more than the 64 tokens of context" in long.error
    assert isinstance(fits, Scored)
    assert "more than the 64 tokens of context" in much.error


def test_the_header_of_a_file_is_read(tmp_path):
    facts = read_facts(write_gguf(tmp_path / "a.gguf"))
    assert facts == GgufFacts(
        template=TEMPLATE, start="t0", end="t1", n_vocabulary=400, n_context=64, parameters=15
    )


@pytest.mark.parametrize(
    ("model", "said"),
    [
        (None, "needs model = a .gguf file"),
        ("gone.gguf", r"gone\.gguf' not found"),
        ("folder", "reads .gguf files"),
        ("bad.gguf", "not a GGUF file of a language model, or is damaged"),
    ],
)
def test_a_file_that_cannot_be_read_is_one_sentence(model, said, tmp_path):
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.gguf").write_bytes(b"GGUF and more")
    with pytest.raises(UsageError, match=said) as caught:
        llama_cpp.open_backend(BackendOptions(model=model, base=tmp_path))
    assert "\n" not in str(caught.value)


def test_a_context_longer_than_the_model_knows_is_refused(tmp_path):
    path = write_gguf(tmp_path / "a.gguf")
    with pytest.raises(UsageError, match="at most 64 tokens"):
        llama_cpp.open_backend(BackendOptions(model=str(path), context_tokens=65))


def test_without_the_packages_the_messages_name_the_extra(tmp_path, monkeypatch):
    options = BackendOptions(model=str(write_gguf(tmp_path / "a.gguf")))
    monkeypatch.setattr(llama_cpp, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'medstress\[llama-cpp\]'"):
        llama_cpp.open_backend(options)
    monkeypatch.setattr(files, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'medstress\[llama-cpp\]'"):
        llama_cpp.open_backend(options)
