"""Scores with shared beginnings against plain rows and plain transformers, batch after batch."""

import random
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from late import torch
from medstress.backends.local import prefix, scores
from medstress.backends.local.prefix import KvStore, PrefixScorer, close_enough
from medstress.backends.local.tokens import shared_length
from medstress.core.calls import Message, Reply, Score, Scored

KEEPING = ["llama", "gpt2"]


@pytest.fixture
def rounds(sentence):
    """Batches as attacks make them: clean prompts, then candidates, items interleaved."""

    def call(item: int, name: str, first_token: bool) -> Score:
        stem = sentence(item, 12 + item)
        prompt = f"{stem} A: {name} B: {sentence(50 + item, 3)} is"
        options = (f" {name}", *(f" {sentence(90 + k, 2)}" for k in range(3)))
        return Score(prompt, options, first_token)

    clean = [call(item, "aspirin", item % 2 == 0) for item in range(6)]
    later = [
        [call(item, sentence(200 + 10 * item + k, 2), item % 2 == 0) for item in range(6)]
        for k in range(4)
    ]
    mixed = [one for batch in later for one in batch]
    random.Random(1).shuffle(mixed)
    return [clean, *(mixed[start : start + 5] for start in range(0, len(mixed), 5))]


def assert_same(replies: Sequence[Reply], expected: Sequence[Reply]) -> None:
    for one, other in zip(replies, expected, strict=True):
        assert isinstance(one, Scored)
        assert isinstance(other, Scored)
        assert one.n_tokens == other.n_tokens
        assert np.allclose(one.log_probs, other.log_probs, rtol=0, atol=1e-4)
        assert np.argmax(one.log_probs) == np.argmax(other.log_probs)


@pytest.mark.parametrize(("name", "kv_bytes"), [("llama", None), ("llama", 40_000), ("gpt2", 0)])
def test_answers_equal_plain_rows_whatever_is_forgotten(
    name, kv_bytes, rounds, open_tiny, monkeypatch
):
    monkeypatch.setattr(prefix, "_BLOCK", 7)  # several blocks even in short tries
    backend, plain = open_tiny(name, kv_bytes=kv_bytes), open_tiny(name, sharing=False)
    for batch in rounds:
        assert_same(backend.answer(batch), plain.answer(batch))
    assert (backend.traits.ahead, plain.traits.ahead) == (2, 8)


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("tree", "phi3 deepseek_v3 opt gemma2 llama4_text"),
        ("plain", "gptj gpt_oss mamba"),
        pytest.param(
            "tree",
            "mistral qwen2 qwen3 gpt_neox qwen3_moe biogpt gemma gemma3_text",
            marks=pytest.mark.release,
        ),
        pytest.param("plain", "mpt lfm2 recurrent_gemma", marks=pytest.mark.release),
    ],
)
def test_every_family_answers_as_in_plain_rows(path, names, rounds, open_tiny):
    for name in names.split():
        backend, plain = open_tiny(name, kv_bytes=20_000), open_tiny(name, sharing=False)
        for batch in rounds[:3]:
            assert_same(backend.answer(batch), plain.answer(batch))
        assert (name, backend.path) == (name, path)
        assert (backend.traits.ahead == 2) == (path == "tree")
        spent, plainly = (one.counters["tokens_forwarded"] for one in (backend, plain))
        assert spent < plainly or path == "plain", name


@pytest.mark.parametrize(("name", "path"), [("sliding", "tree"), ("index_window", "plain")])
def test_prompts_beyond_a_window_are_read_in_plain_rows(name, path, sentence, open_tiny):
    for model in (name, "longrope"):
        backend, plain = open_tiny(model), open_tiny(model, sharing=False)
        for first in range(2):
            stems = [sentence(i % 4, n) for i, n in enumerate((20, 150, 30, 90, 40, 140))]
            batch = [
                Score(f"{stem} {sentence(first, 1)}:", (" pain", " the dose")) for stem in stems
            ]
            alone = [reply for call in batch for reply in plain.answer([call])]
            assert_same(backend.answer(batch), alone)
        assert backend.path == ("tree" if model == "longrope" else path)


