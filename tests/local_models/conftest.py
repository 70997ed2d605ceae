"""Tiny random models, saved with a small tokenizer and opened like any other model.

torch and transformers are imported by what needs them: other tests live here too.
"""

import random
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from medstress.backends.local.loading import load_model
from medstress.backends.local.transformers import TransformersBackend
from medstress.backends.options import BackendOptions
from medstress.core.calls import Score

WORDS = ["aspirin", "insulin", "scurvy", "vitamin", "patient", "pain", "dose", "drug", "which"]
WORDS += ["treats", "the", "a", "of", "with", "is"]
TEMPLATE = (
    "{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}"
    "<{{ m.role }}>{{ m.content }}{% endfor %}{% if add_generation_prompt %}<reply>{% endif %}"
)


def make_sentence(seed: int, n_words: int) -> str:
    return " ".join(random.Random(seed).choices(WORDS, k=n_words))


def tokenizer(*, before: str = "", after: str = "", template: str | None = None) -> Any:
    import transformers
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
    bpe.train_from_iterator([make_sentence(seed, 30) for seed in range(40)], trainer)
    if before or after:
        bpe.post_processor = processors.TemplateProcessing(
            single=f"{before} $A {after}".strip(), special_tokens=[("<s>", 0), ("</s>", 1)]
        )
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=bpe, bos_token="<s>", eos_token="</s>", pad_token="</s>"
    )
    fast.chat_template = template
    return fast


