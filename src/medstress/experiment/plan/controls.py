"""`[experiment] controls`, and attacks that ask the stored edits of a data set `attacked`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

from medstress.attacks.attacked import Attacked, AttackedArm
from medstress.attacks.controls.arm import LEAST_FILLED, ControlArm, control_arm
from medstress.attacks.controls.harmless import Control
from medstress.attacks.noise_control import NonEntityNoise, has_control
from medstress.attacks.protocol import QUESTIONS, make_attack
from medstress.attacks.unasked import Unasked
from medstress.core.attacked import NAME, AttackSet
from medstress.core.controls import CONTROLS, NOISE_CONTROL, arm_label
from medstress.core.errors import UsageError, did_you_mean
from medstress.datasets.source import Loaded
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart, GroupPart
from medstress.tasks.kinds import Kind


def live_attacks(attacks: Sequence[AttackPart]) -> list[AttackPart]:
    """Return the attacks that make edits of their own."""
    return [part for part in attacks if not isinstance(part.attack, Attacked)]


def stored_attacks(
    attacks: Sequence[AttackPart],
    datasets: Sequence[DatasetPart],
    seeds: Sequence[int],
    wanted: bool | Sequence[str] | None,
) -> tuple[list[AttackPart], list[AttackPart]]:
    """Build the arms of the attacks `attacked` from the file that the data set read.

    Args:
        attacks: the experiment's attacks.
        datasets: the data sets, loaded.
        seeds: the experiment's seeds.
        wanted: `[experiment] controls`.

    Returns:
        The stored attacks, and the stored controls that the experiment wants asked as they are.

    Raises:
        UsageError: no data set or several of this name, or a seed is not stored.
    """
    parts = [part for part in attacks if isinstance(part.attack, Attacked)]
    if not parts:
        return [], []
    found = _the_set(datasets)
    kept: list[AttackPart] = []
    controls: list[AttackPart] = []
    for part in parts:
        assert isinstance(part.attack, Attacked)
        arms = part.attack.arms(found)
        _check_seeds(arms, seeds)
        prefix = _prefix(part, arms, is_alone=len(parts) == 1)
        for arm in arms:
            name = arm.stored.control
            if name is None:
                kept.append(_part(part, prefix, arm))
            elif wanted is None or wanted is True or (wanted and name in wanted):
                controls.append(_part(part, prefix, arm))
    labels = [part.label for part in (*kept, *controls)]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UsageError(
            f'attack "{NAME}": two arms are called {twice[0]!r}; give the tables labels'
        )
    return kept, controls


def _part(part: AttackPart, prefix: str | None, arm: AttackedArm) -> AttackPart:
    stored = arm.stored
    ending = stored.label.removeprefix(stored.attack_label)
    label = stored.label if prefix is None else f"{prefix}{ending}"
    if prefix is not None and prefix.endswith(": "):
        label = f"{prefix}{stored.label}"
    return AttackPart(label=label, attack=arm, is_labelled=part.is_labelled)


def _prefix(part: AttackPart, arms: Sequence[AttackedArm], *, is_alone: bool) -> str | None:
    """Return what begins the labels: the table's own label, or nothing if it stands alone."""
    if is_alone and not part.is_labelled:
        return None
    n = sum(arm.stored.control is None for arm in arms)
    return part.label if n == 1 else f"{part.label}: "


def _the_set(datasets: Sequence[DatasetPart]) -> AttackSet:
    found = [
        part.loaded.attack_set
        for part in datasets
        if isinstance(part.loaded, Loaded) and part.loaded.attack_set is not None
    ]
    if len(found) != 1:
        told = "none is" if not found else f"{len(found)} are"
        raise UsageError(
            f'attack "{NAME}" asks the edits of one [[dataset]] of name = "{NAME}", and {told} '
            f"there; medstress export DIR --table {NAME} --to FILE.jsonl writes such a file"
        )
    if all(arm.control is not None for arm in found[0].arms):
        raise UsageError(f'attack "{NAME}": the file holds no attack; write it again')
    return found[0]


def _check_seeds(arms: Sequence[AttackedArm], seeds: Sequence[int]) -> None:
    for arm in arms:
        stored = arm.stored.seeds
        lost = [seed for seed in seeds if seed not in stored]
        if lost and stored != (None,):
            listed = ", ".join(map(str, stored))
            raise UsageError(
                f"[experiment] seeds: the file holds the edits of {arm.stored.label!r} for "
                f"seeds [{listed}], not for {', '.join(map(str, lost))}; write seeds = [{listed}]"
            )


