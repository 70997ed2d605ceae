"""Jinja templates: a user's own prompts, prompts of conversations, and models' chat templates.

They are rendered in this process, in Jinja's immutable sandbox, by commands that ask models; a
template that never ends does not end. Reading a run folder renders none.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from medstress.core.errors import TrialError, UsageError

if TYPE_CHECKING:
    from jinja2 import Template

LARGEST = 1 << 20
"""Most characters of one rendering; a prompt only places texts."""
_PLAIN = (str, bool, int, float, type(None))


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendered:
    """The output of a template."""

    text: str
    """The rendered text."""
    exports: Mapping[str, Any]
    """Variables that the template sets at its top level: texts, numbers and booleans."""


def render(source: str, values: Mapping[str, Any], *, name: str, chat: bool = False) -> Rendered:
    """Render a template.

    Args:
        source: the template's text.
        values: its variables, as JSON values.
        name: its name in messages, such as `prompt 'mine.jinja'`.
        chat: whether it is a model's chat template, which may use the extensions of transformers:
            `break`, `raise_exception`, `strftime_now`.

    Raises:
        UsageError: the template is not valid Jinja, or makes too long a text.
        TrialError: it cannot be rendered with these values; the message has Jinja's reason.
    """
    template = compiled(source, name=name, chat=chat)
    pieces, n = [], 0
    try:
        context = template.new_context(dict(values))
        for piece in template.root_render_func(context):
            n += len(piece)
            if n > LARGEST:
                break
            pieces.append(piece)
        exports = {k: v for k, v in context.get_exported().items() if isinstance(v, _PLAIN)}
    except Exception as error:  # a template is code and can raise anything
        raise TrialError(f"{name} cannot be rendered: {_reason(error)}") from error
    if n > LARGEST:
        raise UsageError(
            f"{name} makes more than {LARGEST:,} characters; a prompt should only place texts"
        )
    return Rendered(text="".join(pieces), exports=exports)


@lru_cache(maxsize=64)
def compiled(source: str, *, name: str, chat: bool = False) -> Template:
    """Compile a template.

    Raises:
        UsageError: it is not valid Jinja.
    """
    import jinja2
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    if chat:
        # The environment of transformers, which chat templates are written for.
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True,
            lstrip_blocks=True,
            extensions=["jinja2.ext.loopcontrols", _generation()],
        )
        environment.globals |= {"raise_exception": _refuse, "strftime_now": _now}
        environment.filters["tojson"] = _json
    else:
        environment = ImmutableSandboxedEnvironment(
            undefined=jinja2.StrictUndefined, keep_trailing_newline=True, autoescape=False
        )
    try:
        return environment.from_string(source)
    except (jinja2.TemplateError, RecursionError) as error:
        raise UsageError(f"{name} is not a usable Jinja template: {_reason(error)}") from error


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


def _reason(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"[:1_000]
