"""What a significance test is asked to do, beside the success it tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from medstress.experiment.config import SignificanceTable
from medstress.metrics.control_costs import MAX_CALLS, ControlCost, cost_of
from medstress.metrics.hardness import Statistic
from medstress.metrics.monte_carlo import MOST, ControlPlan
from medstress.metrics.significance import Adjust, Family, Null

Generator: TypeAlias = Literal["lexicon", "attacker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The `[test]` table, read."""

    null: Null = Null.MATCHED
    """What a control is."""
    controls: ControlPlan = field(default_factory=ControlPlan)
    """How many there are, before `max_calls` has its say."""
    max_calls: int | None = MAX_CALLS
    """The most calls of one success; None: as many as the controls take."""
    statistic: Statistic = Statistic.KEY_PROBABILITY
    """What T is estimated by, where the victim allows it."""
    family: Family = Family.ATTACKED
    """Over which tests p-values are adjusted; changes nothing that is asked."""
    adjust: Adjust = Adjust.BH
    """How they are adjusted; changes nothing that is asked."""
    items: tuple[str, ...] = ()
    """The family is of these items alone, where there are any."""
    trials: tuple[str, ...] = ()
    """The same, by the beginnings of trial identifiers."""
    loops: int = 1
    """matched, flipped: how often a control's loop of K attempts starts over until it errs."""
    generator: Generator = "lexicon"
    """Who writes neutral insertions: the lexicon, or the role `attacker`."""
    exemplars_from: str | None = None
    """File of the worked questions that victims are shown; None: those of the attack."""
    share_controls: bool = True
    """Whether successes on one item whose insertions are alike have the same controls."""
    panel: bool = True
    """Whether the judges' panel, where the attack had one, is asked about controls too."""

    def cost(self, attempts: int, used: int, statistic: Statistic) -> ControlCost:
        """What a control takes.

        Args:
            attempts: K of the attack.
            used: attempts until its success.
            statistic: what T is estimated by.
        """
        written = self.generator == "attacker"
        return cost_of(self.null, attempts * self.loops, statistic, written=written, used=used)

    def plan(self, cost: ControlCost) -> ControlPlan:
        """How many controls a success gets for `max_calls`; 0 where it buys none."""
        if self.max_calls is None:
            return self.controls
        bought = cost.bought(self.max_calls)
        if self.controls.fixed is not None:
            return ControlPlan(fixed=min(self.controls.fixed, bought))
        return ControlPlan(stop_at=self.controls.stop_at, limit=min(self.controls.limit, bought))

    def as_told(self) -> dict[str, Any]:
        """What changes the questions, as JSON values: part of a study's id.

        Whether a panel votes is told beside it, for that also depends on the roles.
        """
        return {
            "null": self.null.value,
            "controls": self.controls.fixed or "adaptive",
            "stop_at": self.controls.stop_at,
            "max_calls": self.max_calls,
            "max_controls": self.controls.limit,
            "statistic": self.statistic.value,
            "loops": self.loops,
            "generator": self.generator,
            # Tests of older folders know no such key.
            **({"exemplars_from": self.exemplars_from} if self.exemplars_from else {}),
            "share_controls": self.share_controls,
            **({} if self.panel else {"without_panel": True}),
        }


def settings_of(table: SignificanceTable) -> Settings:
    """The `[test]` table as settings."""
    null, is_fixed = Null(table.null), table.controls != "adaptive"
    # Who asks for a number of controls has decided what to pay, unless both are written.
    counts = not is_fixed or "max_calls" in table.model_fields_set
    return Settings(
        null=null,
        controls=ControlPlan(
            fixed=None if table.controls == "adaptive" else table.controls,
            stop_at=table.stop_at,
            limit=MOST if is_fixed else table.max_controls,
        ),
        max_calls=table.max_calls if counts else None,
        statistic=Statistic(table.statistic),
        family=Family(table.family) if table.family is not None else null.default_family,
        adjust=Adjust(table.adjust),
        items=table.items,
        trials=table.trials,
        loops=table.loops,
        generator=table.generator,
        exemplars_from=table.exemplars_from,
        share_controls=table.share_controls,
        panel=table.panel,
    )
