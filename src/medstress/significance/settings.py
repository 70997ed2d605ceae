"""The settings of significance tests."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from medstress.analyses.families import MAX_CALLS, Adjust, ControlCost, Null, Statistic, cost_of
from medstress.experiment.file.config import SignificanceTable
from medstress.stats.permutation import ControlPlan

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
    adjust: Adjust = Adjust.BH
    """How p-values are adjusted; does not change what is asked."""
    items: tuple[str, ...] = ()
    """The only items of the family; empty for all."""
    generator: Generator = "lexicon"
    """Who writes neutral insertions: the lexicon, or the role `attacker`."""

    def cost(self, attempts: int, statistic: Statistic) -> ControlCost:
        """Return the cost of one control.

        Args:
            attempts: K of the attack.
            statistic: the statistic that estimates T.
        """
        return cost_of(self.null, attempts, statistic, written=self.generator == "attacker")

    def plan(self, cost: ControlCost) -> ControlPlan:
        """Return how many controls a success gets for `max_calls`, possibly 0."""
        if self.max_calls is None:
            return self.controls
        bought = cost.bought(self.max_calls)
        if self.controls.fixed is not None:
            return ControlPlan(fixed=min(self.controls.fixed, bought))
        return ControlPlan(limit=min(self.controls.limit, bought))

    def as_json(self) -> dict[str, Any]:
        """Return the settings that change what is asked, as JSON values; part of a study's id.

        Whether a panel votes is not included, because that also depends on the roles.
        """
        return {
            "null": self.null.value,
            "controls": self.controls.fixed or "adaptive",
            "max_calls": self.max_calls,
            "generator": self.generator,
        }


def settings_of(table: SignificanceTable) -> Settings:
    """Return the `[test]` table as settings."""
    fixed = None if table.controls == "adaptive" else table.controls
    # A fixed number of controls sets the price, so `max_calls` only applies if it is also given.
    is_limited = fixed is None or "max_calls" in table.model_fields_set
    return Settings(
        null=Null(table.null),
        controls=ControlPlan(fixed=fixed),
        max_calls=table.max_calls if is_limited else None,
        adjust=Adjust(table.adjust),
        items=table.items,
        generator=table.generator,
    )
