"""Text of tiny models against the arg max, one step at a time."""

from dataclasses import replace

import numpy as np
import pytest

from medstress.backends.local.transformers import _GumbelNoise
from medstress.core.calls import Decoding, Generate, Generated, Request
from medstress.tasks.reading import is_over

torch = pytest.importorskip("torch", reason="needs the extra transformers")
pytest.importorskip("transformers", reason="needs the extra transformers")


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
