"""Plan tuning: the grid of n of every attack, and the items that n is chosen on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import Any

from medstress.analyses.tuning import RULE, SAME_ITEMS, TUNING_SPLIT, has_n, template_of
from medstress.attacks.protocol import Attack, attack_class, make_attack
from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.experiment.file.config import AnalysisTable, TuneTable
from medstress.experiment.file.reading import check_table
from medstress.experiment.plan.parts import AttackPart
from medstress.experiment.plan.plan import Portion, Prepared

MIN_ITEMS = 5
"""Fewest attackable items on each side of the split; with fewer, one item moves a rate by 0.2."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TuningPlan:
    """An experiment whose attacks have every n of the grid."""

    prepared: Prepared
    """All attacks over all items."""
    table: TuneTable
    """The table `[tune]`."""
    controls: tuple[AttackPart, ...] = ()
    """Control arms of the report."""

    @property
    def same_items(self) -> bool:
        """True if n is chosen on the items that are reported."""
        return self.table.share == 1

    def is_tuned_on(self, item: Question) -> bool:
        """Return whether n is chosen on this item.

        Only the question's text decides. So victims, groups and values of `limit` agree, a larger
        share contains a smaller one, and a repeated question, even with reordered options, lies
        on one side.
        """
        text = [self.table.sample_seed, item.context, item.stem, sorted(item.options)]
        return split_position(text) < self.table.share

    def with_controls(self, attacks: Iterable[AttackPart]) -> list[AttackPart]:
        """Return attacks of the report with their control arms."""
        shown = list(attacks)
        specs = [part.attack.spec() for part in shown]
        arms = (part for part in self.controls if part.attack.spec()["control_of"] in specs)
        return [*shown, *arms]

    def template(self, attack: Attack) -> str:
        """Return what the attacks of one grid share, at the budget of tuning."""
        return template_of({**attack.spec(), "budget": attack.traits.budget}, self.table.budget)

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that determine the choice, as JSON values."""
        return self.table.model_dump(mode="json", exclude={"random"})

    def notes(self, part: str) -> dict[str, Any]:
        """Return the manifest's entry `tuning`."""
        return {
            "part": part,
            "settings": self.settings,
            "rule": RULE.format(metric=self.table.metric),
            "optimistic": self.same_items,
        }

    def portion(self, part: str) -> Portion:
        """Return the portion of the tuning split, or of all items if share = 1."""
        # The grid is left out, because more values of n extend the run.
        keys = ("share", "sample_seed", "budget")
        return Portion(
            keep=self.is_tuned_on,
            settings={"tune": {"part": part, **{key: self.settings[key] for key in keys}}},
            notes={"tuning": self.notes(part)},
            is_judged=part != TUNING_SPLIT,
        )

    def tuning(self) -> Prepared:
        """Return the run that n is chosen from."""
        part = SAME_ITEMS if self.same_items else TUNING_SPLIT
        found: dict[tuple[str, float], AttackPart] = {}
        others: list[AttackPart] = []
        for each in self.prepared.attacks:
            if not has_n(each.attack.spec()):
                others += [each] * self.same_items
                continue
            attack: Any = each.attack
            if self.table.budget is not None:
                each = replace(each, attack=replace(attack, budget=self.table.budget))
            found.setdefault((self.template(attack), attack.n), each)
        attacks = [*found.values(), *others]
        experiment = self.prepared.experiment
        if not self.same_items:
            # [analysis] belongs to the report.
            experiment = experiment.model_copy(update={"analysis": AnalysisTable()})
        return replace(
            self.prepared, experiment=experiment, attacks=attacks, portion=self.portion(part)
        )


def tune_every_n(raw: dict[str, Any]) -> None:
    """Give every `pdws` attack of a parsed file the grid as its n, in place.

    Attacks that differ only in n become one. If the file has no random sampling, it is added.
    Malformed tables are left to the check that follows.
    """
    table = raw.get("tune")
    try:
        settings: TuneTable = check_table("tune", table if isinstance(table, Mapping) else {})
    except UsageError:
        settings = TuneTable()
    rows = raw.get("attack")
    rows = [rows] if isinstance(rows, dict) else rows
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        return
    tuned: dict[str, dict[str, Any]] = {}
    for row in rows:
        template = None if row.get("use", True) is False else _template(row)
        if template is None:
            continue
        row["n"] = list(settings.grid)
        first = tuned.setdefault(template, row)
        if first is not row:
            # Switched off, not removed: messages count entries to find their lines.
            row["use"] = False
            if first.get("label") != row.get("label"):
                first.pop("label", None)
    if settings.random and not any(row.get("sampler") == "random" for row in rows):
        rows += [_at_random(row) for row in tuned.values()]
    raw["attack"] = rows


def _at_random(row: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in row.items() if key not in ("n", "label")}
    return {**kept, "sampler": "random"}


def _template(row: Mapping[str, Any]) -> str | None:
    """Return what identifies the attack without its n; None if it has no n."""
    try:
        name = str(row.get("name"))
        known = {field.name for field in fields(attack_class(name))}
        given = {key: value for key, value in row.items() if key in known}
        attack = make_attack(name, {**given, "n": 1.0})
    except (UsageError, TypeError):
        return None
    return template_of(attack.spec()) if has_n(attack.spec()) else None


def check_plan(plan: TuningPlan) -> None:
    """Check that the plan can be tuned.

    Raises:
        UsageError: there is no n to tune, the budget does not fit, or a split has too few items.
    """
    tuned = [part for part in plan.prepared.attacks if has_n(part.attack.spec())]
    if not tuned:
        raise UsageError(
            'there is no n to tune: no [[attack]] has sampler = "pdws"; add name = '
            '"entity_substitution" with sampler = "pdws" (n may be left out)'
        )
    budget = plan.table.budget
    if budget is not None and plan.same_items:
        raise UsageError(
            f"[tune] budget = {budget}: with share = 1 the tuning trials are the report, so their "
            "budget is the attack's; leave it out, or give a share below 1"
        )
    for part in tuned:
        if budget is not None and budget > part.traits.budget:
            raise UsageError(
                f"[tune] budget = {budget} is larger than that of attack {part.label!r} "
                f"({part.traits.budget})"
            )
    for dataset, group in product(plan.prepared.datasets, plan.prepared.question_groups):
        attackable = [
            item
            for item in plan.prepared.items(dataset, group)
            if tuned[0].attack.obstacle(item, group.resources) is None
        ]
        n = sum(map(plan.is_tuned_on, attackable))
        rest = len(attackable) if plan.same_items else len(attackable) - n
        if attackable and min(n, rest) < MIN_ITEMS:
            raise UsageError(
                f"{dataset.label}/{group.label} has {len(attackable)} attackable items, of which "
                f"share = {plan.table.share:g} tunes n on {n} and reports on {rest}; each needs at "
                f"least {MIN_ITEMS}: use more items, or another share in [tune]"
            )


def split_position(key: Sequence[object]) -> float:
    """Return a pseudo-random position in [0, 1); below the tuning share, n is chosen on the item.

    Args:
        key: JSON values that identify the item.
    """
    return int.from_bytes(digest(["tune", *key])[:8], "big") / 2**64
