"""The base of all tables of the experiment file."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

NonEmpty = Annotated[str, Field(min_length=1)]
Count = Annotated[int, Field(ge=1)]
Seconds = Annotated[float, Field(gt=0, le=1e8)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class TomlTable(BaseModel):
    """A table of the experiment file; unknown keys raise errors."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


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
