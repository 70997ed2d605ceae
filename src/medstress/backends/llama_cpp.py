"""GGUF files through llama.cpp, in this process, with its quantised kernels.

Letters are scored by the log probabilities of the next token. Nothing is approximated: if a letter
is not among the likeliest tokens, the whole vocabulary is requested. llama.cpp gives no log
probabilities of a prompt, so texts cannot be scored.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from medstress.backends.local.files import GgufFacts, find_gguf, read_facts, remembered_hash
from medstress.backends.local.tokens import Target, Tokens, shared_length, surely_fits, targets_of
from medstress.backends.options import BackendOptions
from medstress.backends.threads import available_cores
from medstress.backends.turns import ChatTemplate
from medstress.core.calls import (
    LENGTH,
    Backend,
    BackendTraits,
    Call,
    Decoding,
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
from medstress.core.extras import importing, not_there
from medstress.core.hashing import content_hash, digest
from medstress.core.reading import loading
from medstress.tasks.victim import NO_TEXT

_BATCH_SIZE = 64
_TOP = 100
"""Tokens requested first; they usually include the letters."""
_MAX_DEFAULT_CONTEXT = 8192
"""Upper limit of the default context, because its keys and values are allocated at the start."""
_BLOCK = 16
"""Tokens read at once. llama.cpp uses different kernels for one token, a few, and 64 or more, so
its numbers depend on how many it reads together. Every prompt is therefore read in these blocks
from its beginning, and only complete blocks are reused: no number depends on other prompts."""


class _TooLongError(PermanentBackendError):
    """A call that is longer than the context."""


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
        special = {"bos_token": facts.start, "eos_token": facts.end}
        self._template = ChatTemplate(facts.template, special, identity.name)
        self._n_context = n_context
        self._n_naive = 0
        self._kept_keys: set[bytes] = set()

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

    def too_long(self, calls: Sequence[Call]) -> list[str | None]:
        """As the engine counts."""
        return [
            None if surely_fits(call, self._n_context) else self._excess(call) for call in calls
        ]

    def _excess(self, call: Call) -> str | None:
        try:
            self._prepared(call)
        except PermanentBackendError as error:
            return str(error) if isinstance(error, _TooLongError) else None
        return None

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call, in order; prompts with a common beginning are read consecutively.

        Raises:
            UsageError: a call scores texts, or the file has no chat template.
        """
        replies: dict[int, Reply] = {}
        prepared: dict[int, tuple[Tokens, list[Target]]] = {}
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

    def _prepared(self, call: Call) -> tuple[Tokens, list[Target]]:
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
            raise _TooLongError(
                f"{n_tokens} tokens are more than the {self._n_context} tokens of context; "
                "shorten the prompt, or raise context_tokens as far as the model goes"
            )

    def _text(self, prompt: Prompt) -> str:
        if isinstance(prompt, str):
            return prompt
        return self._template.text(prompt)

    def _generated(self, call: Generate, prompt: Tokens) -> Generated:
        seed = int.from_bytes(digest([call.canonical(), call.sample])[:4], "big") >> 1
        self._n_naive += len(prompt)
        text, n_tokens, cut = self._engine.continuation(prompt, call.decoding, seed)
        # Of a text that is over, no more would have been read.
        ended = LENGTH if cut and not (call.is_over and call.is_over(text)) else None
        return Generated(text=text, finish_reason=ended, tokens_in=len(prompt), tokens_out=n_tokens)

    def _scored(self, prompt: Tokens, targets: list[Target]) -> Scored:
        wanted: dict[Tokens, set[int]] = {}
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

    def _log_probs(self, context: Tokens, tokens: set[int]) -> dict[int, float]:
        """Return log probabilities of given next tokens; a repeated context is computed afresh."""
        key = digest(list(context))
        reuse = key not in self._kept_keys
        self._kept_keys.add(key)
        listed = self._engine.next_tokens(context, _TOP, reuse=reuse)
        if not tokens <= listed.keys():
            listed = self._engine.next_tokens(context, self._facts.n_vocabulary, reuse=True)
        if not tokens <= listed.keys():
            raise PermanentBackendError(
                f"{self._engine.library} does not give the log probability of every letter"
            )
        return {token: listed[token] for token in tokens}


def open_engine(path: Path, n_context: int, options: BackendOptions) -> Engine:
    """Load a GGUF file.

    Raises:
        UsageError: xllamacpp is not installed, or the file cannot be loaded.
    """
    if find_spec("xllamacpp") is None:
        raise not_there("the llama_cpp back end", "llama-cpp", "xllamacpp")
    with importing("the llama_cpp back end", "llama-cpp"):
        import xllamacpp
    del xllamacpp
    with loading(
        lambda why: (
            f"llama.cpp cannot load {path} ({why}): the file is damaged, newer than the installed "
            "package, or needs more memory than is free (a smaller context_tokens needs less)"
        )
    ):
        return Engine(path, n_context, options)