@pytest.mark.parametrize("name", ["llama", "llama_words", "llama_unigram", "gpt2"])
def test_a_hundred_prompts_have_the_numbers_of_plain_transformers(
    name, sentence, reference, open_tiny
):
    """Byte pairs, whole words and a unigram model; every second prompt by the chat template."""
    backend = open_tiny(name)
    tokenizer, has_turns = backend._loaded.tokenizer, backend.traits.in_turns
    drawn = random.Random(3)
    calls = []
    for i in range(25):
        stem = sentence(i // 4, 8 + i // 4 % 5) + f" {sentence(300 + i, 1 + i % 2)}"
        prompt = (Message("system", "the dose"), Message("user", stem))
        options = tuple(f" {sentence(drawn.randrange(900), 1 + k % 2)}" for k in range(3))
        calls.append(Score(prompt if i % 2 and has_turns else stem, options, i % 3 == 0))
    replies = [reply for at in range(0, 25, 10) for reply in backend.answer(calls[at : at + 10])]
    for call, reply in zip(calls, replies, strict=True):
        assert isinstance(reply, Scored)
        chat = not isinstance(call.prompt, str)
        text = f"<system>the dose<user>{call.prompt[1].content}<reply>" if chat else call.prompt
        start = tokenizer(text, add_special_tokens=not chat)["input_ids"]
        for value, n, option in zip(
            reply.log_probs, reply.n_tokens, call.continuations, strict=True
        ):
            whole = tokenizer(text + option, add_special_tokens=not chat)["input_ids"]
            first = shared_length(start, whole)
            expected = reference(backend, whole, first)[:n]
            assert call.first_token or n == len(whole) - first
            assert value == pytest.approx(sum(expected), abs=1e-4)


@pytest.mark.parametrize("name", KEEPING)
def test_of_a_later_candidate_only_what_is_new_is_forwarded(name, sentence, open_tiny):
    backend = open_tiny(name)
    its_tokenizer = backend._loaded.tokenizer
    stem = sentence(1, 30)
    backend.answer([Score(stem + " aspirin is", (" pain", " the pain"), True)])
    before = backend.counters["tokens_forwarded"]
    clean, changed = (
        its_tokenizer(f"{stem} {drug} is")["input_ids"] for drug in ("aspirin", "insulin")
    )
    assert before == len(clean)
    backend.answer([Score(stem + " insulin is", (" pain", " dose"), True)])
    new = len(changed) - shared_length(clean, changed)
    assert backend.counters["tokens_forwarded"] - before == new


def test_as_many_prompts_are_kept_as_a_batch_has_calls(sentence, open_tiny):
    def forwarded(batch_size: int) -> int:
        backend = open_tiny("llama", batch_size=batch_size)
        stems = [sentence(1000 + item, 40) for item in range(100)]
        backend.answer([Score(stem + " aspirin is", (" pain", " dose"), True) for stem in stems])
        before = backend.counters["tokens_forwarded"]
        backend.answer([Score(stem + " insulin is", (" pain", " dose"), True) for stem in stems])
        return backend.counters["tokens_forwarded"] - before

    # A smaller batch keeps 64, and these are the last ones: 36 prompts are read again.
    assert forwarded(100) <= 100 * 4
    assert forwarded(10) > 36 * 40


def test_scores_of_options_that_stay_are_kept(sentence, open_tiny):
    backend = open_tiny("llama")
    prompt, stay = sentence(1, 20), (" the patient", " a dose of insulin")
    (first,) = backend.answer([Score(prompt, (" aspirin", *stay))])
    before = backend.counters["tokens_forwarded"]
    (second,) = backend.answer([Score(prompt, (" scurvy", *stay))])
    assert isinstance(first, Scored)
    assert isinstance(second, Scored)
    assert first.log_probs[1:] == second.log_probs[1:]
    n_new = len(backend._loaded.tokenizer(" scurvy", add_special_tokens=False)["input_ids"])
    # The last token of the prompt predicts the first of the option.
    assert backend.counters["tokens_forwarded"] - before == n_new
    call = Score(prompt, (" scurvy", *stay))
    before = backend.counters["tokens_forwarded"]
    # A repeated call is computed again, from nothing that is kept.
    assert_same(backend.answer([call]), [second])
    n_prompt = len(backend._loaded.tokenizer(prompt)["input_ids"])
    assert backend.counters["tokens_forwarded"] - before > n_prompt


def test_what_is_kept_is_given_up_before_a_batch_is_halved(rounds, open_tiny, monkeypatch):
    backend, plain = open_tiny("llama"), open_tiny("llama", sharing=False)
    expected = plain.answer(rounds[1])
    backend.answer(rounds[0])
    forward, states = PrefixScorer._forward, []

    def fails_once(self: PrefixScorer, groups: Any, *, afresh: bool) -> Any:
        states.append((len(groups), len(self.store) > 0))
        if len(states) == 1:
            raise MemoryError
        return forward(self, groups, afresh=afresh)

    monkeypatch.setattr(PrefixScorer, "_forward", fails_once)
    assert_same(backend.answer(rounds[1]), expected)
    n_groups = states[0][0]
    assert states == [(n_groups, True), (n_groups, False)]


@pytest.mark.parametrize("wrong", ["attention", "kept"])
def test_a_model_that_disagrees_is_read_in_plain_rows(wrong, rounds, open_tiny, monkeypatch):
    attend, put = prefix._attend, KvStore.put
    if wrong == "attention":
        monkeypatch.setattr(
            prefix, "_attend", lambda *given, **how: (attend(*given, **how)[0] * 1.5, None)
        )
    else:
        monkeypatch.setattr(
            KvStore,
            "put",
            lambda self, tokens, layers: put(
                self, tokens, [(keys.flip(1), values) for keys, values in layers]
            ),
        )
    backend, plain = open_tiny("llama"), open_tiny("llama", sharing=False)
    for batch in rounds[:2]:
        assert_same(backend.answer(batch), plain.answer(batch))
    assert (backend.path, backend.traits.ahead) == ("plain", 8)


def test_numbers_agree_up_to_the_rounding_of_their_format():
    # Logits of 16 to 32 are an eighth apart in bfloat16.
    assert close_enough([[-4.75]], [[-4.5]], torch.bfloat16)
    assert not close_enough([[-4.75]], [[-4.0]], torch.bfloat16)
    assert not close_enough([[-4.75]], [[-4.5]], torch.float16)
    assert not close_enough([[-4.75]], [[-4.748]], torch.float32)
    assert not close_enough([[float("nan"), -1.0]], [[-1.0, -1.0]], torch.float32)


def test_the_self_check_computes_in_the_compute_thread_when_first_needed(open_tiny, monkeypatch):
    threads = []

    def scorer(*args: Any, **how: Any) -> Any:
        threads.append(threading.current_thread().name)
        return PrefixScorer(*args, **how)

    monkeypatch.setattr(scores, "PrefixScorer", scorer)
    backend = open_tiny("llama")
    assert (backend.traits.ahead, threads) == (2, [])  # not made for a victim that only generates
    assert backend.path == "tree"
    assert threads == ["medstress-compute_0"]


BYTES = 2 * 2 * 4
"""Of a token: a float as key and one as value, in two layers."""


def layers_of(tokens: Sequence[int]) -> Any:
    keys = torch.tensor(
        [float("".join(map(str, (9, *tokens[: i + 1])))) for i in range(len(tokens))]
    )
    return [(keys[None, :, None] + layer, -keys[None, :, None]) for layer in range(2)]


sequences = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=6), max_size=20)


