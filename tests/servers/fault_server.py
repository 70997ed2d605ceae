"""An OpenAI-compatible server on this machine that misbehaves on command.

It knows no language: what it answers is a function of the prompt, so a test knows what must come.
Everything it was asked is in its log, with the time, to be held against a run's own ledger::

    with FaultServer(answer=lambda prompt: "B", faults=random_faults(0.2)) as server:
        ...  # base_url = server.url, model = server.model
        assert all(asked.fault is None for asked in server.log[-3:])

A test that uses it is skipped where the client is not installed.
"""

from __future__ import annotations

import io
import math
import random
import re
import socket
import socketserver
import ssl
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import orjson
import pytest

from medstress.core.hashing import digest
from medstress.core.items import LETTERS
from thinking import shown

FAULTS = (
    "late",
    "429",
    "429_retry_after",
    "500",
    "503",
    "drop",
    "half_json",
    "empty_choice",
    "refusal",
    "wrong_model",
    "huge",
)
"""What it does on command; `late` is an answer all the same, and so is a `refusal`."""

Faults: TypeAlias = Callable[["Asked"], str | None]
"""Decides what goes wrong with a request; None: nothing."""

HUGE = 10_000_000
_TOKEN = re.compile(r" ?[^\s]+|\s")


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """One request the model was asked something with."""

    at: float
    """When it was read, on the monotonic clock."""
    number: int
    """How many came before."""
    path: str
    """`/v1/completions` or `/v1/chat/completions`."""
    body: Mapping[str, Any]
    """The JSON that was sent."""
    fault: str | None = None
    """What went wrong on command."""
    tokens: int = 0
    """In and out; 0 where it was rejected."""

    @property
    def prompt(self) -> str:
        """The prompt as one text; of several the first."""
        if "messages" in self.body:
            return "\n\n".join(message["content"] for message in self.body["messages"])
        prompt = self.body.get("prompt", "")
        return str(prompt[0] if isinstance(prompt, list) else prompt)

    @property
    def answered(self) -> bool:
        """Whether an answer was sent that can be read."""
        return self.fault in (None, "late", "refusal")


def no_faults(asked: Asked) -> str | None:
    """Nothing goes wrong."""
    return None


def random_faults(share: float, faults: Sequence[str] = FAULTS, seed: int = 0) -> Faults:
    """A share of all requests goes wrong, each in one of the ways.

    >>> never = random_faults(0.0)
    >>> never(Asked(at=0.0, number=0, path="", body={})) is None
    True
    """
    source = random.Random(seed)

    def decide(asked: Asked) -> str | None:
        return source.choice(faults) if source.random() < share else None

    return decide


