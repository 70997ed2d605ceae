"""Removes this process's API keys from everything a server says."""

from __future__ import annotations

from typing import Any

import orjson

SHORTEST = 8
"""Length in characters from which a key is removed; a shorter one may be a word or a number."""
SHOWN = "[key]"
"""The replacement of a key."""
_keys: set[str] = set()


def remember_key(key: str) -> None:
    """Remove a key from everything that servers say from now on, unless it is too short."""
    if len(key) >= SHORTEST:
        _keys.add(key)


def without_keys(text: str) -> str:
    """Return a text without the keys.

    >>> remember_key("sk-doctest-0123")
    >>> without_keys("wrong key sk-doctest-0123, sir")
    'wrong key [key], sir'
    """
    # The longest key first, because one key may begin with another.
    for key in sorted(_keys, key=len, reverse=True):
        text = text.replace(key, SHOWN)
    return text


def cleaned(reply: dict[str, Any]) -> dict[str, Any]:
    """Return a decoded reply without the keys, also in field names.

    Raises:
        TypeError: the reply is nested too deep (`orjson.JSONEncodeError`).
    """
    # Encoded again, because a server may escape characters in its own way. This is fast, and the
    # walk below is rare.
    text = orjson.dumps(reply)
    if any(orjson.dumps(key)[1:-1] in text for key in _keys):
        cleaned: dict[str, Any] = _walked(reply)
        return cleaned
    return reply


def _walked(value: Any) -> Any:
    if isinstance(value, str):
        return without_keys(value)
    if isinstance(value, list):
        return [_walked(each) for each in value]
    if isinstance(value, dict):
        return {without_keys(key): _walked(each) for key, each in value.items()}
    return value
