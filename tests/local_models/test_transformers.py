"""The back end as a whole: failures that stay with their call, options, identity."""

import sys

import pytest

from medstress.backends.local import loading
from medstress.backends.local.transformers import open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import (
    Backend,
    Decoding,
    Failure,
    Generate,
    Generated,
    Message,
    Score,
    Scored,
)
from medstress.core.errors import UsageError

torch = pytest.importorskip("torch", reason="needs the extra transformers")
pytest.importorskip("transformers", reason="needs the extra transformers")


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))


@pytest.mark.parametrize("call", [Score, Generate])
def test_a_template_that_refuses_a_conversation_fails_that_call_only(call, open_tiny):
    rest = ((" aspirin",),) if call is Score else (Decoding(max_new_tokens=2),)
    calls = [call((Message("tool", "x"),), *rest), call((Message("user", "x"),), *rest)]
    refused, fine = open_tiny("llama").answer(calls)
    assert isinstance(refused, Failure)
    assert "no tools" in refused.error
    assert not isinstance(fine, Failure)


@pytest.mark.parametrize(
    "call", [Score((Message("user", "x"),), (" a",)), Generate((Message("user", "x"),))]
)
def test_a_conversation_with_a_model_without_template_is_a_usage_error(call, open_tiny):
    with pytest.raises(UsageError, match="no chat template"):
        open_tiny("gpt2").answer([call])


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_a_call_longer_than_the_positions_fails_alone(sentence, name, open_tiny):
    long, backend = sentence(0, 200), open_tiny(name)
    calls = [
        Score(long, (" a",)),
        Score("the drug", (" a",)),
        Generate(long, Decoding(max_new_tokens=2)),
        Generate("the drug", Decoding(max_new_tokens=200)),
        Generate("the drug", Decoding(max_new_tokens=2)),
    ]
    replies = backend.answer(calls)
    kinds = [Failure, Scored, Failure, Failure, Generated]
    assert all(map(isinstance, replies, kinds))
    reasons = [one.error if isinstance(one, Failure) else None for one in replies]
    assert all("96 positions" in reason for reason in reasons if reason)
    assert backend.too_long(calls) == reasons


def test_the_identity_ignores_place_and_batch_size_and_knows_dtype_and_weights(folder_of, tmp_path):
    folder = folder_of("llama")
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    first = open_backend(BackendOptions(model=str(folder)))
    same = open_backend(BackendOptions(model="copy", base=tmp_path, batch_size=3, device="cpu"))
    half = open_backend(BackendOptions(model=str(folder), dtype="bfloat16"))
    assert isinstance(first, Backend)
    assert (first.traits.batch_size, same.traits.batch_size) == (128, 3)
    assert (first.identity.name, same.identity.name) == (str(folder), "copy")
    assert first.identity.hash == same.identity.hash != half.identity.hash
    assert open_backend(BackendOptions(model=str(folder_of("gpt2")))).identity != first.identity


def test_half_precision_reads_trees_too(questions, folder_of):
    options = BackendOptions(model=str(folder_of("llama")), dtype="bfloat16")
    backend = open_backend(options)
    replies = backend.answer(questions(3))
    assert all(isinstance(reply, Scored) for reply in replies)
    assert str(backend._loaded.model.dtype) == "torch.bfloat16"
    assert backend.path == "tree"
    backend.close()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": "bfloat61"}, "did you mean 'bfloat16'"),
        pytest.param(
            {"device": "mps"},
            "no Apple GPU here",
            marks=pytest.mark.skipif(sys.platform == "darwin", reason="there may be one"),
        ),
    ],
)
def test_wrong_options_are_one_clear_sentence(options, message, folder_of):
    with pytest.raises(UsageError, match=message):
        open_backend(BackendOptions(model=str(folder_of("llama")), **options))


def test_a_model_that_cannot_be_read_is_one_clear_sentence(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "no-such-architecture"}')
    (tmp_path / "model.safetensors").write_bytes(b"")
    with pytest.raises(UsageError) as caught:
        open_backend(BackendOptions(model=str(tmp_path)))
    assert "cannot load" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_without_torch_the_message_names_the_extra(monkeypatch):
    monkeypatch.setattr(loading, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'medstress\[transformers\]'"):
        open_backend(BackendOptions(model="anything"))