@dataclass(kw_only=True, eq=False)
class FaultServer:
    """The server; a context manager.

    Args:
        answer: the text it answers a prompt with, and for letters the likeliest one.
        faults: what goes wrong with which request.
        model: the only model it knows.
        key: where given, every request has to carry it.
        seconds: how long every answer takes.
        late: how much longer a late one takes.
        retry_after: what it asks to wait, where it does.
        top: the most alternatives it lists; 0: it ignores that it is asked for any.
        echo: whether it returns log probabilities of prompts.
        schemas: whether it takes a JSON schema; whether it keeps to it is up to `answer`.
        context: the most tokens of a prompt.
        temperature: the only temperature it takes, as some models that reason insist on theirs.
        thoughts: what it thinks before it answers a prompt, where it is one that reasons.
        apart: whether thoughts stand beside the text (`reasoning_content`), else in tags in it.
        cuts: whether thoughts and text are cut off at `max_tokens`, counted in words.
        answers_as: how it calls the model in its answers, where it is otherwise.
        lists: the names it lists, where it is not the model's alone; none: it cannot list.
        counts: whether it counts the words it writes, thoughts included; else one token an answer.
        tls: speak TLS with this.
        plant: status, JSON and maybe headers of the reply to a request; None: as the others say.

    Attributes:
        log: every request that asked the model something, in order.
    """

    answer: Callable[[str], str] = lambda prompt: "A"
    faults: Faults = no_faults
    model: str = "fault-model"
    key: str | None = None
    seconds: float = 0.0
    late: float = 0.05
    retry_after: float = 0.02
    top: int = 20
    echo: bool = True
    schemas: bool = True
    context: int | None = None
    temperature: float | None = None
    thoughts: Callable[[str], str] | None = None
    apart: bool = True
    cuts: bool = False
    answers_as: str | None = None
    lists: Sequence[str] | None = None
    counts: bool = False
    tls: ssl.SSLContext | None = None
    plant: Callable[[Asked], tuple[Any, ...] | None] = lambda asked: None

    def __post_init__(self) -> None:
        pytest.importorskip("openai", reason="needs the extra medstress[openai]")
        self.answers_as = self.answers_as or self.model
        self.lists = (self.model,) if self.lists is None else tuple(self.lists)
        self.log: list[Asked] = []
        self._lock = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)

    @property
    def url(self) -> str:
        """Its base address."""
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://127.0.0.1:{self._server.server_address[1]}/v1"

    def __enter__(self) -> FaultServer:
        thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def register(self, path: str, body: Mapping[str, Any]) -> Asked:
        """Log a request and decide what goes wrong with it."""
        with self._lock:
            now, number = time.monotonic(), len(self.log)
            asked = Asked(at=now, number=number, path=path, body=body)
            fault = self.faults(asked)
            rejected = fault in ("429", "429_retry_after")
            prompts = _prompts(body)
            tokens = 0 if rejected else n_tokens(prompts) + self._written(body, prompts)
            asked = Asked(at=now, number=number, path=path, body=body, fault=fault, tokens=tokens)
            self.log.append(asked)
        return asked

    def listing(self, path: str) -> tuple[int, bytes]:
        """Status and body for a request for its models."""
        if not self.lists or not urlsplit(path).path.endswith("/models"):
            return 404, _error("no such path", "not_found")
        rows = [{"id": each, "object": "model"} for each in self.lists]
        return 200, orjson.dumps({"object": "list", "data": rows})

    def _written(self, body: Mapping[str, Any], prompts: Sequence[str]) -> int:
        if not self.counts or not _most_new(body):
            return _most_new(body)
        thoughts = [self.thoughts(prompt) for prompt in prompts] if self.thoughts else []
        words = [self.answer(prompt) for prompt in prompts] + thoughts
        return min(sum(len(text.split()) for text in words), _most_new(body, counted=True))

    def reply(self, asked: Asked) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body for a request; of a `drop` nothing is sent."""
        if planted := self.plant(asked):
            status, body, *headers = planted
            return status, headers[0] if headers else {}, orjson.dumps(body)
        match asked.fault:
            case "429" | "429_retry_after":
                headers = {"Retry-After": f"{self.retry_after}"} if "_" in asked.fault else {}
                return 429, headers, _error("slow down", "rate_limit_exceeded")
            case "500" | "503":
                return int(asked.fault), {}, _error("something broke", "server_error")
            case "huge":
                return 200, {}, orjson.dumps({"model": self.model, "padding": "x" * HUGE})
        refused = self._refused(asked.body)
        if refused is not None:
            return refused[0], {}, refused[1]
        body = orjson.dumps(self._answer(asked))
        return 200, {}, body[: len(body) // 2] if asked.fault == "half_json" else body

    def _refused(self, body: Mapping[str, Any]) -> tuple[int, bytes] | None:
        if body.get("model") != self.model:
            return 404, _error("no such model", "model_not_found")
        n = n_tokens(_prompts(body)[:1])
        if self.context is not None and n > self.context:
            return 400, _error(
                f"This model's maximum context length is {self.context} tokens, but you asked for "
                f"{n}",
                "context_length_exceeded",
            )
        wanted = body.get("temperature", self.temperature)
        if self.temperature is not None and wanted != self.temperature:
            return 400, _error(
                f"Unsupported value: 'temperature' does not support {wanted:g} with this model. "
                f"Only the default ({self.temperature:g}) value is supported.",
                "unsupported_value",
            )
        if "response_format" in body and not self.schemas:
            return 400, _error("response_format is not supported", "invalid_request")
        wanted = body.get("top_logprobs", body.get("logprobs") or 0)
        if 0 < self.top < wanted:
            return 400, _error(f"at most {self.top} logprobs can be asked for", "invalid_request")
        return None

    def _answer(self, asked: Asked) -> dict[str, Any]:
        body = asked.body
        chat = asked.path.endswith("/chat/completions")
        prompts = _prompts(body)
        choices = [self._choice(body, prompt, chat, i) for i, prompt in enumerate(prompts)]
        if asked.fault == "empty_choice":
            choices = []
        if asked.fault == "refusal":
            choices = [_refusal(choice) for choice in choices]
        n = n_tokens(prompts)
        written = self._written(body, prompts)
        return {
            "id": f"fault-{asked.number}",
            "object": "chat.completion" if chat else "text_completion",
            "model": "another-model" if asked.fault == "wrong_model" else self.answers_as,
            "choices": choices,
            "usage": {
                "prompt_tokens": n,
                "completion_tokens": written,
                "total_tokens": n + written,
            },
        }

    def _choice(self, body: Mapping[str, Any], prompt: str, chat: bool, i: int) -> dict[str, Any]:
        thoughts = self.thoughts(prompt) if self.thoughts else None
        most = _most_new(body, counted=True) if self.cuts else None
        said = shown(self.answer(prompt), thoughts, most, apart=self.apart)
        text = (said.content or "") if _most_new(body) else ""
        n = min(int(body.get("top_logprobs", body.get("logprobs") or 0)), self.top)
        if chat:
            content = [_entry(text, n)] if body.get("logprobs") and self.top else None
            return {
                "index": i,
                "finish_reason": said.finish_reason,
                "message": {"role": "assistant", "refusal": None, **said.message},
                "logprobs": content and {"content": content},
            }
        logprobs: dict[str, Any] | None = None
        if body.get("echo") and self.echo and n:
            tokens = _TOKEN.findall(prompt)
            logprobs = {"tokens": tokens, "token_logprobs": _made_up(tokens)}
            text = prompt + text
        elif n:
            entry = _entry(" " + text, n)
            listed = {each["token"]: each["logprob"] for each in entry["top_logprobs"]}
            logprobs = {
                "tokens": [entry["token"]],
                "token_logprobs": [entry["logprob"]],
                "top_logprobs": [listed],
            }
        return {"index": i, "finish_reason": said.finish_reason, "text": text, "logprobs": logprobs}


class _Server(socketserver.ThreadingTCPServer):
    daemon_threads = True
    block_on_close = False
    allow_reuse_address = True
    request_queue_size = 512

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Clients come and go as they like."""


