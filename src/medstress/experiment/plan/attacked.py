"""Attacks that ask the stored edits of a data set of name `attacked`."""

from __future__ import annotations

from collections.abc import Sequence

from medstress.attacks.attacked import Attacked, AttackedArm
from medstress.core.attacked import NAME, AttackSet
from medstress.core.controls import CONTROLS
from medstress.core.errors import UsageError
from medstress.datasets.source import Loaded
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart


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
    _check_labels([*kept, *controls])
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


def _check_labels(parts: Sequence[AttackPart]) -> None:
    labels = [part.label for part in parts]
    twice = next((label for label in labels if labels.count(label) > 1), None)
    if twice is not None:
        raise UsageError(f'attack "{NAME}": two arms are called {twice!r}; give the tables labels')


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
