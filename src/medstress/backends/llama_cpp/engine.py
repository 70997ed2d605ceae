"""llama.cpp in this process, through the package xllamacpp."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Sequence
from http.client import HTTPConnection, HTTPException
from importlib.metadata import version
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any

from medstress.backends.options import BackendOptions
from medstress.core.calls import LENGTH, Decoding, Message
from medstress.core.errors import PermanentBackendError
from medstress.files.extras import importing, not_there
from medstress.files.reading import loading
from medstress.machine.cores import available_cores

_BLOCK = 16
"""Tokens read at once. llama.cpp uses different kernels for one token, a few, and 64 or more, so
its numbers depend on how many it reads together. Every prompt is therefore read in these blocks
from its beginning, and only complete blocks are reused: no number depends on other prompts."""


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
    for the tokenizer and the template; a random key keeps others out.

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

    def tokens(self, text: str, *, chat: bool) -> tuple[int, ...]:
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
        self,
        context: Sequence[int],
        decoding: Decoding,
        seed: int,
        is_over: Callable[[str], bool] | None = None,
    ) -> tuple[str, int, bool]:
        """Generate text with a temperature only: no top-k, no penalties.

        Returns:
            The text, which may stop once it `is_over`, its number of tokens,
            and whether it was truncated.
        """
        reply = self._complete(
            context,
            until=is_over,
            max_tokens=decoding.max_new_tokens,
            temperature=decoding.temperature,
            samplers=["temperature"],
            seed=seed,
        )
        return _continuation_of(reply, is_over)

    def rendered(self, messages: tuple[Message, ...]) -> str:
        """Return a conversation as llama.cpp's own template engine renders it."""
        turns = [{"role": one.role, "content": one.content} for one in messages]
        return str(self._ask("/apply-template", {"messages": turns})["prompt"])

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

    def _post(
        self,
        context: Sequence[int],
        *,
        cache: bool,
        until: Callable[[str], bool] | None = None,
        **how: Any,
    ) -> Any:
        body = {"prompt": list(context), "cache_prompt": cache, **how}
        reply = self._streamed(body, until) if until else self._server.handle_completions(body)
        if "error" in reply:
            raise PermanentBackendError(f"llama.cpp: {reply['error'].get('message')}")
        self.n_evaluated += int(reply["timings"]["prompt_n"])
        return reply

    def _streamed(self, body: dict[str, Any], until: Callable[[str], bool]) -> dict[str, Any]:
        """Stream a completion and stop once no more of its text is read."""
        texts: list[str] = []
        last: dict[str, Any] = {}
        ended: list[str | None] = [None]

        def take(chunk: Any) -> bool:
            for one in chunk if isinstance(chunk, list) else [chunk]:
                if "error" in one:
                    last["error"] = one["error"]
                    return True
                texts.extend(choice["text"] for choice in one["choices"])
                ended.extend(choice.get("finish_reason") for choice in one["choices"])
                last.update({key: one[key] for key in ("timings",) if key in one})
            return until("".join(texts))

        self._server.handle_completions({**body, "stream": True, "timings_per_token": True}, take)
        if "error" in last:
            return last
        n = last["timings"]["predicted_n"]
        text = "".join(texts)
        choice = {"text": text, "finish_reason": ended[-1]}
        return {**last, "choices": [choice], "usage": {"completion_tokens": n}}

    def _ask(self, path: str, body: dict[str, Any]) -> Any:
        connection = HTTPConnection(self._host, self._port, timeout=60)
        headers = {"Authorization": f"Bearer {self._key}", "Content-Type": "application/json"}
        try:
            connection.request("POST", path, json.dumps(body), headers)
            response = connection.getresponse()
            reply = json.loads(response.read())
        except (OSError, HTTPException, ValueError) as error:
            raise PermanentBackendError(f"llama.cpp does not answer {path}: {error}") from error
        finally:
            connection.close()
        if response.status != 200:
            message = reply.get("error", {}).get("message", response.status)
            raise PermanentBackendError(f"llama.cpp refuses {path}: {message}")
        return reply


def _continuation_of(reply: Any, is_over: Callable[[str], bool] | None) -> tuple[str, int, bool]:
    """Return text, number of tokens and whether it was truncated, from a completion."""
    (choice,) = reply["choices"]
    text = str(choice["text"])
    # Of a text that is over, the truncated rest would not have been read.
    is_cut = choice.get("finish_reason") == LENGTH and not (is_over and is_over(text))
    return text, int(reply["usage"]["completion_tokens"]), is_cut


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
    pairs = zip(blocks, context[:-1], strict=False)
    alike = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return alike // _BLOCK * _BLOCK


def _threads() -> int:
    """Return OMP_NUM_THREADS, or else the number of available cores.

    llama.cpp's threads wait for each other, so more threads than cores are far slower.
    """
    setting = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdecimal() and int(setting) else available_cores()
