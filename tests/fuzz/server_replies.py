"""Replies of a server with one thing wrong, to a run of two questions."""

import json
import threading
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

from medstress.backends.server import Patience

from . import experiments
from .case import DONE, FAILED_TRIALS, REFUSED, Case
from .mutate import TEXTS, encoded, json_text, mutated

CODES = frozenset({DONE, FAILED_TRIALS, REFUSED})
TOP = [
    {"token": " A", "logprob": -0.1, "bytes": [32, 65]},
    {"token": " B", "logprob": -2.5, "bytes": [32, 66]},
]
CHAT = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "finish_reason": "stop",
            "message": {"role": "assistant", "content": "A", "refusal": None},
            "logprobs": {"content": [{**TOP[0], "top_logprobs": TOP}]},
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}
TEXT = {
    "id": "1",
    "object": "text_completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "text": " A",
            "finish_reason": "stop",
            "logprobs": {
                "tokens": [" A"],
                "token_logprobs": [-0.1],
                "top_logprobs": [{" A": -0.1, " B": -2.5}],
                "text_offset": [0],
            },
        }
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6},
}
MODELS = {
    "object": "list",
    "data": [{"id": "m", "object": "model", "created": 1, "owned_by": "x"}],
    "has_more": False,
    "last_id": "m",
}
STATUS = (200, 200, 201, 204, 301, 302, 307, 308, 400, 401, 403, 404, 408, 418, 429, 500, 503, 599)
HEADERS: tuple[Mapping[str, str], ...] = (
    {"Content-Type": "text/html"},
    {"Content-Type": "application/json; charset=utf-16"},
    {"Content-Encoding": "gzip"},
    {"Content-Encoding": "deflate"},
    {"Content-Encoding": "nonsense"},
    {"Content-Length": "3"},
    {"Content-Length": "-1"},
    {"Content-Length": "x"},
    {"Transfer-Encoding": "chunked"},
    {"Retry-After": "0"},
    {"Retry-After": "-5"},
    {"Retry-After": "x"},
    {"Retry-After": "nan"},
    {"Retry-After": "1e999"},
    {"Retry-After": "-inf"},
    {"Location": "/elsewhere"},
    {"Location": "http://127.0.0.1:9/"},
    {"X-Long": "y" * 70_000},
    {"x-ratelimit-remaining-requests": "nan"},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Script:
    """What the server answers from now on."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    models: bytes = json.dumps(MODELS).encode()


class Server:
    """One for the whole worker; its script changes from case to case."""

    def __init__(self) -> None:
        self.script = Script(body=b"")
        scripted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_GET(self) -> None:
                self._say(scripted.script.models, 200, {})

            def do_POST(self) -> None:
                try:
                    self.rfile.read(int(self.headers["Content-Length"]))
                except (TypeError, ValueError):
                    return
                script = scripted.script
                self._say(script.body, script.status, script.headers)

            def _say(self, body: bytes, status: int, headers: Mapping[str, str]) -> None:
                self.send_response(status)
                said = {"Content-Type": "application/json", "Content-Length": str(len(body))}
                for name, value in {**said, **headers, "Connection": "close"}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body)
                self.close_connection = True

            def log_message(self, *_: Any) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http://127.0.0.1:{self._server.server_port}/v1"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()


_running: list[Server] = []


def server() -> Server:
    """The server of this process; from now on its clients give up at once."""
    if not _running:
        defaults = Patience.__init__.__kwdefaults__ or {}
        hurried = {"attempts": 2, "first": 1e-3, "longest": 1e-3, "answer": 2.0}
        defaults.update({key: hurried[key] for key in defaults if key in hurried})
        _running.append(Server())
    return _running[0]


def cases(rng: Random) -> Iterator[Case]:
    """Replies with one thing wrong, without end."""
    while True:
        name, script = rng.choices((_json, _encoded, _status, _header, _body), (10, 2, 3, 3, 2))[0](
            rng
        )
        yield Case(
            name=name, write=_writes(script, rng.choice(("letter", "generate"))), codes=CODES
        )


def _writes(script: Script, answer_by: str) -> Any:
    def write(folder: Path) -> Sequence[str]:
        serving = server()
        serving.script = script
        tables = experiments.questions()
        tables["victim"] = [
            {
                "backend": "openai",
                "base_url": serving.url,
                "model": "m",
                "answer_by": answer_by,
            }
        ]
        return experiments.command(tables)(folder)

    return write


def _whole(rng: Random) -> dict[str, Any]:
    return rng.choice((CHAT, TEXT))


def _json(rng: Random) -> tuple[str, Script]:
    if rng.random() < 0.15:
        name, changed = mutated(rng, MODELS)
        return f"models: {name}", Script(body=_bytes(_whole(rng)), models=_bytes(changed))
    name, changed = mutated(rng, _whole(rng))
    return name, Script(body=_bytes(changed))


def _bytes(value: Any) -> bytes:
    return json_text(value).encode("utf-8", "surrogatepass")


def _encoded(rng: Random) -> tuple[str, Script]:
    name, data = encoded(rng, json_text(_whole(rng)))
    return name, Script(body=data)


def _status(rng: Random) -> tuple[str, Script]:
    status = rng.choice(STATUS)
    error: Any = {"error": {"message": "no", "type": "t", "code": "c", "param": None}}
    name, changed = mutated(rng, error) if rng.random() < 0.7 else ("error", error)
    headers = rng.choice(HEADERS) if rng.random() < 0.3 else {}
    return f"status {status}, {name}", Script(body=_bytes(changed), status=status, headers=headers)


def _header(rng: Random) -> tuple[str, Script]:
    headers = rng.choice(HEADERS)
    body = _bytes(_whole(rng))
    if headers.get("Content-Encoding") == "deflate":
        body = zlib.compress(b" " * rng.choice((10, 20_000_000)) + body)
    return f"header {next(iter(headers.items()))}"[:80], Script(body=body, headers=headers)


def _body(rng: Random) -> tuple[str, Script]:
    text = rng.choice((*TEXTS, "null", "[]", "0", '"A"', "[" * 100_000, '{"a":' * 100_000))
    return f"body {text[:30]!r}", Script(body=text.encode("utf-8", "surrogatepass"))
