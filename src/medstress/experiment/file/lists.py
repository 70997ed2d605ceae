"""Lists of a TOML file whose values must differ."""

from __future__ import annotations

from typing import Any


def distinct(value: Any, what: str = "values") -> Any:
    """Return a list as a tuple, for a validator that runs before a field's own.

    Raises:
        ValueError: a value stands there twice.
    """
    if not isinstance(value, list):
        return value
    if len(set(map(str, value))) != len(value):
        raise ValueError(f"{what} repeat")
    return tuple(value)
