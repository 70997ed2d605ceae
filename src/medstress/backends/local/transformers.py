"""Local models through transformers: decoder-only, encoder-decoder, multiple-choice heads.

Scores of decoder-only models reuse kept keys and values (`kv_scoring`), so that a prefix shared by
prompts of different batches is read once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from medstress.backends.local.cross_encoder import CrossEncoderBackend
from medstress.backends.local.generation import Generator
from medstress.backends.local.multiple_choice_head import HeadBackend
from medstress.backends.local.pair_classifier import PairClassifierBackend
from medstress.backends.local.score_calls import (
    CausalScoreCalls,
    ScoreCalls,
    Seq2SeqScoreCalls,
    out_of_memory,
    too_long,
)
from medstress.backends.local.token_classification import TokenClassificationBackend
from medstress.backends.models.loaded_model import LoadedModel, load_model
from medstress.backends.models.out_of_memory import release_memory
from medstress.backends.models.prompt_tokens import PromptTokenizer
from medstress.backends.options import BackendOptions
from medstress.backends.shared_prefix.store import MAX_ENTRIES
from medstress.core.calls import (
    LENGTH,
    Backend,
    BackendTraits,
    Call,
    Failure,
    Generate,
    Generated,
    Reply,
    Score,
    Window,
)
from medstress.core.errors import PermanentBackendError
from medstress.machine.compute_thread import in_compute_thread

_BATCH_SIZE = 128


class TransformersBackend(Backend):
    """Answers `generate` and `score` calls with a model in this process.

    Args:
        loaded: the model.
        batch_size: the largest number of calls given to `answer` at once.
        sharing: False computes shared prefixes again for every text; slower, with the same numbers.
        kv_bytes: byte budget of the keys and values kept between batches; None for the default.
    """

    def __init__(
        self,
        loaded: LoadedModel,
        *,
        batch_size: int = _BATCH_SIZE,
        sharing: bool = True,
        kv_bytes: int | None = None,
    ) -> None:
        self.identity = loaded.identity
        self._loaded = loaded
        self._tokenizer = PromptTokenizer(
            loaded.tokenizer, loaded.identity.name, open_end=not loaded.encoder_decoder
        )
        self._generator = Generator(loaded, self._tokenizer.decoded)
        self._scores: ScoreCalls = (
            Seq2SeqScoreCalls(loaded, kv_bytes=kv_bytes)
            if loaded.encoder_decoder
            else CausalScoreCalls(
                loaded,
                sharing=sharing,
                kv_bytes=kv_bytes,
                kv_entries=max(MAX_ENTRIES, batch_size),
            )
        )
        self.traits = BackendTraits(
            calls=frozenset({"generate", "score"}),
            batch_size=batch_size,
            ahead=self._ahead(),
            in_turns=self._tokenizer.has_turns,
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
        texts = {index: call for index, call in enumerate(calls) if isinstance(call, Generate)}
        if scores:  # otherwise the scorer need not be made and checked
            replies.update(zip(scores, self._scores.answer(list(scores.values())), strict=True))
            self.traits = replace(self.traits, ahead=self._ahead())
        replies.update(zip(texts, self._generate(list(texts.values())), strict=True))
        return [replies[index] for index in range(len(calls))]

    def close(self) -> None:
        """Drop the model."""
        del self._loaded, self._generator, self._scores
        release_memory()

    def _generate(self, calls: Sequence[Generate]) -> list[Reply]:
        prepared = [self._prompt_tokens(call) for call in calls]
        ready = [index for index, one in enumerate(prepared) if not isinstance(one, Failure)]
        prompts = [one for one in prepared if not isinstance(one, Failure)]
        continuations = self._generator.continue_all([calls[index] for index in ready], prompts)
        replies: dict[int, Reply] = {
            index: one for index, one in enumerate(prepared) if isinstance(one, Failure)
        }
        for index, prompt, continuation in zip(ready, prompts, continuations, strict=True):
            replies[index] = (
                out_of_memory(len(prompt))
                if continuation is None
                else Generated(
                    text=self._tokenizer.decoded(continuation.tokens),
                    finish_reason=LENGTH if continuation.is_cut else None,
                    tokens_in=len(prompt),
                    tokens_out=len(continuation.tokens),
                )
            )
        return [replies[index] for index in range(len(calls))]

    def _prompt_tokens(self, call: Generate) -> tuple[int, ...] | Failure:
        try:
            text = self._tokenizer.text(call.prompt)
        except PermanentBackendError as error:
            return Failure(error=str(error))
        (prompt,) = self._tokenizer.tokens([text], chat=not isinstance(call.prompt, str))
        if not prompt:
            return Failure(error="the prompt is empty, and the model needs at least one token")
        # In a decoder-only model prompt and answer share the positions.
        new = call.decoding.max_new_tokens
        longest = max(len(prompt), new) if self._loaded.encoder_decoder else len(prompt) + new
        return too_long(longest, self._loaded.max_positions) or prompt


@in_compute_thread
def open_backend(
    options: BackendOptions,
) -> (
    TransformersBackend
    | HeadBackend
    | PairClassifierBackend
    | TokenClassificationBackend
    | CrossEncoderBackend
):
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
        return CrossEncoderBackend(loaded, batch_size=options.batch_size)
    if options.answer_by == "head":
        made = PairClassifierBackend if options.task == "classification" else HeadBackend
        return made(loaded, batch_size=options.batch_size)
    return TransformersBackend(
        loaded,
        batch_size=options.batch_size or _BATCH_SIZE,
        kv_bytes=options.kv_bytes,
    )
