"""Language models through transformers: scores of continuations, and text, greedy or sampled."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from medstress.backends.local.batches import in_batches, release_memory
from medstress.backends.local.encoders import PairBackend, TokenClassificationBackend
from medstress.backends.local.loading import LoadedModel, load_model
from medstress.backends.local.prefix import MAX_ENTRIES
from medstress.backends.local.scores import CausalScores, ScoreCalls, Seq2SeqScores
from medstress.backends.local.tokens import (
    PromptTokenizer,
    Tokens,
    TooLong,
    out_of_memory,
    surely_fits,
    too_long,
)
from medstress.backends.options import BackendOptions
from medstress.core.calls import (
    LENGTH,
    Backend,
    BackendTraits,
    Call,
    Decoding,
    Failure,
    Generate,
    Generated,
    Reply,
    Score,
    Window,
)
from medstress.core.errors import PermanentBackendError
from medstress.core.hashing import digest
from medstress.entities.processor import in_compute_thread

_BATCH_SIZE = 128
_MAX_TOKENS = {"cpu": 4096, "cuda": 65536}
"""The most tokens of a batch that generates, new ones included; limits the key-value cache."""


class TransformersBackend(Backend):
    """Answers `generate` and `score` calls with a model in this process.

    Args:
        loaded: the model.
        batch_size: the largest number of calls given to `answer` at once; None for the default.
        sharing: False computes shared prefixes again for every text; slower, with the same numbers.
        kv_bytes: byte budget of the keys and values kept between batches; None for the default.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        batch_size: int | None = None,
        sharing: bool = True,
        kv_bytes: int | None = None,
    ) -> None:
        batch_size = batch_size or _BATCH_SIZE
        self.identity = loaded.identity
        self._loaded = loaded
        self._tokenizer = PromptTokenizer(
            loaded.tokenizer, loaded.identity.name, open_end=not loaded.encoder_decoder
        )
        self._ends = loaded.model.generation_config.eos_token_id or []
        self._scores: ScoreCalls = (
            Seq2SeqScores(loaded, self._tokenizer)
            if loaded.encoder_decoder
            else CausalScores(
                loaded,
                self._tokenizer,
                sharing=sharing,
                kv_bytes=kv_bytes,
                kv_entries=max(MAX_ENTRIES, batch_size),
            )
        )
        self.traits = BackendTraits(
            calls=frozenset({"generate", "score"}),
            batch_size=batch_size,
            ahead=self._ahead(),
            in_turns=bool(self._tokenizer.template),
            parameters=loaded.parameters,
        )

    def _ahead(self) -> int:
        """Return how many calls to compute early: few if shared prefixes are kept anyway."""
        # Without kept prefixes it pays to compute candidates in the batch that reads their prefix.
        return 2 if self._scores.keeps else 8

    @property
    def path(self) -> str:
        """`tree` if `Score` computes shared prefixes once, otherwise `plain`."""
        return self._scores.path

    @property
    def counters(self) -> dict[str, int]:
        """Tokens of all `Score` calls so far: `tokens_forwarded` and `tokens_naive`."""
        return dict(self._scores.counters)

    @property
    def window(self) -> Window | None:
        """The model's positions."""
        most = self._loaded.max_positions
        return None if most is None else Window(tokens=most, count=self._tokenizer.counts)

    @in_compute_thread
    def too_long(self, calls: Sequence[Call]) -> list[str | None]:
        """As the tokenizer counts; texts with few characters are not tokenised."""
        most = self._loaded.max_positions
        if most is None:
            return [None] * len(calls)
        long = {i: call for i, call in enumerate(calls) if not surely_fits(call, most)}
        scores = {i: call for i, call in long.items() if isinstance(call, Score)}
        prepared: dict[int, object] = {
            i: self._prompt_tokens(call) for i, call in long.items() if isinstance(call, Generate)
        }
        prepared |= zip(scores, self._scores.prepare(list(scores.values())), strict=True)
        of_calls = (prepared.get(i) for i in range(len(calls)))
        return [one.error if isinstance(one, TooLong) else None for one in of_calls]

    def token_starts(self, text: str) -> list[int] | None:
        """As the tokenizer says, if it knows."""
        return self._tokenizer.starts(text)

    @in_compute_thread
    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order.

        Raises:
            UsageError: a prompt is a conversation, but the model has no chat template.
        """
        replies: dict[int, Reply] = {
            index: Failure(error=f"the transformers back end cannot answer {call.kind!r} calls")
            for index, call in enumerate(calls)
        }
        scores = {index: call for index, call in enumerate(calls) if isinstance(call, Score)}
        if scores:  # otherwise the scorer need not be made and checked
            replies.update(zip(scores, self._scores.answer(list(scores.values())), strict=True))
            self.traits = replace(self.traits, ahead=self._ahead())
        by_decoding: dict[Decoding, list[tuple[int, Generate, Tokens]]] = {}
        for index, call in enumerate(calls):
            if isinstance(call, Generate):
                prompt = self._prompt_tokens(call)
                if isinstance(prompt, Failure):
                    replies[index] = prompt
                else:
                    by_decoding.setdefault(call.decoding, []).append((index, call, prompt))
        for decoding, chosen in by_decoding.items():
            texts = in_batches(
                [(call, prompt) for _, call, prompt in chosen],
                [len(prompt) + decoding.max_new_tokens for _, _, prompt in chosen],
                partial(self._generated, decoding=decoding),
                max_tokens=_MAX_TOKENS["cuda" if self._loaded.device.type == "cuda" else "cpu"],
            )
            for (index, _, prompt), text in zip(chosen, texts, strict=True):
                replies[index] = text or out_of_memory(len(prompt))
        return [replies[index] for index in range(len(calls))]

    def close(self) -> None:
        """Drop the model."""
        del self._loaded, self._scores
        release_memory()

    def _prompt_tokens(self, call: Generate) -> Tokens | Failure:
        try:
            text = self._tokenizer.template.text(call.prompt)
        except PermanentBackendError as error:
            return Failure(error=str(error))
        (prompt,) = self._tokenizer.tokens([text], chat=not isinstance(call.prompt, str))
        if not prompt:
            return Failure(error="the prompt is empty, and the model needs at least one token")
        # In a decoder-only model prompt and answer share the positions.
        new = call.decoding.max_new_tokens
        longest = max(len(prompt), new) if self._loaded.encoder_decoder else len(prompt) + new
        return too_long(longest, self._loaded.max_positions) or prompt

    def _generated(
        self, work: Sequence[tuple[Generate, Tokens]], decoding: Decoding
    ) -> list[Generated]:
        """Continue prompts of one decoding together."""
        import torch
        from transformers import LogitsProcessorList, StoppingCriteriaList

        device = self._loaded.device
        longest = max(len(prompt) for _, prompt in work)
        # Rows of a decoder are padded on the left, because it continues at the right end; those of
        # an encoder on the right, because it may count positions from the left.
        at_left = not self._loaded.encoder_decoder
        ids, mask = [], []
        for _, prompt in work:
            fill, ones = [0] * (longest - len(prompt)), [1] * len(prompt)
            ids.append([*fill, *prompt] if at_left else [*prompt, *fill])
            mask.append(fill + ones if at_left else ones + fill)
        # Rows begin with the prompt (decoder) or with the start token (encoder-decoder).
        skip = longest if at_left else 1
        noise = []
        if decoding.temperature > 0:
            # From a call's content and sample index, the same in every process.
            keys = [digest([call.canonical(), call.sample]) for call, _ in work]
            seeds = [int.from_bytes(key[:8], "big", signed=True) for key in keys]
            noise.append(_GumbelNoise(decoding.temperature, seeds))
        watch = _UntilOver([call.is_over for call, _ in work], self._tokenizer, skip)
        with torch.inference_mode():
            rows = self._loaded.model.generate(
                input_ids=torch.tensor(ids, device=device),
                attention_mask=torch.tensor(mask, device=device),
                do_sample=False,
                max_new_tokens=decoding.max_new_tokens,
                logits_processor=LogitsProcessorList(noise),
                stopping_criteria=StoppingCriteriaList([watch]),
            ).tolist()
        replies = []
        for (_, prompt), row, over in zip(work, rows, watch.lengths, strict=True):
            tokens = row[skip:][:over]
            stops = [place for place, token in enumerate(tokens) if token in self._ends]
            tokens = tokens[: stops[0] + 1] if stops else tokens
            replies.append(
                Generated(
                    text=self._tokenizer.decoded(tokens),
                    finish_reason=None if stops or over is not None else LENGTH,
                    tokens_in=len(prompt),
                    tokens_out=len(tokens),
                )
            )
        return replies


class _UntilOver:
    """Stopping criterion: ends a row once no more of its text is read.

    Args:
        is_over: says so of each row's text so far; None for a row that is wanted whole.
        tokenizer: turns tokens into text.
        skip: number of places in a row before its new tokens.

    Attributes:
        lengths: new tokens of each row when it was over; None before.
    """

    def __init__(
        self,
        is_over: Sequence[Callable[[str], bool] | None],
        tokenizer: PromptTokenizer,
        skip: int,
    ) -> None:
        self.lengths: list[int | None] = [None] * len(is_over)
        self._is_over = is_over
        self._tokenizer = tokenizer
        self._skip = skip

    def __call__(self, input_ids: Any, scores: Any, **_: Any) -> Any:
        import torch

        if any(self._is_over):
            new = input_ids[:, self._skip :].tolist()
            for row, (tokens, is_over) in enumerate(zip(new, self._is_over, strict=True)):
                text = self._tokenizer.decoded(tokens)
                if is_over and self.lengths[row] is None and is_over(text):
                    self.lengths[row] = len(tokens)
        done = [length is not None for length in self.lengths]
        return torch.tensor(done, device=input_ids.device)


class _GumbelNoise:
    """Logits processor that turns the arg max into a sample from softmax(logits / temperature).

    The arg max of logits / temperature + Gumbel noise is such a sample. Unlike torch's multinomial,
    this gives each row its own random stream, so that a sample does not depend on the other calls
    of the batch.
    """

    def __init__(self, temperature: float, seeds: Sequence[int]) -> None:
        import torch

        self._temperature = temperature
        # On the CPU for every device, so that a seed gives the same sample everywhere.
        self._streams = [torch.Generator().manual_seed(seed) for seed in seeds]

    def __call__(self, input_ids: Any, scores: Any) -> Any:
        import torch

        exponential = torch.empty(scores.shape, dtype=torch.float32)
        for row, stream in zip(exponential, self._streams, strict=True):
            row.exponential_(generator=stream)
        return scores.float() / self._temperature - exponential.log().to(scores.device)


@in_compute_thread
def open_backend(options: BackendOptions) -> Backend:
    """Load the model in the options: a folder, a hub id, a `.gguf` file or an embedded name.

    `answer_by` = `head` needs a model with a multiple-choice head, NER a token classifier, and
    sentence pairs a cross-encoder, whose output is the score.

    Raises:
        UsageError: torch or transformers is not installed, or the model cannot be found or read.
    """
    loaded = load_model(options)
    if options.task == "ner":
        return TokenClassificationBackend(loaded, batch_size=options.batch_size)
    if options.task == "similarity":
        return PairBackend(loaded, "compare", batch_size=options.batch_size)
    if options.answer_by == "head":
        kind = "classify" if options.task == "classification" else "rank"
        return PairBackend(loaded, kind, batch_size=options.batch_size)
    return TransformersBackend(loaded, batch_size=options.batch_size)
