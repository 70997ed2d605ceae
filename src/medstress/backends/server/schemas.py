"""Structured output: asks for a JSON schema, and finds out whether a server follows it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from medstress.backends.server.errors import Server, ServerTrouble, Then
from medstress.backends.server.replies import is_cut
from medstress.tasks.reading import without_thoughts

_ABOUT = ("response_format", "json_schema", "schema", "structured", "grammar")
"""Words in the errors of servers that refuse a schema."""

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
"""The first character of JSON of a type, if there is only one."""


class SchemaWatch:
    """Checks on the first answers whether a server follows schemas.

    Once it has followed one, a text that does not is an ordinary answer; the caller reads it and
    may ask again.

    Args:
        server: the server, for messages.

    Attributes:
        has_followed: whether it has followed one, in this process or an earlier one of the run.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self.has_followed = False

    def check(self, schema: str, choice: Mapping[str, Any], text: str) -> None:
        """Check an answer.

        Raises:
            ServerTrouble: neither this answer nor any before it follows its schema.
        """
        wanted, text = orjson.loads(schema), without_thoughts(text)
        if follows(wanted, _parsed(text)):
            self.has_followed = True
            return
        message = choice.get("message")
        refusal = isinstance(message, dict) and message.get("refusal")
        # A refusal, or a truncated text with a valid beginning, says nothing about the server.
        begun = is_cut(choice) and _begins(wanted, text)
        if not self.has_followed and not refusal and not begun:
            raise self._not_followed()

    def refused(self, trouble: ServerTrouble, sent: Mapping[str, Any]) -> ServerTrouble | None:
        """Return the error for a rejected request; None if schemas are not the reason."""
        about = any(word in trouble.said for word in _ABOUT)
        if self.has_followed or "response_format" not in sent or not about:
            return None
        return self._not_followed(f" (it says: {trouble.said})")

    def _not_followed(self, said: str = "") -> ServerTrouble:
        return ServerTrouble(
            f"{self._server.where} (model {self._server.model!r}) does not follow the requested "
            "JSON schema (response_format): set structured = false, so that only the prompt "
            f"asks for JSON, or use a server that does{said}",
            Then.STOP,
        )


def response_format(schema: str | None) -> dict[str, Any]:
    """Return the fields that a schema adds to a request's body; none without a schema."""
    if schema is None:
        return {}
    named = {"name": "answer", "strict": True, "schema": orjson.loads(schema)}
    return {"response_format": {"type": "json_schema", "json_schema": named}}


def follows(schema: Mapping[str, Any], value: Any) -> bool:
    """Return whether a value follows a schema.

    Supports `type`, `enum`, `anyOf`, `properties`, `required`, `additionalProperties` and `items`
    of JSON Schema, which is enough to tell whether a server follows schemas at all.

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
    """Return whether a truncated text may be the beginning of JSON that follows the schema."""
    start = _STARTS.get(str(schema.get("type")), "")
    return text.lstrip()[:1] in ("", start) if start else True


def _parsed(text: str) -> Any:
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None
