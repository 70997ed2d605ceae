"""Scores on kept keys and values against the plain path, batch after batch."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from medstress.backends.local.transformers import TransformersBackend
from medstress.core.calls import Reply, Score, Scored

pytest.importorskip("torch", reason="needs the extra transformers")
pytest.importorskip("transformers", reason="needs the extra transformers")

KEEPING = ["llama", "gpt2"]


@pytest.fixture
def rounds(sentence: Callable[[int, int], str]) -> list[list[Score]]:
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


@pytest.fixture(params=[False, True], ids=["torch's attention", "plain products"])
def plain_products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways a block attends: float32 on a CPU knows one of them."""
    from medstress.backends.shared_prefix import attention as kv_attention

    monkeypatch.setattr(kv_attention, "_plain_products_are_faster", lambda _: request.param)


def assert_same(found: Sequence[Reply], expected: Sequence[Reply]) -> None:
    for one, other in zip(found, expected, strict=True):
        assert isinstance(one, Scored)
        assert isinstance(other, Scored)
        assert one.n_tokens == other.n_tokens
        assert np.allclose(one.log_probs, other.log_probs, rtol=0, atol=1e-4)
        assert np.argmax(one.log_probs) == np.argmax(other.log_probs)


@pytest.mark.usefixtures("plain_products")
@pytest.mark.parametrize("name", KEEPING)
@pytest.mark.parametrize("kv_bytes", [None, 40_000, 0])
def test_answers_equal_the_plain_path_whatever_is_forgotten(
    name: str,
    kv_bytes: int | None,
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
) -> None:
    backend, plain = open_tiny(name, kv_bytes=kv_bytes), open_tiny(name, sharing=False)
    for batch in rounds:
        assert_same(backend.answer(batch), plain.answer(batch))
    assert (backend.traits.ahead, plain.traits.ahead) == (2, 8)


@pytest.mark.parametrize(
    ("path", "keeps", "names"),
    [
        ("tree", True, "qwen3 phi3 gpt_neox qwen3_moe deepseek_v3 opt biogpt"),
        ("tree", True, "gemma3_text llama4_text"),
        ("tree", False, "gptj gemma2 gpt_oss"),
        ("plain", False, "mpt mamba lfm2 recurrent_gemma"),
    ],
)
def test_every_family_answers_as_on_the_plain_path(
    path: str,
    keeps: bool,
    names: str,
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
) -> None:
    for name in names.split():
        backend, plain = open_tiny(name, kv_bytes=20_000), open_tiny(name, sharing=False)
        for batch in rounds:
            assert_same(backend.answer(batch), plain.answer(batch))
        assert (name, backend.path, backend.traits.ahead) == (name, path, 2 if keeps else 8)
        spent, plainly = (one.counters["tokens_forwarded"] for one in (backend, plain))
        assert spent < plainly, name


@pytest.mark.parametrize("name", KEEPING)
def test_of_a_later_candidate_only_what_is_new_is_forwarded(
    name: str,
    sentence: Callable[[int, int], str],
    open_tiny: Callable[..., TransformersBackend],
) -> None:
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
    shared = next(i for i, (a, b) in enumerate(zip(clean, changed, strict=False)) if a != b)
    assert backend.counters["tokens_forwarded"] - before == len(changed) - shared


def test_as_many_prompts_are_kept_as_a_batch_has_calls(
    sentence: Callable[[int, int], str], open_tiny: Callable[..., TransformersBackend]
) -> None:
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


def test_scores_of_options_that_stay_are_remembered(
    sentence: Callable[[int, int], str], open_tiny: Callable[..., TransformersBackend]
) -> None:
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


def test_a_call_that_is_asked_again_is_computed_again_from_nothing_kept(
    sentence: Callable[[int, int], str], open_tiny: Callable[..., TransformersBackend]
) -> None:
    backend = open_tiny("llama")
    call = Score(sentence(1, 20), (" aspirin", " the dose"))
    first = backend.answer([call])
    once = backend.counters["tokens_forwarded"]
    assert_same(backend.answer([call]), first)
    assert backend.counters["tokens_forwarded"] == 2 * once


