"""Replies of a server with one thing wrong, to a run of two questions."""

import json
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from random import Random
from typing import Any

from medstress.backends.server import Patience

from .case import Case, command, questions
from .mutate import TEXTS, encoded, json_bytes, json_text, mutated

TOP = [
    {"token": " A", "logprob": -0.1, "bytes": [32, 65]},
    {"token": " B", "logprob": -2.5, "bytes": [32, 66]},
]
_CHOICE = {"index": 0, "finish_reason": "stop"}
_USAGE = {"prompt_tokens": 5, "completion_tokens": 1, "total_tokens": 6}
CHAT = {
    **{"id": "1", "object": "chat.completion", "created": 1, "model": "m", "usage": _USAGE},
    "choices": [
        {
            **_CHOICE,
            "message": {"role": "assistant", "content": "A", "refusal": None},
            "logprobs": {"content": [{**TOP[0], "top_logprobs": TOP}]},
        }
    ],
}
TEXT = {
    **{"id": "1", "object": "text_completion", "created": 1, "model": "m", "usage": _USAGE},
    "choices": [
        {
            **_CHOICE,
            "text": " A",
            "logprobs": {
                **{"tokens": [" A"], "token_logprobs": [-0.1], "text_offset": [0]},
                "top_logprobs": [{" A": -0.1, " B": -2.5}],
            },
        }
    ],
}
MODELS = {"object": "list", "data": [{"id": "m", "object": "model"}], "has_more": False}
STATUS = (200, 200, 201, 204, 301, 302, 307, 308, 400, 401, 403, 404, 408, 418, 429, 500, 503, 599)
HEADERS: tuple[tuple[str, str], ...] = (
    ("Content-Type", "text/html"),
    ("Content-Type", "application/json; charset=utf-16"),
    *(("Content-Encoding", how) for how in ("gzip", "deflate", "nonsense")),
    *(("Content-Length", length) for length in ("3", "-1", "x")),
    ("Transfer-Encoding", "chunked"),
    *(("Retry-After", after) for after in ("0", "-5", "x", "nan", "1e999")),
    *(("Location", where) for where in ("/elsewhere", "http://127.0.0.1:9/")),
    ("X-Long", "y" * 70_000),
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


def case(rng: Random) -> Case:
    """A reply."""
    whole = rng.choice((CHAT, TEXT))
    way = rng.choices(("json", "models", "bytes", "status", "header", "body"), (9, 1, 2, 3, 3, 2))[
        0
    ]
    headers = dict([rng.choice(HEADERS)])
    match way:
        case "json":
            name, changed = mutated(rng, whole)
            script = Script(body=json_bytes(changed))
        case "models":
            name, changed = mutated(rng, MODELS)
            script = Script(body=json_bytes(whole), models=json_bytes(changed))
        case "bytes":
            name, data = encoded(rng, json_text(whole))
            script = Script(body=data)
        case "status":
            name, changed = mutated(rng, {"error": {"message": "no", "type": "t", "code": "c"}})
            more = headers if rng.random() < 0.3 else {}
            script = Script(body=json_bytes(changed), status=rng.choice(STATUS), headers=more)
        case "header":
            name, data = str(headers)[:80], json_bytes(whole)
            if "deflate" in headers.values():
                data = zlib.compress(b" " * rng.choice((10, 20_000_000)) + data)
            script = Script(body=data, headers=headers)
        case _:
            name = rng.choice((*TEXTS, "null", "[]", "0", '"A"', "[" * 100_000, '{"a":' * 100_000))
            script = Script(body=name.encode("utf-8", "surrogatepass"))
    answer_by = rng.choice(("letter", "generate"))

    def write(folder: Path) -> Sequence[str]:
        serving = server()
        serving.script = script
        victim = {"backend": "openai", "base_url": serving.url, "model": "m"}
        return command({**questions(), "victim": [{**victim, "answer_by": answer_by}]})(folder)

    return Case(name=f"{way}: {name[:80]}", write=write)
