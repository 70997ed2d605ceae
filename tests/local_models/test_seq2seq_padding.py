"""Encoder-decoder models: little padding over mixed lengths."""

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
    real = sum(n_tokens(backend, prompt, special=True) for prompt in prompts) + sum(
        start + n_tokens(backend, output, special=False) - 1
        for of_prompt in outputs
        for output in of_prompt
    )
    assert backend.counters["tokens_forwarded"] < 1.05 * real
    alone = open_tiny(name)
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
