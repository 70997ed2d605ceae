"""The two packages that bring llama.cpp into this process, behind one small interface."""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Sequence
from http.client import HTTPConnection, HTTPException
from importlib.metadata import version
from importlib.util import find_spec
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

from medstress.backends.options import BackendOptions
from medstress.calls import LENGTH, Decoding, Message
from medstress.errors import PermanentBackendError, UsageError
from medstress.input_files import loading
from medstress.option_letters import is_decided

_BLOCK = 16
"""Tokens read at once. llama.cpp's numbers depend on how many tokens it reads together (it has
other kernels for one token than for a few, and for 64 or more), so every prompt is read in these
blocks from its beginning, and only whole blocks are reused: no number depends on other prompts."""


class Engine(Protocol):
    """A GGUF model that llama.cpp runs."""

    library: str
    """The package and its version."""
    n_evaluated: int
    """Tokens the model has read so far; less than were sent where prompts begin alike."""

    def tokens(self, text: str, *, chat: bool) -> tuple[int, ...]:
        """Tokens of a text; `chat` says that special tokens are written in it already."""

    def next_tokens(self, context: Sequence[int], n: int, *, reuse: bool) -> dict[int, float]:
        """Natural log probabilities of at least the `n` likeliest tokens after a context.

        With `reuse` the blocks that the last context has in common with this one are not read
        again; the numbers are the same.
        """

    def continuation(
        self,
        context: Sequence[int],
        decoding: Decoding,
        seed: int,
        options: tuple[str, ...] = (),
    ) -> tuple[str, int, bool]:
        """A text that goes on from a context, how many tokens it has, and whether it was cut off.

        It may end where one of the `options` is decided upon.
        """

    def rendered(self, messages: tuple[Message, ...]) -> str | None:
        """The conversation as the library itself would render it; None where it does not."""

    def close(self) -> None:
        """Drop the model."""


def open_engine(path: Path, n_context: int, options: BackendOptions) -> Engine:
    """Load a GGUF file with the package that is there; xllamacpp where both are.

    Raises:
        UsageError: neither is installed, or the file cannot be loaded.
    """
    kinds: tuple[tuple[str, Any], ...] = (("xllamacpp", Xllamacpp), ("llama_cpp", LlamaCppPython))
    kind = next((kind for name, kind in kinds if find_spec(name) is not None), None)
    if kind is None:
        raise UsageError(
            "the llama_cpp back end is not installed; install it with: "
            "pip install 'medstress[llama-cpp]' (or have llama-cpp-python)"
        )
    with loading(
        lambda why: (
            f"llama.cpp cannot load {path} ({why}): the file is damaged, newer than the installed "
            "package, or needs more memory than is free (a smaller context_tokens needs less)"
        )
    ):
        engine: Engine = kind(path, n_context, options)
    return engine


