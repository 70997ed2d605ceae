"""The protocol of scores of whole data sets, before and after an attack."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from medstress.core.text import Edit

Place: TypeAlias = tuple[str, str, str, str]
"""(data set, group, victim, attack)."""
Json: TypeAlias = dict[str, Any]
Test: TypeAlias = tuple[str, float | None, float | None, str]
"""(family, before minus after, p, method)."""
Defined: TypeAlias = tuple[str, str, str]
"""(field, label, meaning) of a score."""

FAMILY = "before_after"
"""Family of tests of a kind's main score; tests of other scores have their own families."""
ADJUSTED = "two-sided; adjusted by Benjamini-Hochberg within the family"
WHEN = (
    ("", "", "on the clean data"),
    ("_after", " after", "on the perturbed copy"),
    ("_drop", " drop", "before minus after, paired"),
)
"""(suffix of the field, suffix of the label, meaning) of the variants of every score."""


@dataclass(slots=True)
class ScoredArm:
    """The answers about one attack, by seed and item."""

    spec: Json
    """The attack's parameters."""
    before: dict[tuple[int | None, str], Any] = field(default_factory=dict)
    """Answers on clean items, as `DatasetScores.answer` reads them."""
    after: dict[tuple[int | None, str], Any] = field(default_factory=dict)
    """Answers on perturbed items."""
    unasked: set[tuple[int | None, str]] = field(default_factory=set)
    """Items without a clean answer."""

    def of(self, seeds: Sequence[int | None]) -> ScoredArm:
        """Return the arm restricted to some seeds."""
        return ScoredArm(
            self.spec,
            {key: value for key, value in self.before.items() if key[0] in seeds},
            {key: value for key, value in self.after.items() if key[0] in seeds},
            {key for key in self.unasked if key[0] in seeds},
        )


class DatasetScores(ABC):
    """The scores of one kind: how to read answers, the fields of rows, and the tests."""

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
        """Convert a stored prediction about an item with edits to the form of these scores."""

    @abstractmethod
    def is_whole(self, spec: Mapping[str, Any]) -> bool:
        """Return whether an attack's last query perturbs the whole item."""

    @abstractmethod
    def row(self, arm: ScoredArm, control: ScoredArm | None) -> Json:
        """Return the fields of a row of the summary.

        Args:
            arm: the arm of the row.
            control: its control arm, or None.
        """

    @abstractmethod
    def tests(self, arm: ScoredArm) -> Iterator[Test]:
        """Yield tests of the scores before against after."""

    def warnings(self, arms: Mapping[Place, ScoredArm]) -> list[str]:
        """Return warnings about victims."""
        return []

    @abstractmethod
    def shown(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """Return the fields that tables show of rows; none if rows have another kind."""
