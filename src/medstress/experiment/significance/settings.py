"""The settings of significance tests, their checks before the run, and the family of tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from medstress.analyses.families import (
    MAX_CALLS,
    Adjust,
    ControlCost,
    Null,
    Scope,
    Statistic,
    cost_of,
    settings_key,
)
from medstress.analyses.significance import REFUSED
from medstress.analyses.significance import SCOPES as KEY
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.experiment.file.config import Experiment, SignificanceTable
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart
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


FIXED = "fixed_family"
"""Manifest entry: the items that `[test]` names before the first query, with their hash."""


def fixed_family(table: SignificanceTable | None) -> dict[str, Any]:
    """Return the manifest entry of the fixed family; empty if `[test]` names no items."""
    if table is None or not table.items:
        return {}
    items = sorted(table.items)
    return {FIXED: {"items": items, "hash": content_hash(items)}}


def scope_of(settings: Settings, manifest: Mapping[str, Any]) -> Scope:
    """Return the family that the settings request.

    Raises:
        UsageError: the run began with another family.
    """
    began_with = manifest.get(FIXED, {}).get("items", [])
    if began_with != sorted(settings.items):
        named = ", ".join(began_with[:8]) or "none"
        raise UsageError(
            f"[test] items: they are named before the first query, and this run began with {named}:"
            " give the same, or begin another run with --out"
        )
    return Scope(adjust=settings.adjust, items=settings.items)


def with_scope(
    manifest: Mapping[str, Any], settings: Settings, scope: Scope
) -> dict[str, dict[str, Any]]:
    """Return the manifest entry with the family of these settings."""
    requested = {"adjust": scope.adjust.value, "items": list(scope.items)}
    return {KEY: {**manifest.get(KEY, {}), settings_key(settings.as_json()): requested}}


def with_refusal(
    manifest: Mapping[str, Any], settings: Settings, why: str
) -> dict[str, dict[str, Any]]:
    """Return the manifest entry with the reason why these settings could not be followed."""
    return {KEY: {settings_key(settings.as_json()): f"{REFUSED}{why}", **manifest.get(KEY, {})}}


def check_tests(experiment: Experiment, attacks: Sequence[AttackPart]) -> None:
    """Raise a UsageError if the `[test]` table cannot be followed.

    Args:
        experiment: experiment with the table.
        attacks: attacks of the experiment.

    Raises:
        UsageError: no attack can be tested, all controls would be equal, or the null needs items.
    """
    table = experiment.test
    if table is None:
        return
    from medstress.attacks.medfuzz.attack import MedFuzz

    if not any(isinstance(part.attack, MedFuzz) for part in attacks):
        raise UsageError(
            "[test]: expected a medfuzz attack, whose successes are tested, but there is none"
        )
    if table.null == "neutral" and not table.items:
        raise UsageError(
            "[test]: null = 'neutral' tests successes on items that are named before the first "
            "query: add items = [...], or use null = 'matched', which tests every attacked item"
        )
    attacker = experiment.role.attacker if experiment.role is not None else None
    written = table.generator == "attacker"
    if written and attacker is not None and attacker.temperature == 0:
        raise UsageError(
            "[test]: controls that the attacker writes must differ, but [role.attacker] has "
            "temperature = 0: set a temperature above 0"
        )


def check_items(experiment: Experiment, datasets: Sequence[DatasetPart]) -> None:
    """Check that the items of `[test] items` exist.

    Raises:
        UsageError: an item is unknown; the message names the first.
    """
    known = {item.id for part in datasets for item in part.questions}
    table = experiment.test
    for name in table.items if table is not None else ():
        if name not in known:
            raise UsageError(
                f"[test] items: no data set of the experiment has an item {name!r}; give item ids"
            )
