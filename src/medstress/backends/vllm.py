"""vLLM's offline engine, with prefix caching.

The engine does its own batching and caching: it gets all calls together, those of an item one after
another, and finds shared prefixes in its cache. How often it does is read from its counters.
Letters are scored by the likeliest next tokens. Texts, and letters outside that list, are scored by
the log probabilities of the prompt.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from operator import itemgetter
from typing import Any, TypeAlias

from medstress.backends.models.model_files import count_parameters, find_model
from medstress.backends.models.prompt_tokens import PromptTokenizer, targets_of
from medstress.backends.models.token_tree import Target
from medstress.backends.options import BackendOptions
from medstress.backends.server.prefix_cache import HITS, QUERIES
from medstress.core.calls import (
    LENGTH,
    Backend,
    BackendTraits,
    Call,
    Failure,
    Generate,
    Generated,
    ModelIdentity,
    Origin,
    Reply,
    Score,
    Scored,
    Window,
)
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.core.hashing import content_hash, digest
from medstress.files.extras import compiler_needed, importing
from medstress.files.reading import loading
from medstress.option_letters import is_decided

_BATCH_SIZE = 256
_TOP = 20
"""Tokens requested first: the most that the engine gives by default."""

_CACHE_COUNTERS = {QUERIES: "prefix_cache_queries", HITS: "prefix_cache_hits"}

Tokens: TypeAlias = tuple[int, ...]


class VllmBackend(Backend):
    """Answers `generate` and `score` calls with an engine.

    Args:
        llm: a `vllm.LLM`.
        identity: covers weights, number format and library.
        parameters: the model's number of parameters, if counted.
        batch_size: the largest number of calls given to `answer` at once.
    """

    def __init__(
        self,
        llm: Any,
        identity: ModelIdentity,
        *,
        parameters: int | None = None,
        batch_size: int = _BATCH_SIZE,
    ) -> None:
        self.identity = identity
        self.traits = BackendTraits(
            calls=frozenset({"generate", "score"}),
            batch_size=batch_size,
            ahead=2,
            parameters=parameters,
            by_item=True,
        )
        self._llm = llm
        self._tokenizer = PromptTokenizer(llm.get_tokenizer(), identity.name, open_end=True)
        self._max_tokens = int(llm.llm_engine.model_config.max_model_len)
        self._counters = {"tokens_forwarded": 0, "tokens_naive": 0}

    @property
    def counters(self) -> dict[str, int]:
        """Tokens read by the model so far, the total length of all prompts and, as far as the
        engine counts them, tokens looked up in its prefix cache and found there."""
        return self._counters | self._prefix_cache()

    @property
    def window(self) -> Window:
        """The engine's longest sequence."""
        return Window(tokens=self._max_tokens, count=self._tokenizer.counts)

    def answer_for(self, calls: Sequence[Call], origins: Sequence[Origin]) -> list[Reply]:
        """Answer as `answer`; the engine gets the calls of an item one after another.

        It works through its queue in order, so that the blocks which an item's prompts share are
        still in its cache, however many items a batch mixes.
        """
        first: dict[str, int] = {}
        for place, origin in enumerate(origins):
            first.setdefault(origin.item, place)
        order = sorted(range(len(calls)), key=lambda place: first[origins[place].item])
        replies = self.answer([calls[place] for place in order])
        return [reply for _, reply in sorted(zip(order, replies, strict=True), key=itemgetter(0))]

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; each round of requests is one batch of the engine.

        Raises:
            UsageError: a prompt is a conversation, but the model has no chat template.
        """
        replies: dict[int, Reply] = {}
        prompts: dict[int, Tokens] = {}
        targets: dict[int, list[Target]] = {}
        for index, call in enumerate(calls):
            try:
                prompts[index], targets[index] = self._prepared(call)
            except PermanentBackendError as error:
                replies[index] = Failure(error=str(error))
        texts = {i: call for i, call in enumerate(calls) if isinstance(call, Generate)}
        self._generate({i: call for i, call in texts.items() if i in prompts}, prompts, replies)
        scored = {i: targets[i] for i in prompts if i not in texts}
        known = self._log_probs(
            [target for i in scored for target in scored[i]],
            {target for i in scored for target in scored[i] if _is_one_token(calls[i])},
        )
        for i, of_call in scored.items():
            self._counters["tokens_naive"] += sum(len(target.tokens) for target in of_call)
            replies[i] = Scored(
                log_probs=tuple(min(known[target], 0.0) for target in of_call),
                n_tokens=tuple(len(target.scored) for target in of_call),
                tokens_in=len(prompts[i]) + sum(len(target.scored) for target in of_call),
            )
        return [replies[index] for index in range(len(calls))]

    def close(self) -> None:
        """Drop the engine."""
        del self._llm

    def _prefix_cache(self) -> dict[str, int]:
        """Return the engine's own counts, in tokens (`LLM.get_metrics`, with log statistics on)."""
        read = getattr(self._llm, "get_metrics", None)
        counts = dict.fromkeys(_CACHE_COUNTERS, 0) if read else {}
        for metric in read() if read else ():
            if metric.name in counts:
                counts[metric.name] += int(metric.value)
        return {_CACHE_COUNTERS[name]: count for name, count in counts.items()}

    def _prepared(self, call: Call) -> tuple[Tokens, list[Target]]:
        if not isinstance(call, Score | Generate):
            raise PermanentBackendError(f"the vllm back end cannot answer {call.kind!r} calls")
        chat = not isinstance(call.prompt, str)
        text = self._tokenizer.text(call.prompt)
        endings = call.continuations if isinstance(call, Score) else ()
        prompt, *sequences = self._tokenizer.tokens(
            [text, *(text + ending for ending in endings)], chat=chat
        )
        if not prompt:
            raise PermanentBackendError(
                "the prompt is empty, and the model needs at least one token"
            )
        if isinstance(call, Generate):
            self._check_length(len(prompt) + call.decoding.max_new_tokens)
            return prompt, []
        targets = targets_of(prompt, sequences, first_token=call.first_token)
        if any(target.scored and target.start == 0 for target in targets):
            raise PermanentBackendError("a continuation changes the prompt's only token")
        # One more, because the engine always generates one token.
        self._check_length(max((len(target.tokens) for target in targets), default=0) + 1)
        return prompt, targets

    def _check_length(self, n_tokens: int) -> None:
        if n_tokens > self._max_tokens:
            raise PermanentBackendError(
                f"{n_tokens} tokens are more than the {self._max_tokens} tokens of context; "
                "shorten the prompt, or raise context_tokens as far as the model goes"
            )

    def _ask(self, prompts: Sequence[Tokens], settings: Sequence[dict[str, Any]]) -> list[Any]:
        """Run one batch of the engine; return one output per prompt, in order."""
        if not prompts:
            return []
        from vllm import SamplingParams

        outputs: list[Any] = self._llm.generate(
            [{"prompt_token_ids": list(prompt)} for prompt in prompts],
            [SamplingParams(**one) for one in settings],
            use_tqdm=False,
        )
        for prompt, output in zip(prompts, outputs, strict=True):
            kept = getattr(output, "num_cached_tokens", None) or 0
            self._counters["tokens_forwarded"] += len(prompt) - kept
        return outputs

    def _generate(
        self,
        calls: dict[int, Generate],
        prompts: dict[int, Tokens],
        replies: dict[int, Reply],
    ) -> None:
        settings = [
            {
                "max_tokens": call.decoding.max_new_tokens,
                "temperature": call.decoding.temperature,
                "seed": int.from_bytes(digest([call.canonical(), call.sample])[:4], "big") >> 1,
            }
            for call in calls.values()
        ]
        outputs = self._ask([prompts[index] for index in calls], settings)
        for index, output in zip(calls, outputs, strict=True):
            (completion,) = output.outputs
            # Other back ends stop once the option is decided; this engine continues.
            options = calls[index].options
            decided = bool(options) and is_decided(completion.text, options)
            cut = completion.finish_reason == LENGTH and not decided
            self._counters["tokens_naive"] += len(prompts[index])
            replies[index] = Generated(
                text=completion.text,
                finish_reason=LENGTH if cut else None,
                tokens_in=len(prompts[index]),
                tokens_out=len(completion.token_ids),
            )

    def _log_probs(self, targets: list[Target], letters: set[Target]) -> dict[Target, float]:
        """Return the sum over the scored tokens of each target, natural log."""
        known = {target: 0.0 for target in targets if not target.scored}
        short = [one for one in dict.fromkeys(targets) if one in letters and len(one.scored) == 1]
        contexts = list(dict.fromkeys(target.tokens[:-1] for target in short))
        next_token = {"max_tokens": 1, "temperature": 0.0, "logprobs": _TOP}
        outputs = self._ask(contexts, [next_token] * len(contexts))
        likeliest = dict(zip(contexts, outputs, strict=True))
        for target in short:
            listed = likeliest[target.tokens[:-1]].outputs[0].logprobs[0]
            if target.tokens[-1] in listed:
                known[target] = float(listed[target.tokens[-1]].logprob)
        # Unlisted tokens are scored as part of a prompt: exact, but without the prefix cache.
        rest = [target for target in dict.fromkeys(targets) if target not in known]
        echo = {"max_tokens": 1, "temperature": 0.0, "prompt_logprobs": 0}
        for target, output in zip(
            rest, self._ask([one.tokens for one in rest], [echo] * len(rest)), strict=True
        ):
            known[target] = sum(
                float(output.prompt_logprobs[place][target.tokens[place]].logprob)
                for place in range(target.start, len(target.tokens))
            )
        return known


