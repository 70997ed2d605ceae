"""Encoder-decoder models: little padding over mixed lengths, nothing read twice."""

import numpy as np
import pytest

from medstress.backends.local.transformers import TransformersBackend
from medstress.core.calls import Failure, Score, Scored

pytest.importorskip("torch", reason="needs the extra transformers")
pytest.importorskip("transformers", reason="needs the extra transformers")


def n_tokens(backend: TransformersBackend, text: str, *, special: bool) -> int:
    return len(backend._loaded.tokenizer(text, add_special_tokens=special)["input_ids"])


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_padding_stays_below_five_per_cent_with_mixed_lengths(name, sentence, open_tiny):
    backend = open_tiny(name)
    prompts = [sentence(seed, 3 + seed * 7 % 41) for seed in range(60)]
    outputs = [[sentence(1000 + 4 * i + k, 1 + (i + k) % 6) for k in range(4)] for i in range(60)]
    calls = [
        Score(prompt, tuple(f" {output}" for output in of_prompt))
        for prompt, of_prompt in zip(prompts, outputs, strict=True)
    ]
    replies = backend.answer(calls)
    start = {"t5": 1, "bart": 2}[name]
    # An upper bound: outputs of one prompt that begin alike are read once.
    real = sum(n_tokens(backend, prompt, special=True) for prompt in prompts) + sum(
        start + n_tokens(backend, output, special=False) - 1
        for of_prompt in outputs
        for output in of_prompt
    )
    assert backend.counters["tokens_forwarded"] < 1.05 * real
    alone = open_tiny(name, kv_bytes=0)
    for call, reply in zip(calls[:8], replies, strict=False):
        (expected,) = alone.answer([call])
        assert isinstance(reply, Scored)
        assert isinstance(expected, Scored)
        assert np.allclose(reply.log_probs, expected.log_probs, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("n", "answered"), [(95, True), (96, False)])
def test_an_output_has_to_fit_with_what_the_decoder_reads_before_it(n, answered, open_tiny):
    backend = open_tiny("bart")  # of 96 positions; two tokens come before every output
    output = " pain" * n
    assert n_tokens(backend, output.lstrip(), special=False) == n
    (reply,) = backend.answer([Score("the patient", (output, " dose"))])
    assert isinstance(reply, Scored if answered else Failure)


def test_a_prompt_that_comes_again_with_other_options_is_not_encoded_again(sentence, open_tiny):
    backend = open_tiny("t5")
    prompt = sentence(1, 20)
    backend.answer([Score(prompt, (" aspirin is a drug", " the pain"))])
    before = backend.counters["tokens_forwarded"]
    backend.answer([Score(prompt, (" insulin is a drug", " the pain"))])
    n_new = n_tokens(backend, "insulin is a drug", special=False)
    assert backend.counters["tokens_forwarded"] - before == n_new


def test_states_that_were_forgotten_are_computed_again(questions, open_tiny):
    keeping, forgetting = open_tiny("t5"), open_tiny("t5", kv_bytes=1000)
    for calls in (questions(9), questions(9)):
        for one, other in zip(keeping.answer(calls), forgetting.answer(calls), strict=True):
            assert isinstance(one, Scored)
            assert isinstance(other, Scored)
            assert np.allclose(one.log_probs, other.log_probs, rtol=0, atol=1e-4)