class Xllamacpp:
    """llama.cpp's server inside this process.

    Prompts go in by function calls. The server also listens on a loopback port, which only the
    tokenizer and the template are asked through here; a random key keeps others out.

    Args:
        path: the GGUF file.
        n_context: tokens of the longest prompt with its answer.
        options: `device` is read.
    """

    def __init__(self, path: Path, n_context: int, options: BackendOptions) -> None:
        import xllamacpp

        self.library = f"xllamacpp {version('xllamacpp')}"
        self.n_evaluated = 0
        self._blocks: tuple[int, ...] = ()
        self._key = secrets.token_urlsafe(24)
        params = xllamacpp.CommonParams()
        params.model.path = str(path)
        params.n_ctx = n_context
        # One after the other: neighbours share their beginning, and no answer depends on others.
        params.n_parallel = 1
        params.n_ubatch = _BLOCK
        # States of before would be restored in places that are no ends of blocks.
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
        """Tokens of a text."""
        found = self._ask(
            "/tokenize", {"content": text, "add_special": not chat, "parse_special": True}
        )
        return tuple(found["tokens"])

    def next_tokens(self, context: Sequence[int], n: int, *, reuse: bool) -> dict[int, float]:
        """Log probabilities of the likeliest next tokens, before any sampling rule."""
        found = self._complete(context, max_tokens=1, temperature=0, logprobs=n, cache=reuse)
        listed = found["choices"][0]["logprobs"]["content"][0]["top_logprobs"]
        return {int(one["id"]): float(one["logprob"]) for one in listed}

    def continuation(
        self,
        context: Sequence[int],
        decoding: Decoding,
        seed: int,
        options: tuple[str, ...] = (),
    ) -> tuple[str, int, bool]:
        """Generate with nothing but the temperature: no top-k, no penalties."""
        found = self._complete(
            context,
            until=options,
            max_tokens=decoding.max_new_tokens,
            temperature=decoding.temperature,
            samplers=["temperature"],
            seed=seed,
        )
        return _written(found, options)

    def rendered(self, messages: tuple[Message, ...]) -> str | None:
        """The conversation as llama.cpp's own template engine renders it."""
        turns = [{"role": one.role, "content": one.content} for one in messages]
        return str(self._ask("/apply-template", {"messages": turns})["prompt"])

    def close(self) -> None:
        """Stop the server and drop the model."""
        del self._server

    def _complete(self, context: Sequence[int], *, cache: bool = True, **how: Any) -> Any:
        n_shared = shared_blocks(self._blocks, context) if cache else 0
        self._blocks = ()
        if n_shared:
            # The library goes on where two prompts part. One that parts at a block's end comes in
            # between, so that this one goes on there.
            other = context[n_shared] - 1 if context[n_shared] else 1
            self._post([*context[:n_shared], other], cache=True, max_tokens=1, temperature=0)
        found = self._post(context, cache=n_shared > 0, **how)
        if n_shared and found["timings"]["prompt_n"] != len(context) - n_shared:
            found = self._post(context, cache=False, **how)
        self._blocks = tuple(context[: len(context) // _BLOCK * _BLOCK])
        return found

    def _post(
        self, context: Sequence[int], *, cache: bool, until: tuple[str, ...] = (), **how: Any
    ) -> Any:
        body = {"prompt": list(context), "cache_prompt": cache, **how}
        found = self._streamed(body, until) if until else self._server.handle_completions(body)
        if "error" in found:
            raise PermanentBackendError(f"llama.cpp: {found['error'].get('message')}")
        self.n_evaluated += int(found["timings"]["prompt_n"])
        return found

    def _streamed(self, body: dict[str, Any], options: tuple[str, ...]) -> dict[str, Any]:
        """A completion that ends where one of the options is decided upon."""
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
            return is_decided("".join(texts), options)

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
            reply = connection.getresponse()
            found = json.loads(reply.read())
        except (OSError, HTTPException, ValueError) as error:
            raise PermanentBackendError(f"llama.cpp does not answer {path}: {error}") from error
        finally:
            connection.close()
        if reply.status != 200:
            message = found.get("error", {}).get("message", reply.status)
            raise PermanentBackendError(f"llama.cpp refuses {path}: {message}")
        return found


class LlamaCppPython:
    """llama-cpp-python: the same library, compiled by the user.

    Args:
        path: the GGUF file.
        n_context: tokens of the longest prompt with its answer.
        options: `device` is read.
    """

    def __init__(self, path: Path, n_context: int, options: BackendOptions) -> None:
        import llama_cpp

        self.library = f"llama-cpp-python {llama_cpp.__version__}"
        self.n_evaluated = 0
        self._module = llama_cpp
        self._model = llama_cpp.Llama(
            model_path=str(path),
            n_ctx=n_context,
            n_gpu_layers=0 if options.device == "cpu" else -1,
            n_batch=_BLOCK,
            n_ubatch=_BLOCK,
            n_threads=_threads(),
            n_threads_batch=_threads(),
            verbose=False,
        )
        self._read: tuple[int, ...] = ()

    def tokens(self, text: str, *, chat: bool) -> tuple[int, ...]:
        """Tokens of a text."""
        return tuple(self._model.tokenize(text.encode("utf-8"), add_bos=not chat, special=True))

    def next_tokens(self, context: Sequence[int], n: int, *, reuse: bool) -> dict[int, float]:
        """Log probabilities of all tokens: the library gives the logits at once."""
        import numpy as np

        shared = shared_blocks(self._read, context) if reuse else 0
        # What is kept after this place is dropped by the library before it reads on.
        self._model.n_tokens = shared
        self._model.eval(list(context[shared:]))
        self._read = tuple(context[: len(context) // _BLOCK * _BLOCK])
        self.n_evaluated += len(context) - shared
        pointer = self._module.llama_get_logits_ith(self._model.ctx, -1)
        logits = np.ctypeslib.as_array(pointer, shape=(self._model.n_vocab(),)).astype(np.float64)
        top = logits.max()
        found = logits - (top + np.log(np.exp(logits - top).sum()))
        return dict(enumerate(found.tolist()))

    def continuation(
        self,
        context: Sequence[int],
        decoding: Decoding,
        seed: int,
        options: tuple[str, ...] = (),
    ) -> tuple[str, int, bool]:
        """Generate with nothing but the temperature: no top-k, no penalties; to its end."""
        self._read = ()
        self._model.reset()  # it would go on in the middle of a block
        found = self._model.create_completion(
            list(context),
            max_tokens=decoding.max_new_tokens,
            temperature=decoding.temperature,
            top_k=0,
            top_p=1.0,
            min_p=0.0,
            repeat_penalty=1.0,
            seed=seed,
        )
        self.n_evaluated += len(context)
        return _written(found, options)

    def rendered(self, messages: tuple[Message, ...]) -> str | None:
        """None: it renders only on its way to an answer."""
        return None

    def close(self) -> None:
        """Drop the model."""
        self._model.close()


def _written(found: Any, options: tuple[str, ...]) -> tuple[str, int, bool]:
    """Text, number of tokens and whether it was cut off, of a completion."""
    (choice,) = found["choices"]
    text = str(choice["text"])
    # Where the option is decided, nothing that was cut off would have changed it.
    decided = bool(options) and is_decided(text, options)
    is_cut = choice.get("finish_reason") == LENGTH and not decided
    return text, int(found["usage"]["completion_tokens"]), is_cut


def shared_blocks(blocks: Sequence[int], context: Sequence[int]) -> int:
    """Tokens of the whole blocks at the beginning of a context that were read before.

    The last token is read in any case: what comes after it is wanted.

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
    """As many as there are cores, or as OMP_NUM_THREADS says.

    llama.cpp's threads wait for each other: more of them than cores is far slower.
    """
    told = os.environ.get("OMP_NUM_THREADS", "")
    return int(told) if told.isdecimal() and int(told) else len(os.sched_getaffinity(0))
