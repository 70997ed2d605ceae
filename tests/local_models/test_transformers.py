"""The back end as a whole: texts, failures that stay with their call, options, identity."""

import sys
from dataclasses import replace

import numpy as np
import pytest

from late import torch
from medstress.backends.local import loading
from medstress.backends.local.transformers import _GumbelNoise, open_backend
from medstress.backends.options import BackendOptions
from medstress.core.calls import (
    Backend,
    Decoding,
    Failure,
    Generate,
    Generated,
    Message,
    Request,
    Score,
    Scored,
)
from medstress.core.errors import UsageError
from medstress.tasks.reading import is_over


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
        pytest.param(
            {"device": "mps"},
            "no Apple GPU here",
            marks=pytest.mark.skipif(sys.platform == "darwin", reason="there may be one"),
        )
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


# -- texts, against the arg max one step at a time -------------------------------------------------


@pytest.mark.parametrize("name", ["llama", "t5", "bart"])
def test_greedy_text_equals_stepwise_arg_max(sentence, name, open_tiny):
    backend = open_tiny(name)
    its_tokenizer, model = backend._loaded.tokenizer, backend._loaded.model
    calls = [Generate(sentence(i, 3 + 4 * i), Decoding(max_new_tokens=3 + i % 2)) for i in range(5)]
    for call, reply in zip(calls, backend.answer(calls), strict=True):
        tokens = torch.tensor([its_tokenizer(call.prompt)["input_ids"]])
        start = {"t5": [1], "bart": [1]}.get(name)
        grown = tokens if start is None else torch.tensor([start])
        new: list[int] = []
        while len(new) < call.decoding.max_new_tokens and 1 not in new:
            with torch.inference_mode():
                step = model(grown) if start is None else model(tokens, decoder_input_ids=grown)
            forced = name == "bart" and not new
            new.append(0 if forced else int(step.logits[0, -1].argmax()))
            grown = torch.cat([grown, torch.tensor([[new[-1]]])], dim=1)
        assert reply == Generated(
            text=its_tokenizer.decode(new, skip_special_tokens=True),
            finish_reason=None if 1 in new else "length",
            tokens_in=tokens.shape[1],
            tokens_out=len(new),
        )


def test_text_ends_at_the_end_token(open_tiny):
    backend = open_tiny("llama")
    (free,) = backend.answer([Generate("which drug", Decoding(max_new_tokens=6))])
    new = backend._loaded.tokenizer("which drug")["input_ids"]
    with torch.inference_mode():
        first = int(backend._loaded.model(torch.tensor([new])).logits[0, -1].argmax())
    backend._ends = [first]
    backend._loaded.model.generation_config.eos_token_id = [first]
    calls = [Generate("which drug", Decoding(max_new_tokens=6)), Generate("the dose of the pain")]
    stopped, _ = backend.answer(calls)
    assert isinstance(free, Generated)
    assert isinstance(stopped, Generated)
    assert (free.tokens_out, stopped.tokens_out) == (6, 1)
    assert free.text.startswith(stopped.text)


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_text_ends_where_no_more_of_it_is_read_and_neighbours_go_on(name, open_tiny):
    backend = open_tiny(name)
    decoding = Decoding(max_new_tokens=6)
    asked = Generate("which drug treats the pain", decoding, is_over=is_over)
    whole, other = replace(asked, is_over=None), Generate("the dose of", decoding)
    long = backend.answer([whole, other])
    # The tiny model never writes a question: the third token stands for one.
    backend._tokenizer.decoded = lambda tokens: "B\nQuestion:" if len(tokens) >= 3 else "B"
    short, beside = backend.answer([asked, other])
    assert isinstance(short, Generated)
    assert isinstance(long[0], Generated)
    assert short.tokens_out == min(3, long[0].tokens_out)
    assert beside.tokens_out == long[1].tokens_out


def test_samples_are_reproducible_differ_and_ignore_their_neighbours(open_tiny):
    call = Generate("which drug treats", Decoding(max_new_tokens=12, temperature=1.0))
    other = Generate("pain with the", Decoding(max_new_tokens=12, temperature=1.0))
    next_sample = Request(call, sample=1).addressed
    first, second = open_tiny("llama").answer([call, next_sample])
    assert first != second
    # Another process, in another order: a resumed run must not get sample 0 for sample 1.
    again = open_tiny("llama")
    assert again.answer([next_sample])[0] == second
    assert again.answer([other, call])[1] == first


def test_noise_makes_the_arg_max_a_sample_of_the_softmax():
    logits = torch.tensor([0.0, 1.0, 2.0, -1.0])
    n = 4000
    noisy = _GumbelNoise(2.0, list(range(n)))(None, logits.expand(n, 4))
    shares = np.bincount(noisy.argmax(dim=-1).numpy(), minlength=4) / n
    # Four standard errors of a share of one half.
    assert np.allclose(shares, torch.softmax(logits / 2.0, dim=-1).numpy(), atol=4 * 0.5 / n**0.5)
