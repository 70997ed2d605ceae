"""Attacks with their labels, and their controls."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from medstress.attacks.attacked import Attacked
from medstress.attacks.controls.arm import LEAST_FILLED, ControlArm, control_arm
from medstress.attacks.controls.harmless import Control
from medstress.attacks.noise import DEFAULT_FIELD, Noise
from medstress.attacks.noise_control import NonEntityNoise, has_control
from medstress.attacks.protocol import QUESTIONS, Attack, Unasked, make_attack
from medstress.core.arms import BETWEEN, CONTROLS, NOISE_CONTROL, arm_label
from medstress.core.attacked import NAME
from medstress.core.errors import UsageError, did_you_mean
from medstress.experiment import config
from medstress.experiment.data import DatasetPart
from medstress.experiment.groups import GroupPart
from medstress.tasks.kinds import Kind


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackPart:
    """One attack with its label."""

    label: str
    """Name in results."""
    attack: Attack
    """The attack."""
    is_labelled: bool = False
    """True if the user gave the label."""

    @property
    def as_control(self) -> tuple[str, str] | None:
        """Label of the attack whose control arm it is, and the control's name."""
        if not isinstance(self.attack, ControlArm):
            return None
        name = self.attack.harmless.name
        return self.label.removesuffix(f"{BETWEEN}{name}"), name


def make_attacks(tables: Sequence[config.Attack], base: Path | None = None) -> list[AttackPart]:
    """Build the attacks of all tables, with their labels and files.

    Args:
        tables: the attacks.
        base: folder that their relative paths start from; default: the working folder.

    Raises:
        UsageError: an attack has invalid parameters or is not installed.
    """
    entries, attacks = [], []
    for table in tables:
        is_list = isinstance(table.parameters.get("n"), tuple)
        for n, attack in zip(table.exponents, table.attacks, strict=True):
            attacks.append(attack.with_files(base or Path()))
            label = f"{table.label} n={n:g}" if table.label and is_list else table.label
            entries.append((label, table.name, attacks[-1].label_parameters()))
    labels = config.unique_labels("attack", entries)
    return [
        AttackPart(label=label, attack=attack, is_labelled=own is not None)
        for label, attack, (own, _, _) in zip(labels, attacks, entries, strict=True)
    ]


def check_kind(
    experiment: config.Experiment,
    attacks: Sequence[AttackPart],
    kind: Kind,
    classes: tuple[str, ...],
) -> None:
    """Check that tables and attacks fit the kind of the items.

    Args:
        experiment: the checked experiment.
        attacks: its attacks.
        kind: kind of its items.
        classes: classes of its items (`Kind.classes`).

    Raises:
        UsageError: a table or attack is for another kind; the message names it.
    """
    for part in attacks:
        kinds, wrong = part.attack.takes, ""
        field = part.attack.field if isinstance(part.attack, Noise) else DEFAULT_FIELD
        if not kind.is_taken(kinds):
            wrong = f"it is for {' and '.join(sorted(kinds))}"
        elif kind.is_judged and part.attack.spec().get("max_change") is not None:
            wrong = "max_change is for scored pairs"
        elif field != DEFAULT_FIELD and not kind.draws_names:
            wrong = f"field = {field!r} is for questions"
        if wrong:
            raise UsageError(f"attack {part.label!r}: {wrong}, but the data are {kind.name}")
    if kind.draws_names:
        if not experiment.entities and any("names" in p.attack.needs for p in attacks):
            raise UsageError("experiment: the table [[entities]] is missing")
        return
    analysis = experiment.analysis
    asks = analysis.transfer or analysis.reuse or analysis.prompt_similarity
    tables = {"entities": experiment.entities, "tune": experiment.tune, "analysis": asks}
    for table, is_there in tables.items():
        if is_there:
            raise UsageError(f"the table [{table}] is for questions, but the data are {kind.name}")
    if experiment.victim:  # classes are what a model answers
        kind.check(classes, ", ".join(table.path or table.name for table in experiment.dataset))


# -- stored edits, and controls --------------------------------------------------------------------


def with_stored(
    attacks: Sequence[AttackPart], datasets: Sequence[DatasetPart], seeds: Sequence[int]
) -> list[AttackPart]:
    """Return the attacks, `attacked` replaced by the arms of the file that the data set read.

    Args:
        attacks: the experiment's attacks.
        datasets: the data sets, loaded.
        seeds: the experiment's seeds.

    Raises:
        UsageError: no data set or several of this name, or a seed is not stored.
    """
    made = [part for part in attacks if not isinstance(part.attack, Attacked)]
    if len(made) == len(attacks):
        return made
    sets = [stored for one in datasets if (stored := one.loaded.attack_set) is not None]
    if len(sets) != 1 or not sets[0].arms:
        raise UsageError(
            f'attack "{NAME}" asks the edits of one [[dataset]] of name = "{NAME}" that holds an '
            f"attack; medstress export DIR --table {NAME} --to FILE.jsonl writes such a file"
        )
    n_tables = len(attacks) - len(made)
    for part in attacks:
        arms = part.attack.arms(sets[0]) if isinstance(part.attack, Attacked) else ()
        for arm in arms:
            label, own_seeds = arm.stored.label, arm.stored.seeds
            if own_seeds != (None,) and not set(seeds) <= set(own_seeds):
                raise UsageError(
                    f"[experiment] seeds: the file holds the edits of {label!r} for seeds = "
                    f"[{', '.join(map(str, own_seeds))}] alone; give some of these"
                )
            if n_tables > 1 or part.is_labelled:
                label = f"{part.label}: {label}" if len(arms) > 1 else part.label
            made.append(AttackPart(label=label, attack=arm, is_labelled=part.is_labelled))
    labels = [part.label for part in made]
    if twice := [label for label in labels if labels.count(label) > 1]:
        raise UsageError(
            f'attack "{NAME}": two arms are called {twice[0]!r}; give the tables labels'
        )
    return made


