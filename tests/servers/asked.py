"""Ask an ASGI application in this process, as a browser on the same machine would."""

import asyncio
import json
from typing import Any

HOST = "127.0.0.1:8000"


def ask(
    app: Any, path: str, body: Any = None, *, raw: bytes | None = None, **headers: str
) -> tuple[int, str]:
    """Return status and text; with a body it is a POST of JSON.

    Args:
        app: the application.
        path: secret included, and a query behind a question mark.
        body: what to send as JSON.
        raw: sent in its place.
        headers: in place of the usual ones; an underscore stands for a hyphen.
    """
    path, _, query = path.partition("?")
    content = raw if raw is not None else b"" if body is None else json.dumps(body).encode()
    sent = {"host": HOST, "origin": f"http://{HOST}", "content-type": "application/json"}
    sent |= {name.replace("_", "-"): value for name, value in headers.items()}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "GET" if body is None and raw is None else "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": query.encode(),
        "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in sent.items()],
        "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 8000),
    }
    told: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": content, "more_body": False}

    async def send(message: dict[str, Any]) -> None:
        told.append(message)

    asyncio.run(app(scope, receive, send))
    return told[0]["status"], b"".join(each.get("body", b"") for each in told[1:]).decode()
