"""What probes share that read a list of pairs of names: the shipped one, or a user's file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from medstress.attacks.choices import check_budget
from medstress.attacks.probes.protocol import MAX_BUDGET, QuestionProbe
from medstress.core.errors import UsageError
from medstress.core.items import Candidate
from medstress.files.name_pairs import NamePairs, read_name_pairs

DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedNames(QuestionProbe):
    """The base: replaces names by others that a list pairs them with."""

    columns: ClassVar[tuple[str, str]]
    """The columns of a user's file."""

    pairs: str | NamePairs = DEFAULT
    """`default`, the shipped list, or a .csv or .tsv file with the columns `brand` and `generic`
    (`brand_generic`), or `name` and `confused_with` (`lasa`)."""
    budget: int = 3
    """Most variants asked, 1 to 100."""

    def __post_init__(self) -> None:
        check_budget(self.name, self.budget, MAX_BUDGET)
        if not isinstance(self.pairs, NamePairs | str) or not self.pairs:
            raise UsageError(
                f"{self.name}: pairs must be 'default' or the path of a table, got {self.pairs!r}"
            )

    @property
    def most(self) -> int:
        """The budget."""
        return self.budget

    def spec(self) -> dict[str, Any]:
        """Return the parameters, with the content hash of a user's list."""
        found = super(ListedNames, self).spec()
        listed = self.pairs
        return {**found, "pairs": listed.hash if isinstance(listed, NamePairs) else listed}

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters that tell attacks of this name apart in labels."""
        found = self.spec()
        del found["budget"]
        return {**found, "budget": self.budget}

    def with_files(self, base: Path) -> Self:
        """Return the probe with the user's list read, relative to a folder."""
        if not isinstance(self.pairs, str) or self.pairs == DEFAULT:
            return self
        path, what = base / Path(self.pairs).expanduser(), f"{self.name}: pairs {self.pairs!r}"
        return replace(self, pairs=read_name_pairs(path, what, self.columns))


def tells_options_apart(candidate: Candidate) -> bool:
    """Return whether no two options read alike after the edits."""
    texts = [text.strip().casefold() for text in candidate.options]
    return len(set(texts)) == len(texts)