_NOT_TAGGED = "only of tagged texts do the answers rest on entities alone"
_REMEDY = "lower the budget, or name other controls in [experiment] controls"
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
        # An attack that changes the evidence takes no right answer away by chance; a control, and
        # asking the clean items alone, need no control.
        is_controlled = QUESTIONS in part.attack.takes and part.attack.is_judged
        if wanted is False or not is_controlled or isinstance(part.attack, Control | Unasked):
            continue
        of_attack = CONTROLS if wanted is True else names or (part.attack.control or "no_op",)
        for name in of_attack:
            control: Control = make_attack(name, {})  # type: ignore[assignment]
            if (reason := control.unfit(part.attack)) is not None:
                left_out.setdefault(part.label, {})[name] = reason
                continue
            arm = control_arm(control, part.attack)
            label = arm_label(part.label, name)
            arms.append(AttackPart(label=label, attack=arm, is_labelled=part.is_labelled))
    return arms, left_out


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
    n_variants: dict[tuple[str, int], int] = {}
    for part in arms:
        assert isinstance(part.attack, ControlArm)
        reason = _too_few(part.attack, datasets, groups, n_variants)
        if reason is None:
            kept.append(part)
        else:
            leave_out(part, f"{reason}; {_REMEDY}", wanted, left_out)
    return kept


def leave_out(
    part: AttackPart, reason: str, wanted: bool | Sequence[str] | None, left_out: LeftOut
) -> None:
    """Note why an attack has no such control.

    Raises:
        UsageError: the file names it.
    """
    assert part.as_control is not None
    attack, name = part.as_control
    if not isinstance(wanted, bool | None):
        raise UsageError(
            f"[experiment] controls: {name} cannot control attack {attack!r}: {reason}"
        )
    left_out.setdefault(attack, {})[name] = reason


def _too_few(
    arm: ControlArm,
    datasets: Sequence[DatasetPart],
    groups: Sequence[GroupPart],
    n_variants: dict[tuple[str, int], int],
) -> str | None:
    """Say on how many items the control has too few variants; None if these are few.

    `n_variants` holds those of controls that draw no names, which arms and groups share.
    """
    asked = [
        (item, resources)
        for dataset in datasets
        for group in groups
        if (group.table is None) is not ("names" in arm.needs)
        for resources in (group.resources_on(dataset),)
        for item in group.items(dataset)
    ]
    # Most controls have enough variants of nearly every text, whatever the attack asks about it.
    name, is_plain = arm.harmless.name, "names" not in arm.harmless.needs
    for item, resources in asked if is_plain else ():
        if (name, id(item)) not in n_variants:
            n_variants[name, id(item)] = arm.harmless.n_variants(item, resources)
    lacking = [
        item.id
        for item, resources in asked
        if not (is_plain and n_variants[name, id(item)] >= arm.of.budget)
        and arm.of.obstacle(item, resources) is None
        and not arm.fills(item, resources)
    ]
    if not lacking:
        return None
    n_items = sum(arm.of.obstacle(item, resources) is None for item, resources in asked)
    if n_items - len(lacking) >= LEAST_FILLED * n_items:
        return None
    return (
        f"it has as many variants as the attack has queries on only {n_items - len(lacking):,} of "
        f"{n_items:,} items, and too few on {lacking[0]!r}"
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
            label = f"control of {part.label}"
            added.append(AttackPart(label=label, attack=control, is_labelled=True))
    return added, left_out


def check_budgets(attacks: Sequence[AttackPart], groups: Sequence[GroupPart]) -> None:
    """Check that no budget is larger than a vocabulary.

    Raises:
        UsageError: an attack's budget is larger than a group's vocabulary.
    """
    for group in groups:
        if group.table is None:
            continue
        n_undefined = len(group.perturbations.undefined)
        size = len(group.perturbations.names) - n_undefined
        without = f" that are not {group.perturbations.lack}" if n_undefined else ""
        for part in attacks:
            attack = part.attack
            # The budget of a search that never stops early is the vocabulary.
            if "names" in attack.needs and attack.budget > size and attack.ends != "all":
                raise UsageError(
                    f"attack {part.label!r}: budget {attack.budget} is larger than the "
                    f"vocabulary of group {group.label!r} ({size} names{without})"
                )
