"""GGUF files through llama.cpp, in this process, with its quantised kernels.

Letters are scored by the log probabilities of the next token. Nothing is approximated: if a letter
is not among the likeliest tokens, the whole vocabulary is requested. llama.cpp gives no log
probabilities of a prompt, so texts cannot be scored.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from medstress.backends.llama_cpp.engine import Engine, open_engine
from medstress.backends.models.gguf_file import GgufFacts, read_facts, render_chat
from medstress.backends.models.model_files import find_gguf, remembered_hash
from medstress.backends.models.prompt_tokens import targets_of
from medstress.backends.models.token_tree import Target
from medstress.backends.options import BackendOptions
from medstress.core.calls import (
    LENGTH,
    Backend,
    BackendTraits,
    Call,
    Failure,
    Generate,
    Generated,
    ModelIdentity,
    Prompt,
    Reply,
    Score,
    Scored,
    Window,
)
from medstress.core.errors import PermanentBackendError, UsageError
from medstress.core.hashing import content_hash, digest

log = logging.getLogger(__name__)

_BATCH_SIZE = 64
_TOP = 100
"""Tokens requested first; they usually include the letters."""
_MAX_DEFAULT_CONTEXT = 8192
"""Upper limit of the default context, because its keys and values are allocated at the start."""


class LlamaCppBackend(Backend):
    """Answers `generate` and `score` calls (letters only) with a GGUF model.

    Args:
        engine: the model.
        facts: the header of its file.
        identity: covers file and library.
        n_context: the longest prompt with its answer, in tokens.
        batch_size: the largest number of calls given to `answer` at once.
    """

    def __init__(
        self,
        engine: Engine,
        facts: GgufFacts,
        identity: ModelIdentity,
        *,
        n_context: int,
        batch_size: int = _BATCH_SIZE,
    ) -> None:
        self.identity = identity
        self.traits = BackendTraits(
            calls=frozenset({"generate", "score"}),
            batch_size=batch_size,
            ahead=2,
            parameters=facts.parameters,
        )
        self._engine = engine
        self._facts = facts
        self._n_context = n_context
        self._n_naive = 0
        self._known: set[bytes] = set()
        self._template_checked = False

    @property
    def counters(self) -> dict[str, int]:
        """Tokens read by the model so far, and the total length of all prompts."""
        return {
            "tokens_forwarded": self._engine.n_evaluated,
            "tokens_naive": self._n_naive,
        }

    @property
    def window(self) -> Window:
        """The context that the engine was opened with."""
        return Window(tokens=self._n_context, count=self._counts)

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; prompts with a common beginning are read consecutively.

        Raises:
            UsageError: a call scores texts, or the file has no chat template.
        """
        replies: dict[int, Reply] = {}
        prepared: dict[int, tuple[tuple[int, ...], list[Target]]] = {}
        for index, call in enumerate(calls):
            try:
                prepared[index] = self._prepared(call)
            except PermanentBackendError as error:
                replies[index] = Failure(error=str(error))
        for index in sorted(prepared, key=lambda index: prepared[index][0]):
            prompt, targets = prepared[index]
            call = calls[index]
            try:
                if isinstance(call, Generate):
                    replies[index] = self._generated(call, prompt)
                else:
                    replies[index] = self._scored(prompt, targets)
            except PermanentBackendError as error:
                replies[index] = Failure(error=str(error))
        return [replies[index] for index in range(len(calls))]

    def close(self) -> None:
        """Drop the model."""
        self._engine.close()

    def _counts(self, prompts: Sequence[Prompt]) -> list[int]:
        return [
            len(self._engine.tokens(self._text(prompt), chat=not isinstance(prompt, str)))
            for prompt in prompts
        ]

    def _prepared(self, call: Call) -> tuple[tuple[int, ...], list[Target]]:
        """Return the tokens of a prompt and its targets; refuse a call that does not fit."""
        if isinstance(call, Score) and not call.first_token:
            raise UsageError(NO_TEXT)
        if not isinstance(call, Score | Generate):
            raise PermanentBackendError(f"the llama_cpp back end cannot answer {call.kind!r} calls")
        chat = not isinstance(call.prompt, str)
        text = self._text(call.prompt)
        prompt = self._engine.tokens(text, chat=chat)
        if not prompt:
            raise PermanentBackendError(
                "the prompt is empty, and the model needs at least one token"
            )
        if isinstance(call, Generate):
            self._check_length(len(prompt) + call.decoding.max_new_tokens)
            return prompt, []
        sequences = [self._engine.tokens(text + one, chat=chat) for one in call.continuations]
        targets = targets_of(prompt, sequences, first_token=True)
        if any(target.scored and target.start == 0 for target in targets):
            raise PermanentBackendError("a letter changes the prompt's only token")
        self._check_length(max((len(target.tokens) for target in targets), default=0))
        return prompt, targets

    def _check_length(self, n_tokens: int) -> None:
        if n_tokens > self._n_context:
            raise PermanentBackendError(
                f"{n_tokens} tokens are more than the {self._n_context} tokens of context; "
                "shorten the prompt, or raise context_tokens as far as the model goes"
            )

    def _text(self, prompt: Prompt) -> str:
        if isinstance(prompt, str):
            return prompt
        text = render_chat(self._facts, prompt, self.identity.name)
        if not self._template_checked:
            self._template_checked = True
            if self._engine.rendered(prompt) != text:
                log.warning(
                    "%s: llama.cpp renders a conversation differently from the file's template; "
                    "the file's template is used",
                    self.identity.name,
                )
        return text

    def _generated(self, call: Generate, prompt: tuple[int, ...]) -> Generated:
        seed = int.from_bytes(digest([call.canonical(), call.sample])[:4], "big") >> 1
        self._n_naive += len(prompt)
        text, n_tokens, cut = self._engine.continuation(prompt, call.decoding, seed, call.is_over)
        ended = LENGTH if cut else None
        return Generated(text=text, finish_reason=ended, tokens_in=len(prompt), tokens_out=n_tokens)

    def _scored(self, prompt: tuple[int, ...], targets: list[Target]) -> Scored:
        wanted: dict[tuple[int, ...], set[int]] = {}
        for target in targets:
            for place in range(target.start, len(target.tokens)):
                wanted.setdefault(target.tokens[:place], set()).add(target.tokens[place])
        scores = {context: self._log_probs(context, tokens) for context, tokens in wanted.items()}
        sums = [
            sum(
                scores[target.tokens[:place]][target.tokens[place]]
                for place in range(target.start, len(target.tokens))
            )
            for target in targets
        ]
        self._n_naive += sum(map(len, wanted))
        return Scored(
            log_probs=tuple(min(float(value), 0.0) for value in sums),
            n_tokens=tuple(len(target.scored) for target in targets),
            tokens_in=len(prompt) + sum(len(target.scored) for target in targets),
        )

    def _log_probs(self, context: tuple[int, ...], tokens: set[int]) -> dict[int, float]:
        """Return log probabilities of given next tokens; a repeated context is computed afresh."""
        key = digest(list(context))
        reuse = key not in self._known
        self._known.add(key)
        listed = self._engine.next_tokens(context, _TOP, reuse=reuse)
        if not tokens <= listed.keys():
            listed = self._engine.next_tokens(context, self._facts.n_vocabulary, reuse=True)
        if not tokens <= listed.keys():
            raise PermanentBackendError(
                f"{self._engine.library} does not give the log probability of every letter"
            )
        return {token: listed[token] for token in tokens}


NO_TEXT = (
    'llama.cpp gives no log probabilities of a prompt, so answer_by = "text" cannot be done with '
    'backend = "llama_cpp"; use "letter", "generate", or backend = "transformers", which reads '
    "GGUF files too"
)


def open_backend(options: BackendOptions) -> LlamaCppBackend:
    """Load the GGUF file or embedded model in the options.

    Raises:
        UsageError: a package is not installed, or the file cannot be found or read.
    """
    path = find_gguf(options)
    facts = read_facts(path)
    longest = facts.n_context or _MAX_DEFAULT_CONTEXT
    if options.context_tokens and options.context_tokens > longest:
        raise UsageError(
            f"context_tokens = {options.context_tokens}: the model {options.model!r} supports "
            f"at most {longest} tokens"
        )
    n_context = options.context_tokens or min(longest, _MAX_DEFAULT_CONTEXT)
    engine = open_engine(path, n_context, options)
    parts = ["llama_cpp", engine.library, "blocks of 16", remembered_hash(path)]
    return LlamaCppBackend(
        engine,
        facts,
        ModelIdentity(name=str(options.model), hash=content_hash(parts)),
        n_context=n_context,
        batch_size=options.batch_size or _BATCH_SIZE,
    )
