"""The keys of all servers that this process asks, to be taken out of whatever a server says."""

from __future__ import annotations

from typing import Any

import orjson

SHORTEST = 8
"""Characters of a key that is removed; a shorter one may be a word, or part of any number."""
SHOWN = "[key]"
"""What stands in its place."""
_keys: set[str] = set()


def remember_key(key: str) -> None:
    """Take a key out of everything that servers say from now on; a short one is not."""
    if len(key) >= SHORTEST:
        _keys.add(key)


def without_keys(text: str) -> str:
    """A text without the keys.

    >>> remember_key("sk-doctest-0123")
    >>> without_keys("wrong key sk-doctest-0123, sir")
    'wrong key [key], sir'
    """
    # The longest first: one key may begin like another.
    for key in sorted(_keys, key=len, reverse=True):
        text = text.replace(key, SHOWN)
    return text


def cleaned(found: dict[str, Any]) -> dict[str, Any]:
    """A decoded reply without the keys, names of fields included.

    Raises:
        TypeError: it is nested more deeply than any reply (`orjson.JSONEncodeError`).
    """
    # Written anew, whatever way the server wrote its characters; this is fast, the walk is rare.
    text = orjson.dumps(found)
    if any(orjson.dumps(key)[1:-1] in text for key in _keys):
        cleaned: dict[str, Any] = _walked(found)
        return cleaned
    return found


def _walked(value: Any) -> Any:
    if isinstance(value, str):
        return without_keys(value)
    if isinstance(value, list):
        return [_walked(each) for each in value]
    if isinstance(value, dict):
        return {without_keys(key): _walked(each) for key, each in value.items()}
    return value