def llama_words() -> tuple[Any, Any]:
    """With a tokenizer of whole words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    names = ["<s>", "</s>", "<unk>", *WORDS]
    words = Tokenizer(models.WordLevel({name: i for i, name in enumerate(names)}, "<unk>"))
    words.pre_tokenizer = pre_tokenizers.Whitespace()
    return named("llama")[0], _fast(words, PreTrainedTokenizerFast)


def llama_unigram() -> tuple[Any, Any]:
    """With a unigram tokenizer, as SentencePiece makes them."""
    from tokenizers import SentencePieceUnigramTokenizer
    from transformers import PreTrainedTokenizerFast

    unigram = SentencePieceUnigramTokenizer()
    unigram.train_from_iterator(
        [make_sentence(seed, 30) for seed in range(40)],
        vocab_size=60,
        show_progress=False,
        special_tokens=["<s>", "</s>", "<unk>"],
        unk_token="<unk>",
    )
    return named("llama")[0], _fast(unigram._tokenizer, PreTrainedTokenizerFast)


def _fast(inner: Any, kind: Any) -> Any:
    fast = kind(
        tokenizer_object=inner,
        bos_token="<s>",
        eos_token="</s>",
        pad_token="</s>",
        unk_token="<unk>",
    )
    fast.chat_template = TEMPLATE
    return fast


_TINY = {"vocab_size": 400, "eos_token_id": 1, "initializer_range": 0.3}
_TWO_LAYERS = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
}
_BART = {"layers": 1, "attention_heads": 4, "ffn_dim": 48}
_SPECIAL = {"bos_token_id": 0, "pad_token_id": 1}
# Positions turn by other angles in a batch that is longer than 48 tokens.
_LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10_000.0,
    "short_factor": [1.0] * 4,
    "long_factor": [4.0, 3.0, 2.0, 5.0],
    "original_max_position_embeddings": 48,
}
NAMED: dict[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "llama": ("llama", {**_TWO_LAYERS, **_SPECIAL}, {"before": "<s>", "template": TEMPLATE}),
    # Four bits are packed in blocks of 64 weights, on some CPUs rows at a time.
    "wide_llama": (
        "llama",
        {**_TWO_LAYERS, **_SPECIAL, "hidden_size": 128, "intermediate_size": 192},
        {"before": "<s>", "template": TEMPLATE},
    ),
    "gpt2": (
        "gpt2",
        {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 96, "bos_token_id": 0},
        {},
    ),
    "sliding": ("mistral", {**_TWO_LAYERS, "sliding_window": 48}, {"before": "<s>"}),
    "index_window": (
        "gpt_neo",
        {
            "hidden_size": 32,
            "num_layers": 2,
            "num_heads": 4,
            "attention_types": [[["global", "local"], 1]],
            "window_size": 128,
            "max_position_embeddings": 256,
            "bos_token_id": 0,
        },
        {},
    ),
    "longrope": (
        "phi3",
        {
            **_TWO_LAYERS,
            **_SPECIAL,
            "original_max_position_embeddings": 48,
            "rope_parameters": _LONGROPE,
        },
        {},
    ),
    "alibi": ("bloom", {"hidden_size": 32, "n_layer": 2, "n_head": 4}, {}),
    "t5": (
        "t5",
        {
            "d_model": 32,
            "d_kv": 8,
            "d_ff": 48,
            "num_layers": 2,
            "num_heads": 4,
            "decoder_start_token_id": 1,
            "pad_token_id": 1,
            "initializer_factor": 1.0,
        },
        {"after": "</s>"},
    ),
    "bart": (
        "bart",
        {
            "d_model": 32,
            **{f"{one}_{what}": n for one in ("encoder", "decoder") for what, n in _BART.items()},
            **_SPECIAL,
            "max_position_embeddings": 96,
            "decoder_start_token_id": 1,
            "forced_eos_token_id": 1,
            "init_std": 0.3,
        },
        {"before": "<s>", "after": "</s>"},
    ),
}
"""Name -> what it is called in config.json, what is particular to it, and to its tokenizer."""


def named(name: str) -> tuple[Any, Any]:
    import transformers

    kind, keys, of_tokenizer = NAMED[name]
    config = transformers.AutoConfig.for_model(kind, **{**_TINY, **keys})
    of_text = "Seq2SeqLM" if config.is_encoder_decoder else "CausalLM"
    model = getattr(transformers, f"AutoModelFor{of_text}").from_config(config)
    if name == "bart":
        model.generation_config.forced_bos_token_id = 0
        model.generation_config.num_beams = 4
    return model, tokenizer(**of_tokenizer)


_SHARED_KEYS = {"head_dim": 8, "num_key_value_heads": 2}
_ONE_OF_TWO = {"num_experts_per_tok": 1, "moe_intermediate_size": 16}
FAMILIES: dict[str, dict[str, Any]] = {
    # Rotated positions; keys shared by heads; experts; keys and values of different sizes.
    "qwen3": _SHARED_KEYS,
    "phi3": {},
    "gpt_neox": {},
    "qwen3_moe": {"num_experts": 2, **_ONE_OF_TWO},
    "deepseek_v3": {
        "n_routed_experts": 2,
        "n_group": 1,
        "topk_group": 1,
        "kv_lora_rank": 8,
        "q_lora_rank": 8,
        "qk_rope_head_dim": 8,
        "qk_nope_head_dim": 8,
        "v_head_dim": 8,
        "num_key_value_heads": 4,
        "first_k_dense_replace": 1,
        **_ONE_OF_TWO,
    },
    # Learned positions, which OPT counts from 2.
    "opt": {"word_embed_proj_dim": 32, "ffn_dim": 48},
    "biogpt": {},
    # Layers with a window beside others; attention in chunks.
    "gemma3_text": {**_SHARED_KEYS, "sliding_window": 24, "num_hidden_layers": 6},
    "llama4_text": {**_SHARED_KEYS, "attention_chunk_size": 24, "num_local_experts": 2},
    "gemma2": {**_SHARED_KEYS, "sliding_window": 24},
    "gemma": _SHARED_KEYS,
    "mistral": {"num_key_value_heads": 2, "sliding_window": None},
    "qwen2": {"num_key_value_heads": 2},
    # Attention of their own, or with sinks: read in plain rows.
    "gptj": {"rotary_dim": 8},
    "gpt_oss": {**_SHARED_KEYS, "num_local_experts": 2, **_ONE_OF_TWO},
    # Positions as distances in the row; states in place of keys.
    "mpt": {},
    "mamba": {"state_size": 8},
    "lfm2": {**_SHARED_KEYS, "layer_types": ["conv", "full_attention"]},
    "recurrent_gemma": {**_SHARED_KEYS, "lru_width": 32, "num_hidden_layers": 3},
}
"""Decoder-only models, by what they are called in config.json, and what is particular to them."""


def _of_family(name: str) -> tuple[Any, Any]:
    import transformers

    config = transformers.AutoConfig.for_model(
        name,
        **{
            "vocab_size": 400,
            "eos_token_id": 1,
            **{key: n for key, n in _TWO_LAYERS.items() if key != "num_key_value_heads"},
            **_SPECIAL,
            **FAMILIES[name],
        },
    )
    model = transformers.AutoModelForCausalLM.from_config(config)
    for weight in model.parameters():
        if weight.dim() > 1:
            weight.data.normal_(0, 0.3)
    return model, tokenizer(before="<s>")


ARCHITECTURES = {
    "llama_words": llama_words,
    "llama_unigram": llama_unigram,
    **{name: partial(named, name) for name in NAMED},
    **{name: partial(_of_family, name) for name in FAMILIES},
}


@pytest.fixture(scope="session")
def folder_of(tmp_path_factory):
    """Saves each architecture once, with random weights."""
    import torch

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


@pytest.fixture
def open_tiny(folder_of):
    def opened(name: str, **how: Any) -> TransformersBackend:
        return TransformersBackend(load_model(BackendOptions(model=str(folder_of(name)))), **how)

    return opened


@pytest.fixture
def copied(folder_of, tmp_path):
    """A copy of a saved architecture, without some of its files."""

    def copy(name: str, *without: str) -> Path:
        ignored = shutil.ignore_patterns(*(f"{start}*" for start in without))
        return Path(shutil.copytree(folder_of(name), tmp_path / "copy", ignore=ignored))

    return copy


@pytest.fixture
def sentence():
    """(seed, number of words) -> text."""
    return make_sentence


@pytest.fixture
def questions():
    """Prompts of different lengths, some with a common beginning; options share words."""

    def made(n: int) -> list[Score]:
        calls = []
        for i in range(n):
            prompt = make_sentence(i // 3, 5 + i % 4 * 6) + f" {WORDS[i % 15]}:"
            options = tuple(" " + make_sentence(100 + 7 * i + k // 2, 1 + k) for k in range(4))
            calls.append(Score(prompt, options, first_token=i % 5 == 4))
        return calls

    return made


@pytest.fixture
def reference():
    """Log probability of each token from `start` on, one unpadded forward."""

    def computed(backend: TransformersBackend, tokens: list[int], start: int) -> list[float]:
        import torch

        with torch.inference_mode():
            logits = backend._loaded.model(torch.tensor([tokens])).logits[0]
        found = torch.log_softmax(logits, dim=-1)
        return [float(found[i - 1, tokens[i]]) for i in range(start, len(tokens))]

    return computed
