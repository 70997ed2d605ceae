"""Models of 1 to 8 billion parameters on a GPU: tokens and queries a second, utilisation.

The weights are random, since speed does not depend on them, and nothing is fetched. Every
synthetic item has a clean prompt and 8 candidates that depart from it at the changed name; all
are answered by letter. Three ways: *sharing* (`TransformersBackend`), *plain* (the same without
sharing), and *transformers* (its own padded batches, prompts sorted by length, scores of the
last position); beside them a bare loop that forwards random tokens in the best of a few batch
shapes. Tokens a second: those of the prompts that were answered, and those that really were
forwarded. Utilisation is model FLOPs of prefill (2 x parameters x tokens / seconds, the head's
for one token a prompt) per peak of the device; tokens are those that are needed, without padding,
so that waste shows:

    python benchmarks/gpu.py --shapes 1b 8b
    python benchmarks/gpu.py --peak-tflops 989      # bfloat16, dense, of an H100 or H200
    python benchmarks/gpu.py --tiny                 # smoke test: a tiny model on the CPU
"""

from __future__ import annotations

import argparse
import gc
import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch
import transformers
from baselines import finish, forward_seconds
from common import above_zero, at_least
from consumed import n_trie_nodes

from medstress.backends.local.transformers import TransformersBackend
from medstress.backends.models.loaded_model import LoadedModel
from medstress.core.calls import ModelIdentity, Score