def without_stored(
    attacks: Sequence[AttackPart],
    controls: Sequence[AttackPart],
    wanted: bool | Sequence[str] | None,
) -> bool | Sequence[str] | None:
    """Return the controls that stored attacks still need, as `control_arms` takes them."""
    if wanted is False or not attacks:
        return False
    stored = {
        part.attack.stored.control for part in controls if isinstance(part.attack, AttackedArm)
    }
    if wanted is None:
        return False if stored else None
    names = CONTROLS if wanted is True else wanted
    return [name for name in names if name not in stored] or False


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


LeftOut: TypeAlias = dict[str, dict[str, str]]
"""Label of an attack -> control -> why the attack has it not."""


def control_arms(
    attacks: Sequence[AttackPart], wanted: bool | Sequence[str] | None
) -> tuple[list[AttackPart], LeftOut]:
    """Build the control arms of all attacks on questions.

    Args:
        attacks: the experiment's attacks.
        wanted: `[experiment] controls`: names, true for all that fit, false for none, or None for
            the default: `no_op`, or `neutral_insertion` where the victim is asked in turns.

    Returns:
        The arms, labelled `<attack> / <control>`; the controls that do not fit.

    Raises:
        UsageError: a name is no control.
    """
    names = () if isinstance(wanted, bool | None) else tuple(wanted)
    for name in names:
        if name not in CONTROLS:
            raise UsageError(
                f"[experiment] controls: {name!r} is no control of attacks on questions; expected "
                f"some of {', '.join(CONTROLS)}{did_you_mean(name, CONTROLS)}"
            )
    arms: list[AttackPart] = []
    left_out: LeftOut = {}
    for part in attacks:
        if wanted is False or not _is_controlled(part):
            continue
        of_attack = CONTROLS if wanted is True else names or (part.attack.control or DEFAULT,)
        for name in of_attack:
            control: Control = make_attack(name, {})  # type: ignore[assignment]
            if (reason := control.unfit(part.attack)) is not None:
                left_out.setdefault(part.label, {})[name] = reason
                continue
            arm = control_arm(control, part.attack)
            label = arm_label(part.label, name)
            arms.append(AttackPart(label=label, attack=arm, is_labelled=part.is_labelled))
    return arms, left_out


def _is_controlled(part: AttackPart) -> bool:
    """Return whether an attack takes right answers away, so that chance has to be told apart.

    What an attack takes that changes the evidence is no error; a control, and asking the clean
    items alone, need no control.
    """
    takes_nothing = isinstance(part.attack, Control | Unasked)
    return QUESTIONS in part.attack.takes and part.attack.is_judged and not takes_nothing


def fitting_arms(
    arms: Iterable[AttackPart],
    left_out: LeftOut,
    datasets: Sequence[DatasetPart],
    groups: Sequence[GroupPart],
    wanted: bool | Sequence[str] | None,
) -> list[AttackPart]:
    """Take out arms that could not ask as often as their attack on 95 % of the items.

    What is taken out is added to `left_out`.

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
        left_out.setdefault(attack, {})[arm.harmless.name] = f"{reason}; {_REMEDY}"
    return kept


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


def noise_controls(attacks: Sequence[AttackPart], kind: Kind) -> tuple[list[AttackPart], LeftOut]:
    """Return the control arm of every perturbed copy of tagged texts that the experiment lacks.

    It is `non_entity_noise`, which changes as many words, none of them in an entity. Attacks with
    the same control share it. A search has none, nor have other kinds.

    Args:
        attacks: the experiment's attacks.
        kind: kind of its items.

    Returns:
        The arms, and why attacks have none.
    """
    added: list[AttackPart] = []
    left_out: LeftOut = {}
    for part in attacks:
        attack = part.attack
        if isinstance(attack, NonEntityNoise | Unasked):
            continue
        if not kind.has_parts or not has_control(attack):
            why = "a search perturbs no whole data set" if kind.has_parts else _NOT_TAGGED
            left_out[part.label] = {NOISE_CONTROL: why}
            continue
        arms = (one.attack for one in (*attacks, *added))
        if not any(isinstance(arm, NonEntityNoise) and arm.controls(attack) for arm in arms):
            control = NonEntityNoise(of=attack.own)
            label = f"{PREFIX}{part.label}"
            added.append(AttackPart(label=label, attack=control, is_labelled=True))
    return added, left_out


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
