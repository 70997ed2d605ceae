"""How many items of a first experiment its attack can change."""

from __future__ import annotations

from dataclasses import dataclass, replace

from medstress.core.errors import UsageError
from medstress.entities.grouping import typed_options
from medstress.entities.semantic_types import types_of
from medstress.experiment.file.reading import check_experiment
from medstress.experiment.first.attack import WITHOUT_NAMES
from medstress.experiment.first.compose import Composed
from medstress.experiment.plan.mentions import recognise_mentions
from medstress.files.reading import parse_toml

MOST = 2000
"""Items that are looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Attackable:
    """Counts of attackable items."""

    n_items: int
    """Items that were looked at."""
    by_group: dict[str, int]
    """Group -> those of them with a wrong option that names something of it."""

    @property
    def sentence(self) -> str:
        """The counts, in words."""
        found = ", ".join(f"{n:,} by {group}" for group, n in self.by_group.items())
        return f"of {self.n_items:,} questions, {found}"


def count_attackable(composed: Composed) -> Attackable | None:
    """Count the items that each group can attack; None if the attack draws no names.

    Raises:
        UsageError: none of the items names anything of the groups, so that the file would not run.
    """
    if not composed.attack.groups:
        return None
    source = composed.source
    checked = check_experiment(parse_toml(source.text, source.name))
    part = replace(composed.data.part, questions=composed.data.part.questions[:MOST])
    try:
        found = recognise_mentions(checked.entities, source.base, [part], lambda _: None)
    except UsageError as error:
        raise UsageError(
            f"{error}; an attack that needs no such names: --attack {WITHOUT_NAMES}"
        ) from error
    (looked_at,) = found.datasets
    return Attackable(
        n_items=len(looked_at.questions),
        by_group={
            str(table.name): sum(
                bool(typed_options(item, types_of(table.type))) for item in looked_at.questions
            )
            for table in checked.entities
        },
    )