@given(sequences, st.integers(0, 20), st.integers(1, 4), st.lists(st.integers(0, 2), max_size=6))
def test_the_longest_beginning_is_found_and_the_budget_holds(kept, most, entries, tokens):
    store, ample = KvStore(most * BYTES, entries), KvStore(10**6, 99)
    for one in kept:
        store.put(tuple(one), layers_of(one))
        ample.put(tuple(one), layers_of(one))
        assert store.n_bytes <= store.max_bytes
        assert len(store) <= entries
        assert (len(store) == 0) == (store.n_bytes == 0)
    longest, layers = ample.longest(tuple(tokens))
    assert shared_length(longest, tokens) == max(
        (shared_length(one, tokens) for one in kept), default=0
    )
    for (keys, _), (expected, _) in zip(layers, layers_of(longest), strict=bool(longest)):
        assert torch.equal(keys, expected)
    filled = len(store) > 0
    assert store.clear() == filled
    assert (len(store), store.n_bytes) == (0, 0)


def test_the_least_recently_used_goes_and_a_longer_sequence_replaces_its_beginning():
    store = KvStore(6 * BYTES)
    for first in (1, 2, 3):
        store.put((first, 0), layers_of((first, 0)))
    store.longest((1, 5))
    store.put((4, 0), layers_of((4, 0)))
    assert [store.longest((first,))[0] for first in (1, 2, 3, 4)] == [(1, 0), (), (3, 0), (4, 0)]
    store.put((4, 0, 1), layers_of((4, 0, 1)))
    assert store.longest((4, 0))[0] == (4, 0, 1)
    store.put((7,) * 9, layers_of((7,) * 9))
    assert store.longest((7,))[0] == ()
