"""Scores of whole data sets, before and after an attack: what a kind has to say of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from medstress.text import Edit

Place: TypeAlias = tuple[str, str, str, str]
"""(data set, group, victim, attack)."""
Json: TypeAlias = dict[str, Any]
Test: TypeAlias = tuple[str, float | None, float | None, str]
"""(family, before minus after, p, method)."""
Defined: TypeAlias = tuple[str, str, str]
"""(field, label, meaning) of a score."""

FAMILY = "before_after"
"""Tests of a kind's main score; those of another score are a family of their own."""
ADJUSTED = "two-sided; adjusted by Benjamini-Hochberg within the family"
WHEN = (
    ("", "", "on the clean data"),
    ("_after", " after", "on the perturbed copy"),
    ("_drop", " drop", "before minus after, paired"),
)
"""(ending of the field, ending of the label, what it is of) of every score."""


@dataclass(slots=True)
class Arm:
    """What one attack left behind, by seed and item."""

    spec: Json
    """The attack's parameters."""
    before: dict[tuple[int | None, str], Any] = field(default_factory=dict)
    """Answers on clean items, as `DatasetScores.answer` reads them."""
    after: dict[tuple[int | None, str], Any] = field(default_factory=dict)
    """Answers on perturbed ones."""
    unasked: set[tuple[int | None, str]] = field(default_factory=set)
    """Items whose clean answer nobody asked for."""

    def of(self, seeds: Sequence[int | None]) -> Arm:
        """The part of some seeds."""
        return Arm(
            self.spec,
            {key: value for key, value in self.before.items() if key[0] in seeds},
            {key: value for key, value in self.after.items() if key[0] in seeds},
            {key for key in self.unasked if key[0] in seeds},
        )


class DatasetScores(ABC):
    """The scores of one kind: how answers are read, what a row says, what is tested."""

    defined: ClassVar[Sequence[Defined]]
    """All fields of rows that are scores."""
    note: ClassVar[str]
    """What a table of them in the report has to say."""
    printed: ClassVar[str]
    """What a printed table of them has to say."""
    lost: ClassVar[str | None] = None
    """What share successes are of; None where nothing but a change of score can succeed."""

    @abstractmethod
    def answer(
        self, item: Any, prediction: Sequence[Any], edits: tuple[Edit, ...], cluster: str
    ) -> Any:
        """A stored prediction about an item with edits, as the scores read it."""

    @abstractmethod
    def is_whole(self, spec: Mapping[str, Any]) -> bool:
        """Whether what an attack asked last says what becomes of a whole item."""

    @abstractmethod
    def row(self, arm: Arm, control: Arm | None) -> Json:
        """The fields that a row of the summary gets.

        Args:
            arm: of the row.
            control: its control arm, where there is one.
        """

    @abstractmethod
    def tests(self, arm: Arm) -> Iterator[Test]:
        """Before against after."""

    def warnings(self, arms: Mapping[Place, Arm]) -> list[str]:
        """What has to be said of victims."""
        return []

    @abstractmethod
    def shown(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """The fields that tables show of rows; none where rows are of another kind."""
