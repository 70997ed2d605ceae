"""`[experiment] controls`: the control arms beside the attacks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from medstress.attacks.controls.arm import LEAST_FILLED, ControlArm, control_arm
from medstress.attacks.controls.harmless import Control
from medstress.attacks.noise_control import control_of
from medstress.attacks.protocol import QUESTIONS, make_attack
from medstress.attacks.unasked import Unasked
from medstress.core.controls import CONTROLS, NOISE_CONTROL, arm_label
from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart, GroupPart
from medstress.kinds import Kind

PREFIX = "control of "
"""Prefix of the label of an added arm of noise outside entities."""
DEFAULT, IN_TURNS = "no_op", "neutral_insertion"
"""The default control of attacks on questions, and of those that hold a conversation."""
_NOT_TAGGED = "only in tagged texts can noise go round the entities"
_MOST_NAMED = 3
"""Most items that a sentence names."""
_REMEDY = (
    "lower the budget, leave such short questions out, or name other controls in [experiment] "
    "controls"
)
"""What to do so that the attack is net of a control."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlPlan:
    """Which controls an experiment has, and why others are left out."""

    left_out: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Label of an attack -> control -> why the attack has it not."""

    def describe(self) -> dict[str, Any]:
        """Return its entry in the manifest."""
        return {"left_out": {k: dict(v) for k, v in self.left_out.items()}}

    def joined(self, other: ControlPlan) -> ControlPlan:
        """Return the plan with what another leaves out."""
        return replace(self, left_out={**self.left_out, **other.left_out})

    def without(self, attack: str, control: str, reason: str) -> ControlPlan:
        """Return the plan with one more control that an attack has not."""
        known = {label: dict(reasons) for label, reasons in self.left_out.items()}
        known.setdefault(attack, {})[control] = reason
        return replace(self, left_out=known)


def control_arms(
    attacks: Sequence[AttackPart], wanted: bool | Sequence[str] | None
) -> tuple[list[AttackPart], ControlPlan]:
    """Build the control arms of all attacks on questions.

    Args:
        attacks: the experiment's attacks.
        wanted: `[experiment] controls`: names, true for all that fit, false for none, or None for
            the default: `no_op`, or `neutral_insertion` where the victim is asked in turns.

    Returns:
        The arms, labelled `<attack> / <control>`; the plan with the controls that do not fit.

    Raises:
        UsageError: a name is no control.
    """
    names = () if isinstance(wanted, bool | None) else tuple(wanted)
    for name in names:
        _check_name(name)
    arms: list[AttackPart] = []
    left_out: dict[str, dict[str, str]] = {}
    for part in attacks:
        if wanted is False or not _is_controlled(part):
            continue
        of_attack = CONTROLS if wanted is True else names or (_default(part),)
        for name in of_attack:
            control: Control = make_attack(name, {})  # type: ignore[assignment]
            if (reason := control.unfit(part.attack)) is not None:
                left_out.setdefault(part.label, {})[name] = reason
                continue
            arm = control_arm(control, part.attack)
            label = arm_label(part.label, name)
            arms.append(AttackPart(label=label, attack=arm, is_labelled=part.is_labelled))
    return arms, ControlPlan(left_out=left_out)


def _default(part: AttackPart) -> str:
    return part.attack.control or DEFAULT


def _is_controlled(part: AttackPart) -> bool:
    """Return whether an attack takes right answers away, so that chance has to be told apart.

    What an attack takes that changes the evidence is no error; a control, and asking the clean
    items alone, need no control.
    """
    takes_nothing = isinstance(part.attack, Control | Unasked)
    return QUESTIONS in part.attack.takes and part.attack.is_judged and not takes_nothing


def _check_name(name: str) -> None:
    if name not in CONTROLS:
        raise UsageError(
            f"[experiment] controls: {name!r} is no control of attacks on questions; expected "
            f"some of {', '.join(CONTROLS)}{did_you_mean(name, CONTROLS)}"
        )


def fitting_arms(
    arms: Iterable[AttackPart],
    plan: ControlPlan,
    datasets: Sequence[DatasetPart],
    groups: Sequence[GroupPart],
    wanted: bool | Sequence[str] | None,
) -> tuple[list[AttackPart], ControlPlan]:
    """Leave out arms that could not ask as often as their attack on 95 % of the items.

    Raises:
        UsageError: the file names such a control.
    """
    kept: list[AttackPart] = []
    for part in arms:
        arm = part.attack
        assert isinstance(arm, ControlArm)
        reason = _too_few(arm, datasets, groups)
        if reason is None:
            kept.append(part)
            continue
        attack = part.label.removesuffix(f" / {arm.harmless.name}")
        if not isinstance(wanted, bool | None):
            raise UsageError(
                f"[experiment] controls: {arm.harmless.name} cannot control attack {attack!r}: "
                f"{reason}; lower the budget, or leave {arm.harmless.name} out of controls"
            )
        plan = plan.without(attack, arm.harmless.name, f"{reason}; {_REMEDY}")
    return kept, plan


def _too_few(
    arm: ControlArm, datasets: Sequence[DatasetPart], groups: Sequence[GroupPart]
) -> str | None:
    """Say on how many items the control has too few variants; None if these are few."""
    asked = [
        (item, resources)
        for dataset in datasets
        for group in groups
        if (group.table is None) is not ("names" in arm.needs)
        for resources in (group.resources_on(dataset),)
        for item in group.items(dataset)
    ]
    # Most controls have enough variants of nearly every text, whatever the attack asks about it.
    is_plain = "names" not in arm.harmless.needs
    lacking = [
        item.id
        for item, resources in asked
        if not (is_plain and arm.harmless.n_variants(item, resources) >= arm.of.budget)
        and arm.of.obstacle(item, resources) is None
        and not arm.fills(item, resources)
    ]
    if not lacking:
        return None
    n_items = sum(arm.of.obstacle(item, resources) is None for item, resources in asked)
    if n_items - len(lacking) >= LEAST_FILLED * n_items:
        return None
    ids = list(dict.fromkeys(lacking))
    named = ", ".join(map(repr, ids[:_MOST_NAMED]))
    more = f" and {len(ids) - _MOST_NAMED:,} more" if len(ids) > _MOST_NAMED else ""
    return (
        f"it has as many variants as the attack has queries on only {n_items - len(lacking):,} of "
        f"{n_items:,} items, and too few on {named}{more}"
    )


def noise_controls(
    attacks: Sequence[AttackPart], kind: Kind
) -> tuple[list[AttackPart], ControlPlan]:
    """Return the control arm of every perturbed copy of tagged texts that the experiment lacks.

    It is `non_entity_noise`, which changes as many words, none of them in an entity. Attacks with
    the same control share it. A search has none, nor have other kinds.

    Args:
        attacks: the experiment's attacks.
        kind: kind of its items.

    Returns:
        The arms, and why attacks have none.
    """
    known, added, left_out = [part.attack.spec() for part in attacks], list[AttackPart](), {}
    for part in attacks:
        parameters = control_of(part.attack.spec())
        if not kind.has_parts or parameters is None:
            why = "a search perturbs no whole data set" if kind.has_parts else _NOT_TAGGED
            if part.attack.spec()["name"] != NOISE_CONTROL and not isinstance(part.attack, Unasked):
                left_out[part.label] = {NOISE_CONTROL: why}
            continue
        control = make_attack(NOISE_CONTROL, parameters)
        if control.spec() not in known:
            known.append(control.spec())
            label = f"{PREFIX}{part.label}"
            added.append(AttackPart(label=label, attack=control, is_labelled=True))
    return added, ControlPlan(left_out=left_out)


def named_on_sentences(wanted: bool | Sequence[str] | None, kind: Kind) -> None:
    """Refuse a list of controls on data without questions.

    Raises:
        UsageError: controls are named.
    """
    if not isinstance(wanted, bool | None):
        raise UsageError(
            f"[experiment] controls = {list(wanted)}: these are controls of attacks on questions, "
            f"but the data are {kind.name}; write true, or leave the key out"
        )
