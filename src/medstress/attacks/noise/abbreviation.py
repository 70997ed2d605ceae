"""Abbreviations: gold entities are abbreviated, or their abbreviations spelt out."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias, get_args

from medstress.attacks.choices import check_word
from medstress.attacks.noise.mention_table import Choice
from medstress.attacks.noise.parameters import MentionReplacement
from medstress.core.errors import UsageError

Direction: TypeAlias = Literal["both", "expand", "contract"]


@dataclass(frozen=True, kw_only=True)
class Abbreviation(MentionReplacement):
    """Write "MI" for "myocardial infarction" and the other way round, if both are known.

    A pair is known if the corpus defines it, "myocardial infarction (MI)" with both as gold
    entities, or if a table has both as names of one concept and the short form is made of the
    first one or two letters of the long form's words. Short forms are written in capitals, or as in
    the corpus; long ones in lower case.
    """

    direction: Direction = "both"
    """`expand` short forms, `contract` long ones, or `both`."""
    synonyms: str = "default"
    """Where names come from, as for `synonym`."""
    choice: Choice = "fixed"
    """`fixed`: one name for each mention string; `drawn`: a random one for each occurrence."""

    name: ClassVar[str] = "abbreviation"

    def __post_init__(self) -> None:
        check_word(self.name, "direction", self.direction, get_args(Direction))
        check_word(self.name, "choice", self.choice, get_args(Choice))
        if not isinstance(self.synonyms, str) or self.synonyms in ("", "none"):
            raise UsageError(
                f"{self.name}: synonyms: expected 'default' or a path, got {self.synonyms!r}"
            )

    @property
    def table(self) -> str:
        """Key of its names in `NoiseResources.replacements`."""
        return f"abbreviations {self.direction} {self.synonyms}"
