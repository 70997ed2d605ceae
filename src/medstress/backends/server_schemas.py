"""Structured output: texts that follow a JSON schema, and servers that do not care."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from medstress.backends.server_errors import Server, ServerTrouble, Then
from medstress.backends.server_replies import is_cut
from medstress.option_letters.cleaning import without_thoughts

_ABOUT = ("response_format", "json_schema", "schema", "structured", "grammar")
"""Words of servers that refuse a schema."""

_OF_TYPE: dict[str, Callable[[Any], bool]] = {
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "string": lambda value: isinstance(value, str),
    "integer": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "number": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "boolean": lambda value: isinstance(value, bool),
    "null": lambda value: value is None,
}
_STARTS = {"object": "{", "array": "[", "string": '"'}
"""How JSON of a type begins, where that is one character."""


class SchemaWatch:
    """Finds out with the first answer whether a server keeps to schemas.

    Once it has, a text that does not follow its schema is an answer like any other: whoever
    asked reads it, and may ask again.

    Args:
        server: who is asked.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._n_kept = 0

    def check(self, schema: str, choice: Mapping[str, Any], text: str) -> None:
        """Look at an answer.

        Raises:
            ServerTrouble: it follows no schema, and none before it did.
        """
        wanted, text = orjson.loads(schema), without_thoughts(text)
        if follows(wanted, _parsed(text)):
            self._n_kept += 1
            return
        message = choice.get("message")
        refusal = isinstance(message, dict) and message.get("refusal")
        # What was refused, or cut off after a good beginning, says nothing about the server.
        begun = is_cut(choice) and _begins(wanted, text)
        if not self._n_kept and not refusal and not begun:
            raise self._not_kept()

    def refused(self, trouble: ServerTrouble, sent: Mapping[str, Any]) -> ServerTrouble | None:
        """What to say of a rejected request; None where schemas are not the reason."""
        about = any(word in trouble.said for word in _ABOUT)
        if self._n_kept or "response_format" not in sent or not about:
            return None
        return self._not_kept(f" (it says: {trouble.said})")

    def _not_kept(self, said: str = "") -> ServerTrouble:
        return ServerTrouble(
            f"{self._server.where} (model {self._server.model!r}) does not keep to the JSON schema "
            "it is asked for (response_format): set structured = false, so that only the prompt "
            f"asks for JSON, or use a server that does{said}",
            Then.STOP,
        )


def response_format(schema: str | None) -> dict[str, Any]:
    """What to add to a request's body; nothing without a schema."""
    if schema is None:
        return {}
    named = {"name": "answer", "strict": True, "schema": orjson.loads(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def follows(schema: Mapping[str, Any], value: Any) -> bool:
    """Whether a value has the form that a schema asks for.

    Of JSON Schema it knows `type`, `enum`, `anyOf`, `properties`, `required`,
    `additionalProperties`, `items`; that is enough to tell whether a server cared.

    >>> letter = {"type": "object", "properties": {"answer": {"enum": ["A", "B"]}},
    ...           "required": ["answer"], "additionalProperties": False}
    >>> follows(letter, {"answer": "A"}), follows(letter, {"answer": "C"}), follows(letter, None)
    (True, False, False)
    """
    kinds = schema.get("type", ())
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(_OF_TYPE[kind](value) for kind in kinds):
        return False
    if "enum" in schema and value not in schema["enum"]:
        return False
    if "anyOf" in schema and not any(follows(each, value) for each in schema["anyOf"]):
        return False
    if isinstance(value, list) and "items" in schema:
        return all(follows(schema["items"], each) for each in value)
    if isinstance(value, dict):
        known = schema.get("properties", {})
        lacks = set(schema.get("required", ())) - set(value)
        extra = schema.get("additionalProperties", True) is False and set(value) - set(known)
        return not lacks and not extra and all(follows(known.get(k, {}), value[k]) for k in value)
    return True


def _begins(schema: Mapping[str, Any], text: str) -> bool:
    """Whether a text that was cut off may have become what a schema asks for."""
    start = _STARTS.get(str(schema.get("type")), "")
    return text.lstrip()[:1] in ("", start) if start else True


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