def _handler(server: FaultServer) -> type[socketserver.StreamRequestHandler]:
    class Handler(socketserver.StreamRequestHandler):
        disable_nagle_algorithm = True
        wbufsize = -1

        def handle(self) -> None:
            """Answer requests until the client goes, or one is dropped."""
            assert isinstance(self.rfile, io.BufferedReader)
            if not self.rfile.peek(1)[:1].isalpha():
                # No method of HTTP, as when a client begins with TLS: its line may never end.
                self._send(400, {"Connection": "close"}, b"")
                return
            while line := self.rfile.readline():
                method, path, _ = line.decode("latin-1").split(" ", 2)
                headers: dict[str, str] = {}
                while (line := self.rfile.readline()) not in (b"\r\n", b""):
                    name, _, value = line.decode("latin-1").partition(":")
                    headers[name.lower()] = value.strip()
                body = self.rfile.read(int(headers.get("content-length", "0")))
                if not self._answer(method, path, headers, body):
                    return

        def _answer(self, method: str, path: str, headers: dict[str, str], body: bytes) -> bool:
            if server.key is not None and headers.get("authorization") != f"Bearer {server.key}":
                shown = headers.get("authorization", "none")
                return self._send(401, {}, _error(f"wrong key: {shown}", "invalid_api_key"))
            if method == "GET":
                status, content = server.listing(path)
                return self._send(status, {}, content)
            asked = server.register(path, orjson.loads(body))
            time.sleep(server.seconds + (server.late if asked.fault == "late" else 0.0))
            if asked.fault == "drop":
                self.connection.shutdown(socket.SHUT_RDWR)
                return False
            return self._send(*server.reply(asked))

        def _send(self, status: int, headers: dict[str, str], body: bytes) -> bool:
            lines = [f"HTTP/1.1 {status} Said", "Content-Type: application/json"]
            lines += [f"{name}: {value}" for name, value in headers.items()]
            lines += [f"Content-Length: {len(body)}", "", ""]
            self.wfile.write("\r\n".join(lines).encode() + body)
            self.wfile.flush()
            return True

    return Handler


def _prompts(body: Mapping[str, Any]) -> list[str]:
    if "messages" in body:
        return ["\n\n".join(str(message["content"]) for message in body["messages"])]
    prompt = body.get("prompt", "")
    return list(prompt) if isinstance(prompt, list) else [str(prompt)]


def n_tokens(prompts: Sequence[str]) -> int:
    return sum(len(_TOKEN.findall(prompt)) for prompt in prompts)


def _most_new(body: Mapping[str, Any], *, counted: bool = False) -> int:
    """One new token, or none where none is wanted; or as many as are."""
    most = int(body.get("max_tokens", body.get("max_completion_tokens", 1)))
    return most if counted else int(most > 0)


def _entry(token: str, n: int) -> dict[str, Any]:
    """A token and its n likeliest alternatives, itself the first of them."""
    space = " " if token.startswith(" ") else ""
    others = [space + letter for letter in LETTERS if space + letter != token]
    others += [f"{space}word{i}" for i in range(n)]
    values = [math.log(0.6), *(math.log(0.2 / 2**i) for i in range(n))]
    listed = [
        {"token": name, "logprob": value}
        for name, value in zip([token, *others], values, strict=False)
    ]
    return {"token": token, "logprob": values[0], "top_logprobs": listed[:n]}


def _made_up(tokens: Sequence[str]) -> list[float | None]:
    """Log probabilities that depend on a token and all before it; none of the first."""
    values: list[float | None] = []
    for i in range(len(tokens)):
        values.append(-(digest(list(tokens[: i + 1]))[0] + 1) / 64 if i else None)
    return values


def _refusal(choice: dict[str, Any]) -> dict[str, Any]:
    said = "I cannot help with that."
    if "message" in choice:
        message = {"role": "assistant", "content": None, "refusal": said}
        return {**choice, "message": message, "logprobs": None}
    return {**choice, "text": said, "finish_reason": "content_filter", "logprobs": None}


def _error(message: str, code: str) -> bytes:
    return orjson.dumps({"error": {"message": message, "code": code, "type": code}})
