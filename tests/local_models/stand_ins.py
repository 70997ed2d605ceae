"""Stand-ins for what brings kernels of its own, on top of a tiny transformers model.

They have the names and shapes of the real interfaces, as far as those are used: the package `vllm`
(LLM, SamplingParams, RequestOutput, Logprob) and our `Engine` of llama.cpp.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from medstress.backends.llama_cpp.engine import shared_blocks
from medstress.core.calls import Decoding, Message


class _Tiny:
    """Greedy texts and log probabilities of a saved model."""

    def __init__(self, folder: str) -> None:
        from transformers import AutoModelForCausalLM, AutoTokenizer

        self.model = AutoModelForCausalLM.from_pretrained(folder, local_files_only=True).eval()
        self.tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)

    def log_probs(self, tokens: list[int]) -> Any:
        """Of the next token after each place, `(n_tokens, n_vocabulary)`."""
        import torch

        with torch.inference_mode():
            logits = self.model(torch.tensor([tokens])).logits[0]
        return torch.log_softmax(logits, dim=-1)

    def text_after(self, tokens: list[int], n: int) -> list[int]:
        made: list[int] = []
        for _ in range(n):
            made.append(int(self.log_probs([*tokens, *made])[-1].argmax()))
            if made[-1] == self.tokenizer.eos_token_id:
                break
        return made


@dataclass
class Logprob:
    """As vllm.logprobs.Logprob."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


@dataclass(kw_only=True)
class SamplingParams:
    """The fields of vllm.SamplingParams that are used; an unknown one is an error there too."""

    max_tokens: int | None = 16
    temperature: float = 1.0
    seed: int | None = None
    logprobs: int | None = None
    prompt_logprobs: int | None = None


class LLM:
    """As vllm.LLM: `generate` takes token prompts and one SamplingParams a prompt."""

    opened: dict[str, Any]
    asked: list[SamplingParams]

    def __init__(
        self,
        model: str,
        *,
        revision: str | None,
        dtype: str,
        max_model_len: int | None,
        max_logprobs: int,
        enable_prefix_caching: bool,
        disable_log_stats: bool,
        seed: int,
    ) -> None:
        if (Path(model) / "too-new").exists():
            raise ValueError("Model architectures ['New'] are not supported for now.\nSee more")
        self._tiny = _Tiny(model)
        self._max_logprobs = max_logprobs
        LLM.opened = {"enable_prefix_caching": enable_prefix_caching, "dtype": dtype}
        LLM.asked = []
        limit = max_model_len or self._tiny.model.config.max_position_embeddings
        self.llm_engine = SimpleNamespace(model_config=SimpleNamespace(max_model_len=limit))

    def get_tokenizer(self) -> Any:
        return self._tiny.tokenizer

    def generate(
        self,
        prompts: list[dict[str, list[int]]],
        sampling_params: list[SamplingParams],
        *,
        use_tqdm: bool,
    ) -> list[Any]:
        assert not use_tqdm
        assert len(prompts) == len(sampling_params)
        return [
            self._one(prompt["prompt_token_ids"], params)
            for prompt, params in zip(prompts, sampling_params, strict=True)
        ]

    def _one(self, tokens: list[int], params: SamplingParams) -> Any:
        assert len(tokens) < self.llm_engine.model_config.max_model_len
        LLM.asked.append(params)
        found = self._tiny.log_probs(tokens)
        made = self._tiny.text_after(tokens, params.max_tokens or 16)
        listed = None
        if params.logprobs is not None:
            assert params.logprobs <= self._max_logprobs
            top = found[-1].topk(params.logprobs)
            pairs = zip(top.indices.tolist(), top.values.tolist(), strict=True)
            listed = [{token: Logprob(value, rank) for rank, (token, value) in enumerate(pairs, 1)}]
        told = None
        if params.prompt_logprobs is not None:
            told = [
                None,
                *(
                    {token: Logprob(float(found[place - 1, token]))}
                    for place, token in enumerate(tokens)
                    if place
                ),
            ]
        text = self._tiny.tokenizer.decode(made, skip_special_tokens=True)
        ended = _finish_reason(made, params.max_tokens or 16)
        written = SimpleNamespace(text=text, token_ids=made, logprobs=listed, finish_reason=ended)
        return SimpleNamespace(outputs=[written], prompt_logprobs=told, num_cached_tokens=1)


def _finish_reason(made: list[int], most: int) -> str:
    """`length` where there are as many tokens as there may be and none of them is an end."""
    return "length" if len(made) == most and 1 not in made else "stop"


def vllm_module() -> ModuleType:
    """A module to put in the place of vllm."""
    module = ModuleType("vllm")
    module.__version__ = "0.0.stand-in"  # type: ignore[attr-defined]
    module.LLM, module.SamplingParams = LLM, SamplingParams  # type: ignore[attr-defined]
    return module


class LlamaEngine:
    """As medstress.backends.llama_cpp.engine.Engine, with the numbers of a saved model."""

    library = "stand-in"

    def __init__(self, folder: str) -> None:
        self._tiny = _Tiny(folder)
        self._blocks: tuple[int, ...] = ()
        self.n_evaluated = 0

    def tokens(self, text: str, *, chat: bool) -> tuple[int, ...]:
        return tuple(self._tiny.tokenizer(text, add_special_tokens=not chat)["input_ids"])

    def next_tokens(self, context: Sequence[int], n: int, *, reuse: bool) -> dict[int, float]:
        """Of all tokens: no fewer than were asked for."""
        shared = shared_blocks(self._blocks, context) if reuse else 0
        self._blocks = tuple(context[: len(context) // 16 * 16])
        self.n_evaluated += len(context) - shared
        return dict(enumerate(self._tiny.log_probs(list(context))[-1].tolist()))

    def continuation(
        self, context: Sequence[int], decoding: Decoding, seed: int, options: tuple[str, ...] = ()
    ) -> tuple[str, int, bool]:
        self._blocks = ()
        self.n_evaluated += len(context)
        made = self._tiny.text_after(list(context), decoding.max_new_tokens)
        text = self._tiny.tokenizer.decode(made, skip_special_tokens=True)
        return text, len(made), _finish_reason(made, decoding.max_new_tokens) == "length"

    def rendered(self, messages: tuple[Message, ...]) -> str:
        """As the template of the file that the tests write."""
        turns = "".join(f"<{one.role}>{one.content}" for one in messages)
        return f"{turns}<reply>"

    def close(self) -> None:
        """Nothing to drop."""


def installed(name: str, module: ModuleType) -> None:
    """Make `import name` find a stand-in; undone by the test that called."""
    from importlib.machinery import ModuleSpec

    module.__spec__ = ModuleSpec(name, None)
    sys.modules[name] = module