def test_what_is_kept_is_given_up_before_a_batch_fails_for_memory(
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend, plain = open_tiny("llama"), open_tiny("llama", sharing=False)
    backend.answer(rounds[0])
    store = backend._scores._scorer._kept.store  # type: ignore[attr-defined]
    forward, n_kept = backend._loaded.model.model.forward, []

    def full_machine(*args: Any, **how: Any) -> Any:
        n_kept.append(len(store))
        if len(store) >= 6:
            raise RuntimeError("CUDA out of memory")
        return forward(*args, **how)

    monkeypatch.setattr(backend._loaded.model.model, "forward", full_machine)
    assert_same(backend.answer(rounds[1]), plain.answer(rounds[1]))
    assert n_kept[:2] == [6, 0]


def test_answers_stand_where_there_is_no_memory_to_keep_what_they_need(
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from medstress.backends.shared_prefix import scoring as kv_scoring
    from medstress.backends.shared_prefix.store import KvStore

    plan = replace(kv_scoring._PLANS["cpu"], batch_rows=0)
    monkeypatch.setitem(kv_scoring._PLANS, "cpu", plan)
    backend, plain = open_tiny("llama"), open_tiny("llama", sharing=False)
    assert backend.path == "tree"  # the self-check is over
    grow, n_refused = KvStore._grow, 0

    def full_machine(self: KvStore, *how: int) -> None:
        nonlocal n_refused
        if self._layers:
            n_refused += 1
            raise RuntimeError("CUDA out of memory")
        grow(self, *how)

    monkeypatch.setattr(KvStore, "_grow", full_machine)
    for batch in rounds[:2]:
        assert_same(backend.answer(batch), plain.answer(batch))
    assert n_refused


def test_a_model_that_is_not_packed_right_is_read_as_before(
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from medstress.backends.shared_prefix import attention as kv_attention

    attend_block = kv_attention._attend_block

    def too_much(*given: Any) -> None:
        attend_block(*given)
        given[-1].mul_(1.5)

    monkeypatch.setattr(kv_attention, "_attend_block", too_much)
    backend, plain = open_tiny("llama"), open_tiny("llama", sharing=False)
    for batch in rounds[:2]:
        assert_same(backend.answer(batch), plain.answer(batch))
    assert (backend.path, backend.traits.ahead) == ("tree", 8)


def test_a_model_whose_kept_keys_are_not_found_again_is_read_without_them(
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from medstress.backends.shared_prefix.store import KvStore

    put = KvStore.put
    monkeypatch.setattr(
        KvStore,
        "put",
        lambda self, found: put(self, [replace(one, new=one.new[::-1]) for one in found]),
    )
    backend, plain = open_tiny("llama"), open_tiny("llama", sharing=False)
    assert_same(backend.answer(rounds[0]), plain.answer(rounds[0]))
    assert (backend.path, backend.traits.ahead) == ("tree", 8)


@pytest.mark.parametrize(("name", "ahead"), [("sliding", 2), ("index_window", 8), ("longrope", 2)])
def test_prompts_beyond_a_window_are_read_plainly(
    name: str,
    ahead: int,
    sentence: Callable[[int, int], str],
    open_tiny: Callable[..., TransformersBackend],
) -> None:
    backend, plain = open_tiny(name), open_tiny(name, sharing=False)
    for first in range(3):
        stems = [sentence(i % 4, n) for i, n in enumerate((20, 150, 30, 90, 40, 140))]
        batch = [Score(f"{stem} {sentence(first, 1)}:", (" pain", " the dose")) for stem in stems]
        alone = [reply for call in batch for reply in plain.answer([call])]
        assert_same(backend.answer(batch), alone)
        assert_same(plain.answer(batch), alone)
    assert (backend.path, backend.traits.ahead) == ("tree", ahead)


def test_a_first_batch_of_which_nothing_is_kept_is_read_together(
    sentence: Callable[[int, int], str],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from medstress.backends.shared_prefix.scoring import KvScorer

    backend, forward, sizes = open_tiny("llama", kv_bytes=0), KvScorer._forward, []
    assert backend.path == "tree"  # the self-check is over

    def counted(self: KvScorer, groups: Any, *, afresh: bool) -> Any:
        sizes.append(sum(map(len, groups)))
        return forward(self, groups, afresh=afresh)

    monkeypatch.setattr(KvScorer, "_forward", counted)
    backend.answer([Score(sentence(i, 4), (" pain",)) for i in range(40)])
    assert sizes == [1, 39]


@pytest.mark.parametrize("kv_bytes", [2_000, 6_000, 40_000])
def test_memory_that_was_never_written_is_not_read(
    kv_bytes: int,
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import torch

    new_empty = torch.Tensor.new_empty

    def full_of_nan(self: Any, *args: Any, **how: Any) -> Any:
        made = new_empty(self, *args, **how)
        return made.fill_(float("nan")) if made.is_floating_point() else made

    monkeypatch.setattr(torch.Tensor, "new_empty", full_of_nan)
    backend, plain = open_tiny("llama", kv_bytes=kv_bytes), open_tiny("llama", sharing=False)
    for batch in rounds:
        assert_same(backend.answer(batch), plain.answer(batch))


@pytest.mark.parametrize("scaling", [None, 0.5])
def test_plain_products_are_torchs_attention(scaling: float | None) -> None:
    import torch

    from medstress.backends.shared_prefix.attention import Block, _attend_block

    drawn = torch.Generator().manual_seed(0)
    lines = torch.randn(2, 3, 12, 8, generator=drawn)
    # Fewer keys than there are, as a block sees them, and a size of values of its own.
    keys = torch.randn(2, 3, 24, 8, generator=drawn)[:, :, :20]
    values = torch.randn(2, 3, 24, 5, generator=drawn)[:, :, :20]
    mask = torch.zeros(2, 1, 12, 20)
    hidden = torch.rand(mask.shape, generator=drawn) < 0.4
    hidden[..., :3] = False  # what all see
    hidden[1, :, -2:] = True  # padding sees nothing
    mask.masked_fill_(hidden, torch.finfo(mask.dtype).min)
    expected = torch.nn.functional.scaled_dot_product_attention(
        lines, keys, values, attn_mask=mask, scale=scaling
    )
    found = torch.full((2, 3, 12, 5), float("nan"))
    flat = (one.flatten(0, 1) for one in (lines, keys, values))
    _attend_block(Block(mask=mask, n_common=3), *flat, scaling, found.flatten(0, 1))
    assert torch.isfinite(found).all()
    assert torch.allclose(found[:, :, :-2], expected[:, :, :-2], rtol=0, atol=1e-5)


def test_rounding_of_the_number_format_is_no_disagreement() -> None:
    import torch

    from medstress.backends.shared_prefix.scoring import close_enough

    # Logits of 16 to 32 are an eighth apart in bfloat16.
    assert close_enough([[-4.75]], [[-4.5]], torch.bfloat16)
    assert not close_enough([[-4.75]], [[-4.0]], torch.bfloat16)
    assert not close_enough([[-4.75]], [[-4.5]], torch.float16)
    assert not close_enough([[-4.75]], [[-4.748]], torch.float32)


def test_what_is_no_number_is_not_close_to_a_number() -> None:
    import torch

    from medstress.backends.shared_prefix.scoring import close_enough

    nan = float("nan")
    assert close_enough([[-1.0], [-2.0]], [[-1.0], [-2.0001]], torch.float32)
    assert not close_enough([[-1.0, nan]], [[-1.0, -1.0]], torch.float32)
    assert not close_enough([[nan, -1.0]], [[-1.0, -1.0]], torch.float32)


def test_the_self_check_computes_in_the_compute_thread(
    open_tiny: Callable[..., TransformersBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    from medstress.backends.local import score_calls

    made, threads = score_calls.CausalScorer, []

    def scorer(*args: Any, **how: Any) -> Any:
        threads.append(threading.current_thread().name)
        return made(*args, **how)

    monkeypatch.setattr(score_calls, "CausalScorer", scorer)
    backend = open_tiny("llama")
    assert (backend.traits.ahead, threads) == (2, [])  # not made for a victim that only generates
    assert backend.path == "tree"
    assert threads == ["medstress-compute_0"]


def test_texts_of_a_batch_are_tokenised_together(
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from medstress.backends.models.prompt_tokens import PromptTokenizer

    backend, tokens, n = open_tiny("llama"), PromptTokenizer.tokens, []

    def counted(self: PromptTokenizer, texts: Sequence[str], *, chat: bool) -> Any:
        n.append(len(texts))
        return tokens(self, texts, chat=chat)

    monkeypatch.setattr(PromptTokenizer, "tokens", counted)
    backend.answer(rounds[0])
    # All texts, then the last words of each, alone and with its continuations.
    assert n == [len(rounds[0]), sum(1 + len(call.continuations) for call in rounds[0])]


def test_the_last_layer_computes_only_what_is_read_or_kept(
    sentence: Callable[[int, int], str],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    backend = open_tiny("llama")
    assert backend.path == "tree"
    layers = backend._loaded.model.model.layers
    n_read: dict[str, list[int]] = {"mlp": [], "q_proj": [], "o_proj": [], "k_proj": []}
    for layer in (layers[0], layers[-1]):
        for name, counts in n_read.items():
            module = layer.mlp if name == "mlp" else getattr(layer.self_attn, name)

            def counted(
                states: Any,
                forward: Callable[[Any], Any] = module.forward,
                counts: list[int] = counts,
            ) -> Any:
                counts.append(states.shape[1])
                return forward(states)

            monkeypatch.setattr(module, "forward", counted)
    before = backend.counters["tokens_forwarded"]
    backend.answer([Score(sentence(1, 20), (" pain", " dose"), True)])
    n = backend.counters["tokens_forwarded"] - before
    # Keys, and values as well, are kept for what comes later.
    assert n_read == {"mlp": [n, 1], "q_proj": [n, 1], "o_proj": [n, 1], "k_proj": [n, n]}
    # What was there before is there again.
    assert layers[-1].mlp.forward.__name__ == "counted"


def test_what_is_kept_goes_before_a_batch_is_halved(
    rounds: list[list[Score]],
    open_tiny: Callable[..., TransformersBackend],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from medstress.backends.shared_prefix.scoring import KvScorer

    backend, plain = open_tiny("llama"), open_tiny("llama", sharing=False)
    expected = plain.answer(rounds[1])
    backend.answer(rounds[0])
    forward, states = KvScorer._forward, []

    def fails_once(self: KvScorer, groups: Any, *, afresh: bool) -> Any:
        states.append((len(groups), len(self.store) > 0))
        if len(states) == 1:
            raise MemoryError
        return forward(self, groups, afresh=afresh)

    monkeypatch.setattr(KvScorer, "_forward", fails_once)
    assert_same(backend.answer(rounds[1]), expected)
    n_groups = states[0][0]
    assert states == [(n_groups, True), (n_groups, False)]
