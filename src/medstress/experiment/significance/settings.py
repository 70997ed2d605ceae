"""What a significance test is asked to do, beside the success it tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from medstress.experiment.config import SignificanceTable
from medstress.metrics.hardness import Statistic
from medstress.metrics.monte_carlo import ControlPlan
from medstress.metrics.significance import Family, Null

Generator: TypeAlias = Literal["lexicon", "attacker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The `[test]` table, read."""

    null: Null = Null.MATCHED
    """What a control is."""
    controls: ControlPlan = field(default_factory=ControlPlan)
    """How many there are."""
    statistic: Statistic = Statistic.KEY_PROBABILITY
    """What T is estimated by, where the victim allows it."""
    family: Family = Family.SUCCESSES
    """Over which tests p-values are adjusted; changes nothing that is asked."""
    loops: int = 10
    """matched, flipped: how often a control's loop of K attempts starts over until it errs."""
    generator: Generator = "lexicon"
    """Who writes neutral insertions: the lexicon, or the role `attacker`."""
    exemplars_from: str | None = None
    """File of the worked questions that victims are shown; None: those of the attack."""
    panel: bool = True
    """Whether the judges' panel, where the attack had one, is asked about controls too."""

    def as_told(self) -> dict[str, Any]:
        """What changes the questions, as JSON values: part of a study's id.

        Whether a panel votes is told beside it, for that also depends on the roles.
        """
        return {
            "null": self.null.value,
            "controls": self.controls.fixed or "adaptive",
            "stop_at": self.controls.stop_at,
            "statistic": self.statistic.value,
            "loops": self.loops,
            "generator": self.generator,
            # Tests of older folders know no such key.
            **({"exemplars_from": self.exemplars_from} if self.exemplars_from else {}),
        }


def settings_of(table: SignificanceTable) -> Settings:
    """The `[test]` table as settings."""
    fixed = None if table.controls == "adaptive" else table.controls
    return Settings(
        null=Null(table.null),
        controls=ControlPlan(fixed=fixed, stop_at=table.stop_at),
        statistic=Statistic(table.statistic),
        family=Family(table.family),
        loops=table.loops,
        generator=table.generator,
        exemplars_from=table.exemplars_from,
        panel=table.panel,
    )