class Engine:
    """A GGUF model that llama.cpp's server runs inside this process.

    Prompts are passed by function calls. The server also listens on a loopback port, used here only
    for the tokenizer; a random key keeps others out.

    Args:
        path: the GGUF file.
        n_context: the longest prompt with its answer, in tokens.
        options: only `device` is used.
    """

    def __init__(self, path: Path, n_context: int, options: BackendOptions) -> None:
        import xllamacpp

        self.library = f"xllamacpp {version('xllamacpp')}"
        """The package and its version."""
        self.n_evaluated = 0
        """Tokens read by the model so far; fewer than sent if prompts share their beginnings."""
        self._blocks: tuple[int, ...] = ()
        self._key = secrets.token_urlsafe(24)
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = n_context
        # One at a time: consecutive prompts share beginnings, and no answer depends on others.
        params.n_parallel = 1
        params.n_ubatch = _BLOCK
        # A prompt cache would restore states at places that are not ends of blocks.
        params.cache_ram_mib = 0
        params.port = 0
        params.api_keys = [self._key]
        params.ui = False
        params.endpoint_slots = False
        params.verbosity = -1
        for threads in (params.cpuparams, params.cpuparams_batch):
            threads.n_threads = _threads()
            threads.poll = 0
        if options.device == "cpu":
            params.n_gpu_layers = 0
        self._server = xllamacpp.Server(params)
        self._host, _, port = self._server.listening_address.partition("//")[2].rpartition(":")
        self._port = int(port)

    def tokens(self, text: str, *, chat: bool) -> Tokens:
        """Return the tokens of a text; with `chat` it already contains its special tokens."""
        reply = self._ask(
            "/tokenize", {"content": text, "add_special": not chat, "parse_special": True}
        )
        return tuple(reply["tokens"])

    def next_tokens(self, context: Sequence[int], n: int, *, reuse: bool) -> dict[int, float]:
        """Return natural log probabilities of the `n` likeliest next tokens, before sampling rules.

        With `reuse`, blocks shared with the last context are not read again; the numbers are the
        same.
        """
        reply = self._complete(context, max_tokens=1, temperature=0, logprobs=n, cache=reuse)
        listed = reply["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return {int(one["id"]): float(one["logprob"]) for one in listed}

    def continuation(
        self, context: Sequence[int], decoding: Decoding, seed: int
    ) -> tuple[str, int, bool]:
        """Generate text with a temperature only: no top-k, no penalties.

        Returns:
            The text, its number of tokens, and whether it was truncated.
        """
        reply = self._complete(
            context,
            max_tokens=decoding.max_new_tokens,
            temperature=decoding.temperature,
            samplers=["temperature"],
            seed=seed,
        )
        (choice,) = reply["choices"]
        is_cut = choice.get("finish_reason") == LENGTH
        return str(choice["text"]), int(reply["usage"]["completion_tokens"]), is_cut

    def close(self) -> None:
        """Stop the server and drop the model."""
        del self._server

    def _complete(self, context: Sequence[int], *, cache: bool = True, **how: Any) -> Any:
        n_shared = shared_blocks(self._blocks, context) if cache else 0
        self._blocks = ()
        if n_shared:
            # The library reuses a prompt up to the first difference. A prompt that differs exactly
            # at the end of a block goes first, so that this one continues from there.
            other = context[n_shared] - 1 if context[n_shared] else 1
            self._post([*context[:n_shared], other], cache=True, max_tokens=1, temperature=0)
        reply = self._post(context, cache=n_shared > 0, **how)
        if n_shared and reply["timings"]["prompt_n"] != len(context) - n_shared:
            reply = self._post(context, cache=False, **how)
        self._blocks = tuple(context[: len(context) // _BLOCK * _BLOCK])
        return reply

    def _post(self, context: Sequence[int], *, cache: bool, **how: Any) -> Any:
        body = {"prompt": list(context), "cache_prompt": cache, **how}
        reply = self._server.handle_completions(body)
        if "error" in reply:
            raise PermanentBackendError(f"llama.cpp: {reply['error'].get('message')}")
        self.n_evaluated += int(reply["timings"]["prompt_n"])
        return reply

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        connection = HTTPConnection(self._host, self._port, timeout=60)
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            reply = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as error:
            raise PermanentBackendError(f"llama.cpp does not answer {path}: {error}") from error
        finally:
            connection.close()
        if response.status != 200:
            raise PermanentBackendError(f"llama.cpp refuses {path}: {reply.get('error')}")
        return reply


def shared_blocks(blocks: Sequence[int], context: Sequence[int]) -> int:
    """Return how many leading tokens of a context, in complete blocks, were read before.

    The last token is always read again, because the token after it is wanted.

    >>> shared_blocks(range(32), range(40))
    32
    >>> shared_blocks(range(32), [*range(20), 7, 7])
    16
    >>> shared_blocks(range(32), range(32))
    16
    """
    return shared_length(tuple(blocks), tuple(context[:-1])) // _BLOCK * _BLOCK


def _threads() -> int:
    """Return OMP_NUM_THREADS, or else the number of available cores.

    llama.cpp's threads wait for each other, so more threads than cores are far slower.
    """
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdecimal() and int(setting) else available_cores()


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
