"""The table `[sensitivity]`: every victim asked in several formats."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, field_validator

from medstress.experiment.file.lists import distinct
from medstress.experiment.file.table import NonEmpty, TomlTable


class SensitivityTable(TomlTable):
    """`[sensitivity]`: do conclusions depend on how the victims are asked?"""

    prompts: Annotated[tuple[NonEmpty, ...], Field(min_length=1)] = ("qstab", "medmcqa", "chat")
    """Each victim is asked with each of these instead of its own `prompt`: shipped templates or
    Jinja files."""
    answer_by: Annotated[
        tuple[Literal["letter", "text", "generate", "head"], ...], Field(min_length=1)
    ] = ("letter", "text")
    """Each victim answers in each of these ways instead of its own `answer_by`; functions answer
    as they like."""

    @field_validator("prompts", "answer_by", mode="before")
    @classmethod
    def _listed(cls, value: Any) -> Any:
        return distinct(value)
