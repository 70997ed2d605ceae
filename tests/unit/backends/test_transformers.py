"""Tiny random models through the whole back end, against logits computed one text at a time."""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from medstress.backends.generation import _GumbelNoise
from medstress.backends.loaded_model import load_model
from medstress.backends.options import BackendOptions
from medstress.backends.transformers import TransformersBackend, open_backend
from medstress.calls import (
    Backend,
    Choose,
    Decoding,
    Failure,
    Generate,
    Generated,
    Message,
    Score,
    Scored,
)
from medstress.errors import UsageError

torch = pytest.importorskip("torch", reason="needs the extra transformers")
transformers = pytest.importorskip("transformers", reason="needs the extra transformers")

WORDS = "aspirin insulin scurvy vitamin patient pain dose drug which treats the a of with is".split()
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<reply>{% endif %}"
)


def sentence(seed: int, n_words: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=n_words))


def tokenizer(*, before: str = "", after: str = "", template: str | None = None) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<s>", "</s>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator([sentence(seed, 30) for seed in range(40)], trainer)
    if before or after:
        bpe.post_processor = processors.TemplateProcessing(
            single=f"{before} $A {after}".strip(), special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.chat_template = template
    return fast


def llama() -> tuple[Any, Any]:
    config = transformers.LlamaConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        initializer_range=0.3,
    )
    return transformers.LlamaForCausalLM(config), tokenizer(before="<s>", template=TEMPLATE)


def gpt2() -> tuple[Any, Any]:
    config = transformers.GPT2Config(
        vocab_size=400,
        n_embd=32,
        n_layer=2,
        n_head=4,
        n_positions=96,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.3,
    )
    return transformers.GPT2LMHeadModel(config), tokenizer()


def sliding() -> tuple[Any, Any]:
    config = transformers.MistralConfig(
        vocab_size=400,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        sliding_window=16,
        max_position_embeddings=256,
        eos_token_id=1,
        initializer_range=0.3,
    )
    return transformers.MistralForCausalLM(config), tokenizer(before="<s>")


def index_window() -> tuple[Any, Any]:
    config = transformers.GPTNeoConfig(
        vocab_size=400,
        hidden_size=32,
        num_layers=2,
        num_heads=4,
        attention_types=[[["global", "local"], 1]],
        window_size=16,
        max_position_embeddings=256,
        bos_token_id=0,
        eos_token_id=1,
        initializer_range=0.3,
    )
    return transformers.GPTNeoForCausalLM(config), tokenizer()


def alibi() -> tuple[Any, Any]:
    config = transformers.BloomConfig(
        vocab_size=400, hidden_size=32, n_layer=2, n_head=4, eos_token_id=1, initializer_range=0.3
    )
    return transformers.BloomForCausalLM(config), tokenizer()


def t5() -> tuple[Any, Any]:
    config = transformers.T5Config(
        vocab_size=400,
        d_model=32,
        d_kv=8,
        d_ff=48,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=1,
        eos_token_id=1,
        pad_token_id=1,
        initializer_factor=3.0,
    )
    return transformers.T5ForConditionalGeneration(config), tokenizer(after="</s>")


def bart() -> tuple[Any, Any]:
    config = transformers.BartConfig(
        vocab_size=400,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=4,
        decoder_attention_heads=4,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        max_position_embeddings=96,
        decoder_start_token_id=1,
        bos_token_id=0,
        eos_token_id=1,
        pad_token_id=1,
        forced_eos_token_id=1,
        init_std=0.3,
    )
    model = transformers.BartForConditionalGeneration(config)
    model.generation_config.forced_bos_token_id = 0
    model.generation_config.num_beams = 4
    return model, tokenizer(before="<s>", after="</s>")


ARCHITECTURES = {
    build.__name__: build for build in (llama, gpt2, sliding, index_window, alibi, t5, bart)
}
CAUSAL = ["llama", "gpt2", "sliding", "index_window", "alibi"]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Saves each architecture once, with random weights."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            torch.manual_seed(1)
            model, its_tokenizer = ARCHITECTURES[name]()
            made[name] = tmp_path_factory.mktemp(name)
            model.save_pretrained(made[name])
            its_tokenizer.save_pretrained(made[name])
        return made[name]

    return folder


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "cache"))


@pytest.fixture
def open_tiny(folder_of: Callable[[str], Path]) -> Callable[..., TransformersBackend]:
    def opened(name: str, **how: Any) -> TransformersBackend:
        return TransformersBackend(load_model(BackendOptions(model=str(folder_of(name)))), **how)

    return opened


def reference(backend: TransformersBackend, tokens: list[int], start: int) -> list[float]:
    """Log probability of each token from `start` on, one unpadded forward."""
    with torch.inference_mode():
        logits = backend._loaded.model(torch.tensor([tokens])).logits[0]
    found = torch.log_softmax(logits, dim=-1)
    return [float(found[i - 1, tokens[i]]) for i in range(start, len(tokens))]