def _is_one_token(call: Call) -> bool:
    return isinstance(call, Score) and call.first_token


def open_backend(options: BackendOptions) -> VllmBackend:
    """Start an engine with the model in the options: a folder or a hub id.

    Raises:
        UsageError: vllm is not installed, or the model cannot be found or loaded.
    """
    if find_spec("vllm") is None:
        if sys.platform != "linux":
            raise UsageError(
                "the vllm back end runs on Linux alone, where vLLM has wheels; here use backend = "
                '"transformers" or "llama_cpp", or a vLLM server elsewhere with backend = "openai"'
            ).with_command("medstress doctor")
        raise UsageError(
            "the vllm back end is not installed; install it, in an environment of its own, with: "
            "pip install 'medstress[vllm]'"
        )
    if options.model and options.model.endswith(".gguf"):
        raise UsageError(
            f"model {options.model!r}: the vllm back end reads folders and hub ids; for a .gguf "
            'file use backend = "llama_cpp" or "transformers"'
        )
    files = find_model(options)
    with importing("the vllm back end", "vllm"):
        import vllm

    with loading(
        lambda why: f"vLLM cannot load the model {options.model!r}: {why}{compiler_needed(why)}"
    ):
        llm = vllm.LLM(
            model=files.location,
            revision=files.revision,
            dtype=options.dtype,
            max_model_len=options.context_tokens,
            max_logprobs=_TOP,
            enable_prefix_caching=True,
            # Without statistics the engine counts no hits of its cache.
            disable_log_stats=False,
            seed=0,
        )
    parts = ["vllm", vllm.__version__, files.content, options.dtype]
    return VllmBackend(
        llm,
        ModelIdentity(name=str(options.model), hash=content_hash(parts)),
        parameters=None if files.revision else count_parameters(files.location),
        batch_size=options.batch_size or _BATCH_SIZE,
    )
