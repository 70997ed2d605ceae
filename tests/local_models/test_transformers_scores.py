"""Scores of tiny models against logits computed one text at a time."""

import logging

import numpy as np
import pytest

from late import torch
from medstress.core.calls import Failure, Message, Score, Scored


def test_an_architecture_without_positions_is_read_plainly_with_a_warning(open_tiny, caplog):
    with caplog.at_level(logging.WARNING):
        assert open_tiny("alibi").path == "plain"
    assert [record.message for record in caplog.records if "token trees" in record.message]


def test_letters_are_scored_by_their_first_token_and_shared_ones_in_full(open_tiny):
    backend = open_tiny("llama")
    call = Score("which drug treats pain", (" aspirin", " the aspirin", " the insulin", ""), True)
    (reply,) = backend.answer([call])
    assert isinstance(reply, Scored)
    assert reply.n_tokens == (1, 2, 2, 0)
    assert reply.log_probs[3] == 0.0
    n_prompt = len(backend._loaded.tokenizer(call.prompt)["input_ids"])
    assert reply.tokens_in == n_prompt + 5
    # The prompt for " aspirin", prompt + " the" for the two that share it.
    assert backend.counters["tokens_naive"] == n_prompt + n_prompt + 1
    assert backend.counters["tokens_forwarded"] == n_prompt + 1


def test_a_continuation_that_changes_the_prompts_last_token_is_scored_from_there(
    reference, open_tiny
):
    backend = open_tiny("llama")
    its_tokenizer = backend._loaded.tokenizer
    call = Score("the drug is asp", ("irin", " with"))
    prompt, merged = (
        its_tokenizer(text)["input_ids"] for text in (call.prompt, "the drug is aspirin")
    )
    assert merged[: len(prompt)] != prompt
    start = next(
        i for i, pair in enumerate(zip(prompt, merged, strict=False)) if len(set(pair)) > 1
    )
    (reply,) = backend.answer([call])
    assert isinstance(reply, Scored)
    assert reply.n_tokens == (len(merged) - start, 1)
    assert reply.log_probs[0] == pytest.approx(sum(reference(backend, merged, start)), abs=1e-4)


def test_a_conversation_goes_through_the_chat_template_without_a_second_start_token(
    reference, open_tiny
):
    backend = open_tiny("llama")
    turns = (Message("system", "the dose"), Message("user", "which drug"))
    (reply,) = backend.answer([Score(turns, (" aspirin",))])
    text = "<system>the dose<user>which drug<reply>"
    tokens = backend._loaded.tokenizer(text + " aspirin", add_special_tokens=False)["input_ids"]
    assert isinstance(reply, Scored)
    expected = reference(backend, tokens, len(tokens) - reply.n_tokens[0])
    assert reply.log_probs[0] == pytest.approx(sum(expected), abs=1e-4)


@pytest.mark.parametrize("name", ["t5", "bart"])
def test_encoder_decoder_scores_equal_those_of_each_pair_alone(questions, name, open_tiny):
    backend = open_tiny(name)
    its_tokenizer, model = backend._loaded.tokenizer, backend._loaded.model
    prefix = {"t5": [1], "bart": [1, 0]}[name]
    calls = [*questions(7), Score("which drug", (" aspirin", ""))]
    for call, reply in zip(calls, backend.answer(calls), strict=True):
        assert isinstance(reply, Scored)
        source = torch.tensor([its_tokenizer(call.prompt)["input_ids"]])
        for i, continuation in enumerate(call.continuations):
            output = its_tokenizer(continuation.lstrip(), add_special_tokens=False)["input_ids"]
            assert call.first_token or reply.n_tokens[i] == len(output)
            with torch.inference_mode():
                decoder_ids = torch.tensor([[*prefix, *output]])
                logits = model(input_ids=source, decoder_input_ids=decoder_ids).logits[0]
            found = torch.log_softmax(logits[len(prefix) - 1 :], dim=-1)
            expected = sum(float(found[k, output[k]]) for k in range(reply.n_tokens[i]))
            assert reply.log_probs[i] == pytest.approx(expected, abs=1e-4)


def n_tokens(backend, text, *, special):
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