def questions(n: int) -> list[Score]:
    """Prompts of different lengths, some with a common beginning; options share words."""
    calls = []
    for i in range(n):
        prompt = sentence(i // 3, 5 + i % 4 * 6) + f" {WORDS[i % 15]}:"
        options = tuple(" " + sentence(100 + 7 * i + k // 2, 1 + k) for k in range(4))
        calls.append(Score(prompt, options, first_token=i % 5 == 4))
    return calls


@pytest.mark.parametrize("name", CAUSAL)
def test_scores_equal_those_of_each_text_alone(
    name: str, open_tiny: Callable[..., TransformersBackend]
) -> None:
    backend = open_tiny(name)
    its_tokenizer = backend._loaded.tokenizer
    calls = questions(12)
    for call, reply in zip(calls, backend.answer(calls), strict=True):
        assert isinstance(reply, Scored)
        prompt = its_tokenizer(call.prompt)["input_ids"]
        for i, continuation in enumerate(call.continuations):
            tokens = its_tokenizer(call.prompt + continuation)["input_ids"]
            assert tokens[: len(prompt)] == prompt
            expected = reference(backend, tokens, len(prompt))[: reply.n_tokens[i]]
            assert call.first_token or len(expected) == len(tokens) - len(prompt)
            assert reply.log_probs[i] == pytest.approx(sum(expected), abs=1e-4)


@pytest.mark.parametrize("name", CAUSAL)
def test_sharing_changes_no_number(
    name: str, open_tiny: Callable[..., TransformersBackend]
) -> None:
    calls = questions(20)
    tree, plain = open_tiny(name), open_tiny(name, sharing=False)
    for one, other in zip(tree.answer(calls), plain.answer(calls), strict=True):
        assert isinstance(one, Scored)
        assert isinstance(other, Scored)
        assert one.n_tokens == other.n_tokens
        assert np.allclose(one.log_probs, other.log_probs, rtol=0, atol=1e-4)
    assert plain.path == "plain"
    assert tree.counters["tokens_naive"] == plain.counters["tokens_naive"]
    if name in {"llama", "gpt2"}:
        assert tree.path == "tree"
        assert tree.counters["tokens_forwarded"] < plain.counters["tokens_forwarded"] / 2


def test_an_architecture_without_positions_is_read_plainly_with_a_warning(
    open_tiny: Callable[..., TransformersBackend], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        assert open_tiny("alibi").path == "plain"
    assert [record.message for record in caplog.records if "token trees" in record.message]


def test_letters_are_scored_by_their_first_token_and_shared_ones_in_full(
    open_tiny: Callable[..., TransformersBackend],
) -> None:
    backend = open_tiny("llama")
    call = Score("which drug treats pain", (" aspirin", " the aspirin", " the insulin", ""), True)
    (reply,) = backend.answer([call])
    assert isinstance(reply, Scored)
    assert reply.n_tokens == (1, 2, 2, 0)
    assert reply.log_probs[3] == 0.0
    assert reply.tokens_in == len(backend._loaded.tokenizer(call.prompt)["input_ids"]) + 5
    assert backend.counters["tokens_naive"] == 2 * reply.tokens_in - 10 + 1


def test_a_continuation_that_changes_the_prompts_last_token_is_scored_from_there(
    open_tiny: Callable[..., TransformersBackend],
) -> None:
    backend = open_tiny("llama")
    its_tokenizer = backend._loaded.tokenizer
    call = Score("the drug is asp", ("irin", " with"))
    prompt, merged = (its_tokenizer(text)["input_ids"] for text in (call.prompt, "the drug is aspirin"))
    assert merged[: len(prompt)] != prompt
    start = next(i for i, pair in enumerate(zip(prompt, merged, strict=False)) if len(set(pair)) > 1)
    (reply,) = backend.answer([call])
    assert isinstance(reply, Scored)
    assert reply.n_tokens == (len(merged) - start, 1)
    assert reply.log_probs[0] == pytest.approx(sum(reference(backend, merged, start)), abs=1e-4)


def test_a_conversation_goes_through_the_chat_template_without_a_second_start_token(
    open_tiny: Callable[..., TransformersBackend],
) -> None:
    backend = open_tiny("llama")
    turns = (Message("system", "the dose"), Message("user", "which drug"))
    (reply,) = backend.answer([Score(turns, (" aspirin",))])
    text = "<system>the dose<user>which drug<reply>"
    tokens = backend._loaded.tokenizer(text + " aspirin", add_special_tokens=False)["input_ids"]
    assert isinstance(reply, Scored)
    expected = reference(backend, tokens, len(tokens) - reply.n_tokens[0])
    assert reply.log_probs[0] == pytest.approx(sum(expected), abs=1e-4)


@pytest.mark.parametrize("call", [Score, Generate])
def test_a_template_that_refuses_a_conversation_fails_that_call_only(
    call: Any, open_tiny: Callable[..., TransformersBackend]
) -> None:
    rest = ((" aspirin",),) if call is Score else (Decoding(max_new_tokens=2),)
    calls = [call((Message("tool", "x"),), *rest), call((Message("user", "x"),), *rest)]
    refused, fine = open_tiny("llama").answer(calls)
    assert isinstance(refused, Failure)
    assert "no tools" in refused.error
    assert not isinstance(fine, Failure)


@pytest.mark.parametrize("call", [Score((Message("user", "x"),), (" a",)), Generate((Message("user", "x"),))])
def test_a_conversation_with_a_model_without_template_is_a_usage_error(
    call: Any, open_tiny: Callable[..., TransformersBackend]
) -> None:
    with pytest.raises(UsageError, match="no chat template"):
        open_tiny("gpt2").answer([call])


@pytest.mark.parametrize("name", ["llama", "gpt2", "t5", "bart"])
def test_greedy_text_equals_stepwise_arg_max(
    name: str, open_tiny: Callable[..., TransformersBackend]
) -> None:
    backend = open_tiny(name)
    its_tokenizer, model = backend._loaded.tokenizer, backend._loaded.model
    calls = [
        Generate(sentence(i, 3 + 4 * i), Decoding(max_new_tokens=3 + i % 2)) for i in range(5)
    ]
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
            tokens_in=tokens.shape[1],
            tokens_out=len(new),
        )
