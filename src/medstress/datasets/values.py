"""Values of rows: as JSON types, and as words in messages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

_KINDS = (
    (bool, "the value"),
    (int, "the number"),
    (float, "the number"),
    (str, "the text"),
    (list, "the list"),
    (dict, "the object"),
)


def plain(value: Any) -> Any:
    """Convert `value` to JSON types: NaN and infinities become None, unknown types text."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return str(value)  # outside the range of the store's JSON
    if value is None or isinstance(value, str | int):
        return value
    if isinstance(value, Mapping):
        return {str(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    return str(value)


def shown(value: Any) -> str:
    """Describe a wrong value for a message: its kind and its beginning.

    >>> shown("aspirin"), shown(3), shown(None), shown({"A": 1})
    ("the text 'aspirin'", 'the number 3', 'nothing', "the object {'A': 1}")
    """
    if value is None:
        return "nothing"
    kind = next((kind for type_, kind in _KINDS if isinstance(value, type_)), "the value")
    text = repr(value)
    return f"{kind} {text if len(text) <= 60 else text[:57] + '...'}"