SEVEN_B = {
    "vocab_size": 32_000,
    "hidden_size": 4096,
    "intermediate_size": 11_008,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 32,
    "max_position_embeddings": 4096,
}
LLAMA_3 = {**SEVEN_B, "vocab_size": 128_256, "num_key_value_heads": 8}
SHAPES = {
    "1b": {
        **LLAMA_3,
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
    },
    "3b": {
        **LLAMA_3,
        "hidden_size": 3072,
        "intermediate_size": 8192,
        "num_hidden_layers": 28,
        "num_attention_heads": 24,
    },
    "7b": SEVEN_B,
    "8b": {**LLAMA_3, "intermediate_size": 14_336},
}
"""Those of Llama 3.2 (1B, 3B), 1 (7B) and 3.1 (8B), with a head of its own each."""
TINY = {
    **SEVEN_B,
    "vocab_size": 512,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
BARE_SHAPES = ((8, 512), (32, 512), (64, 256), (256, 128))
"""Rows and tokens of the bare loop's batches; larger than on a CPU."""
SPECIAL = {"bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 1}
LETTERS = (" A", " B", " C", " D")


def word_tokenizer(n_words: int) -> Any:
    """One token a word: `w17` is token 17; so lengths are exactly what is asked for."""
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{i}": i for i in range(n_words - 5)}
    for special in ("A", "B", "C", "D", "?"):
        words[special] = len(words)
    made = Tokenizer(models.WordLevel(words, unk_token="?"))
    made.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return transformers.PreTrainedTokenizerFast(tokenizer_object=made, eos_token="?")


def random_model(shape: dict[str, Any], device: str, dtype: torch.dtype) -> LoadedModel:
    """A Llama of one shape with random weights, made on the device itself."""
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**shape, **SPECIAL)
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        with torch.device(device):
            model = transformers.LlamaForCausalLM(config)
    finally:
        torch.set_default_dtype(before)
    return LoadedModel(
        model=model.eval(),
        parameters=model.num_parameters(),
        tokenizer=word_tokenizer(shape["vocab_size"]),
        identity=ModelIdentity(name="random", hash="random"),
        encoder_decoder=False,
        max_positions=shape["max_position_embeddings"],
    )


PEAKS = {
    "NVIDIA H200": 989.0,
    "NVIDIA H100 80GB HBM3": 989.0,
    "NVIDIA A100-SXM4-80GB": 312.0,
    "NVIDIA A100-SXM4-40GB": 312.0,
}
"""Dense bfloat16 TFLOPS by NVIDIA's data sheets; cards of like names are slower."""


def item_calls(seed: int, given: argparse.Namespace, n_words: int) -> list[Score]:
    """The clean prompt of an item and its candidates: instruction, question, options, changed name.

    A quarter of the question, on average, comes after the name.
    """
    # Texts as seeds: of integers the sign is not looked at.
    rng, common = random.Random(f"item {seed}"), random.Random("instruction")

    def words(n: int, source: random.Random = rng) -> list[str]:
        return [f"w{source.randrange(n_words)}" for _ in range(n)]

    instruction = words(given.instruction, common)
    n_after = max(rng.randrange(given.question // 2), 1)
    before, after = words(given.question - n_after), words(n_after)
    names = [words(rng.randint(2, 6)) for _ in range(given.candidates + 1)]
    texts = [" ".join([*instruction, *before, *name, *after]) for name in names]
    return [Score(text, LETTERS, first_token=True) for text in texts]


def by_backend(backend: TransformersBackend, items: Sequence[Sequence[Score]]) -> None:
    """Clean prompts of some items, then their candidates, as a run hands them over."""
    for start in range(0, len(items), 8):
        some = items[start : start + 8]
        backend.answer([calls[0] for calls in some])
        candidates = [call for calls in some for call in calls[1:]]
        for first in range(0, len(candidates), backend.traits.batch_size):
            backend.answer(candidates[first : first + backend.traits.batch_size])


def by_transformers(loaded: LoadedModel, prompts: Sequence[Sequence[int]], size: int) -> None:
    """Padded batches of prompts sorted by length; the log probabilities of the last position."""
    ordered = sorted(prompts, key=len)
    for start in range(0, len(ordered), size):
        batch = ordered[start : start + size]
        longest = max(map(len, batch))
        tokens = [[1] * (longest - len(prompt)) + list(prompt) for prompt in batch]
        mask = [[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in batch]
        with torch.inference_mode():
            loaded.model(
                input_ids=torch.tensor(tokens, device=loaded.device),
                attention_mask=torch.tensor(mask, device=loaded.device),
                use_cache=False,
                logits_to_keep=1,
            ).logits.float().log_softmax(-1).cpu()


def seconds_of(run: Callable[[], None], device: str) -> float:
    """Wall seconds, all of the device's work included."""
    finish(device)
    started = time.perf_counter()
    run()
    finish(device)
    return time.perf_counter() - started


def bare_loop(loaded: LoadedModel, shapes: Sequence[tuple[int, int]]) -> dict[str, Any]:
    """Tokens a second of forwards alone, of the fastest shape; each is tried three times."""
    rates = {
        shape: max(1.0 / forward_seconds(loaded, shape, 1) for _ in range(3)) for shape in shapes
    }
    best = max(rates, key=lambda shape: rates[shape])
    return {"bare_tokens_per_second": round(rates[best], 1), "bare_shape": list(best)}


def measure(given: argparse.Namespace, device: str, shape: dict[str, Any]) -> dict[str, Any]:
    """Our ways and transformers on the same items, each warmed up on other ones."""
    loaded = random_model(shape, device, torch.float32 if given.tiny else torch.bfloat16)
    n_words = shape["vocab_size"] - 5
    items = [item_calls(seed, given, n_words) for seed in range(given.items)]
    warm = [item_calls(-2 - seed, given, n_words) for seed in range(8)]

    def tokens(of: Sequence[Sequence[Score]]) -> list[list[int]]:
        return [loaded.tokenizer(call.prompt)["input_ids"] for calls in of for call in calls]

    # Opened here: each checks itself when first asked, which is no part of the work.
    sharing = TransformersBackend(loaded, batch_size=given.batch)
    plain = TransformersBackend(loaded, batch_size=given.batch, sharing=False)
    ways: dict[str, Callable[[Sequence[Sequence[Score]]], None]] = {
        "sharing": lambda of: by_backend(sharing, of),
        "plain": lambda of: by_backend(plain, of),
        "transformers": lambda of: by_transformers(loaded, tokens(of), given.batch),
    }
    seconds = {}
    before = 0
    for name, way in ways.items():
        way(warm)
        before = before or sharing.counters["tokens_forwarded"]
        seconds[name] = seconds_of(lambda way=way: way(items), device)  # type: ignore[misc]
    prompts = tokens(items)
    forwarded = sharing.counters["tokens_forwarded"] - before
    unique = sum(n_trie_nodes([tuple(t) for t in tokens([calls])]) for calls in items)
    found = {
        "device": torch.cuda.get_device_name() if device == "cuda" else "cpu",
        "parameters": sum(p.numel() for p in loaded.model.parameters()),
        "dtype": str(loaded.model.dtype).removeprefix("torch."),
        "sharing_path": sharing.path,
        "items": given.items,
        "queries": len(prompts),
        "tokens_of_all_prompts": sum(map(len, prompts)),
        "tokens_unique": unique,
        "tokens_forwarded": forwarded,
        # Fewer than the items' own where they share the instruction; never more than needed.
        **results(seconds, prompts, min(unique, forwarded), loaded, given.peak_tflops),
        **bare_loop(loaded, ((4, 32),) if given.tiny else BARE_SHAPES),
    }
    rate = forwarded / seconds["sharing"]
    found["sharing_forwarded_per_second"] = round(rate, 1)
    found["bare_per_sharing"] = round(found["bare_tokens_per_second"] / rate, 3)
    return found


def results(
    seconds: dict[str, float],
    prompts: Sequence[Sequence[int]],
    read: int,
    loaded: LoadedModel,
    peak: float | None,
) -> dict[str, Any]:
    """Rates, utilisation and ratios.

    Sharing is credited with what it had to read only: what it saved is no work.
    """
    # Reading a token's embedding is a look-up, no product; the head is for one place a prompt.
    embedding = loaded.model.get_input_embeddings().weight.numel()
    head = loaded.model.get_output_embeddings().weight.numel()
    parameters = sum(p.numel() for p in loaded.model.parameters()) - embedding - head
    n_all = sum(map(len, prompts))
    useful = {"sharing": read, "plain": n_all, "transformers": n_all}
    flops = {
        name: 2 * (parameters * useful[name] + head * len(prompts)) / spent
        for name, spent in seconds.items()
    }
    found: dict[str, Any] = {}
    for name, spent in seconds.items():
        found[f"{name}_seconds"] = round(spent, 3)
        found[f"{name}_queries_per_second"] = round(len(prompts) / spent, 2)
        found[f"{name}_tokens_per_second"] = round(n_all / spent, 1)
        found[f"{name}_tflops"] = float(f"{flops[name] / 1e12:.3g}")
        if peak:
            found[f"{name}_utilisation"] = round(flops[name] / 1e12 / peak, 3)
    found["sharing_times_plain"] = round(seconds["plain"] / seconds["sharing"], 2)
    found["sharing_times_transformers"] = round(seconds["transformers"] / seconds["sharing"], 2)
    return found


def main() -> int:
    """Print one JSON line a shape."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["1b", "8b"])
    parser.add_argument("--items", type=at_least(1), default=64)
    parser.add_argument("--candidates", type=at_least(1), default=8)
    parser.add_argument(
        "--instruction", type=at_least(0), default=60, help="tokens all prompts begin with"
    )
    parser.add_argument(
        "--question", type=at_least(2), default=200, help="tokens of question and options"
    )
    parser.add_argument("--batch", type=at_least(1), default=128, help="prompts of a batch")
    parser.add_argument(
        "--peak-tflops",
        type=above_zero,
        help="of the device in bfloat16, for the utilisation; known for " + ", ".join(PEAKS),
    )
    parser.add_argument("--tiny", action="store_true", help="a tiny model on the CPU")
    given = parser.parse_args()
    if not given.tiny and not torch.cuda.is_available():
        print("no CUDA device is visible to torch; --tiny runs a smoke test", file=sys.stderr)
        return 2
    if not given.tiny and given.peak_tflops is None:
        given.peak_tflops = PEAKS.get(torch.cuda.get_device_name())
    for shape in (TINY,) if given.tiny else map(SHAPES.__getitem__, given.shapes):
        found = measure(given, "cpu" if given.tiny else "cuda", shape)
        gc.collect()
        torch.cuda.empty_cache()  # the next shape takes what is free
        print(json.dumps(found), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
