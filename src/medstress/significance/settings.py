"""The settings of significance tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from medstress.experiment.file.config import SignificanceTable
from medstress.metrics.significance.control_costs import MAX_CALLS, ControlCost, cost_of
from medstress.metrics.significance.families import Adjust, Family, Null
from medstress.metrics.significance.hardness import Statistic
from medstress.stats.monte_carlo import MOST, ControlPlan

Generator: TypeAlias = Literal["lexicon", "attacker"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The `[test]` table, validated."""

    null: Null = Null.MATCHED
    """The null hypothesis, which says what a control is."""
    controls: ControlPlan = field(default_factory=ControlPlan)
    """How many controls are drawn, before `max_calls` limits them."""
    max_calls: int | None = MAX_CALLS
    """The most calls per success; None for as many as the controls take."""
    statistic: Statistic = Statistic.KEY_PROBABILITY
    """The statistic that estimates T, if the victim allows it."""
    family: Family = Family.ATTACKED
    """Over which tests p-values are adjusted; does not change what is asked."""
    adjust: Adjust = Adjust.BH
    """How p-values are adjusted; does not change what is asked."""
    items: tuple[str, ...] = ()
    """The only items of the family; empty for all."""
    trials: tuple[str, ...] = ()
    """The only trials of the family, by the beginnings of their identifiers; empty for all."""
    loops: int = 1
    """matched, flipped: how often a control's loop of K attempts may run until it errs."""
    generator: Generator = "lexicon"
    """Who writes neutral insertions: the lexicon, or the role `attacker`."""
    exemplars_from: str | None = None
    """File of the worked questions that victims are shown; None for those of the attack."""
    share_controls: bool = True
    """Whether successes on one item with similar insertions share their controls."""
    panel: bool = True
    """Whether the judges' panel, if the attack had one, also votes on controls."""

    def cost(self, attempts: int, used: int, statistic: Statistic) -> ControlCost:
        """Return the cost of one control.

        Args:
            attempts: K of the attack.
            used: attempts until its success.
            statistic: the statistic that estimates T.
        """
        written = self.generator == "attacker"
        return cost_of(self.null, attempts * self.loops, statistic, written=written, used=used)

    def plan(self, cost: ControlCost) -> ControlPlan:
        """Return how many controls a success gets for `max_calls`, possibly 0."""
        if self.max_calls is None:
            return self.controls
        bought = cost.bought(self.max_calls)
        if self.controls.fixed is not None:
            return ControlPlan(fixed=min(self.controls.fixed, bought))
        return ControlPlan(stop_at=self.controls.stop_at, limit=min(self.controls.limit, bought))

    def as_json(self) -> dict[str, Any]:
        """Return the settings that change what is asked, as JSON values; part of a study's id.

        Whether a panel votes is not included, because that also depends on the roles.
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
            # Older folders do not have this key.
            **({"exemplars_from": self.exemplars_from} if self.exemplars_from else {}),
            "share_controls": self.share_controls,
            **({} if self.panel else {"without_panel": True}),
        }


def settings_of(table: SignificanceTable) -> Settings:
    """Return the `[test]` table as settings."""
    null, is_fixed = Null(table.null), table.controls != "adaptive"
    # A fixed number of controls sets the price, so `max_calls` only applies if it is also given.
    is_limited = not is_fixed or "max_calls" in table.model_fields_set
    return Settings(
        null=null,
        controls=ControlPlan(
            fixed=None if table.controls == "adaptive" else table.controls,
            stop_at=table.stop_at,
            limit=MOST if is_fixed else table.max_controls,
        ),
        max_calls=table.max_calls if is_limited else None,
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
