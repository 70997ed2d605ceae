"""Turn results into JSON: the only place where an `Estimate` becomes an object of a file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, TypeAlias

from medstress.stats.estimate import Estimate

Json: TypeAlias = Any
"""What `json.dumps(..., allow_nan=False)` takes."""
FLAT: Mapping[str, str] = {"json": "flat"}
"""Metadata of a field whose own fields stand in its parent."""
HIDDEN: Mapping[str, str] = {"json": "hidden"}
"""Metadata of a field that is for other analyses alone."""


def as_json(value: object) -> Json:
    """Return a result as JSON values.

    A dataclass becomes an object of its fields; a flat part that is None is left out.

    Raises:
        TypeError: a flat part has a field that its parent has too.

    >>> as_json(Estimate(value=None, n=0, low=None, high=None, method="no pair"))["n"]
    0
    """
    if isinstance(value, Estimate):
        return _estimate(value)
    if is_dataclass(value) and not isinstance(value, type):
        return _object(value)
    if isinstance(value, Mapping):
        return {str(key): as_json(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [as_json(part) for part in value]
    return value


def _estimate(value: Estimate) -> Json:
    row = {name: getattr(value, name) for name in ("value", "n", "hits", "low", "high", "method")}
    return row if value.worst is None else {**row, "worst": list(value.worst)}


def _object(value: Any) -> Json:
    row: dict[str, Json] = {}
    for field in fields(value):
        how, part = field.metadata.get("json"), getattr(value, field.name)
        if how == "hidden" or (how == "flat" and part is None):
            continue
        new = as_json(part) if how == "flat" else {field.name: as_json(part)}
        if twice := row.keys() & new.keys():
            raise TypeError(f"{type(value).__name__}.{field.name}: {sorted(twice)} twice in a row")
        row |= new
    return row
