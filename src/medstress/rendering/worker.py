"""The process that renders templates: a JSON request per line in, a JSON reply per line out.

It runs as a plain script, so that it loads nothing but Jinja.
"""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress
from datetime import datetime
from functools import lru_cache
from typing import Any

LARGEST = 1 << 20
"""Most characters of one rendering."""
MEMORY = 1 << 29
"""Bytes of address space of this process, on systems with such a limit."""
_SECONDS = 30
"""Time after which the process ends itself: its parent would have killed it earlier, if alive."""
_PLAIN = (str, bool, int, float, type(None))


class TooLarge(Exception):
    """A template produced more text than `LARGEST`."""


def answer(request: dict[str, Any]) -> dict[str, Any]:
    """Render a template or list the names it reads; errors are returned as `error`, `reason`."""
    from jinja2 import TemplateSyntaxError

    try:
        if request["do"] == "name":
            return {"names": _undeclared(request["source"])}
        return _rendered(request["source"], request["values"], chat=request["chat"])
    except TemplateSyntaxError as error:
        return {"error": "syntax", "reason": _reason(error)}
    except (TooLarge, MemoryError, OverflowError):
        return {"error": "too_large"}
    except Exception as error:  # noqa: BLE001 - a template is code and can raise anything
        return {"error": "values", "reason": _reason(error)}


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1_000]


def _undeclared(source: str) -> list[str]:
    from jinja2 import meta

    return sorted(
        meta.find_undeclared_variables(_compiled(source, False).environment.parse(source))
    )


def _rendered(source: str, values: dict[str, Any], *, chat: bool) -> dict[str, Any]:
    template = _compiled(source, chat)
    context = template.new_context(values)
    pieces, n = [], 0
    for piece in template.root_render_func(context):
        n += len(piece)
        if n > LARGEST:
            raise TooLarge
        pieces.append(piece)
    exports = {k: v for k, v in context.get_exported().items() if isinstance(v, _PLAIN)}
    return {"text": "".join(pieces), "exports": exports}


@lru_cache(maxsize=64)
def _compiled(source: str, chat: bool) -> Any:
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if not chat:
        environment = ImmutableSandboxedEnvironment(
            undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
        )
        return environment.from_string(source)
    # The environment of transformers, which chat templates are written for.
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols", _generation()]
    )
    environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
    environment.filters["tojson"] = _json
    return environment.from_string(source)


def _generation() -> Any:
    """Return the tag `generation`, which marks the model's text; here it only renders its body."""
    from jinja2.ext import Extension

    class Generation(Extension):
        tags = {"generation"}  # noqa: RUF012 - as Jinja declares it

        def parse(self, parser: Any) -> Any:
            next(parser.stream)
            return parser.parse_statements(("name:endgeneration",), drop_needle=True)

    return Generation


def _refuse(reason: str) -> None:
    import jinja2

    raise jinja2.TemplateError(reason)


def _now(form: str) -> str:
    return datetime.now().strftime(form)


def _json(value: Any, **how: Any) -> str:
    """Dump JSON without escaping HTML characters, unlike Jinja's own filter."""
    return json.dumps(value, **{"ensure_ascii": False, **how})


def main() -> None:
    """Answer requests until there are no more."""
    try:
        import resource
    except ImportError:
        pass  # Windows has no such limit; time and output are still bounded
    else:
        # macOS may refuse a limit below what it has reserved for the process.
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    for line in sys.stdin.buffer:
        if hasattr(signal, "alarm"):
            signal.alarm(_SECONDS)
        reply = json.dumps(answer(json.loads(line)))
        sys.stdout.buffer.write(reply.encode() + b"\n")
        sys.stdout.buffer.flush()
        if hasattr(signal, "alarm"):
            signal.alarm(0)


if __name__ == "__main__":
    main()
