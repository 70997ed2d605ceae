"""`[experiment] controls = true`: add the control arm of every attack that has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from medstress.attacks.noise.non_entity_noise import NonEntityNoise, control_of
from medstress.attacks.protocol import make_attack
from medstress.core.errors import UsageError
from medstress.experiment.plan.parts import AttackPart
from medstress.kinds import Kind

PREFIX = "control of "
"""Prefix of the label of an added control."""


def with_controls(attacks: Sequence[AttackPart], kind: Kind) -> list[AttackPart]:
    """Add the control arm of every attack, unless the experiment has it.

    The control of a perturbed copy of tagged texts is `non_entity_noise`, which changes as many
    words, none of them in an entity. Attacks with the same control share it. A search has none.

    Args:
        attacks: the experiment's attacks.
        kind: kind of its items.

    Raises:
        UsageError: the items are not tagged texts, or no attack has a control.
    """
    if not kind.has_controls:
        raise UsageError(
            f"[experiment] controls = true is for tagged texts, but the data are {kind.name}; "
            "leave the key out"
        )
    known = [part.attack.spec() for part in attacks]
    added = list(_missing(attacks, known))
    if not added and not any(spec["name"] == NonEntityNoise.name for spec in known):
        raise UsageError(
            "[experiment] controls = true: none of the attacks has a control, because a search "
            'perturbs no whole data set; write search = "none", or leave the key out'
        )
    return [*attacks, *added]


def _missing(attacks: Sequence[AttackPart], known: list[Any]) -> Iterator[AttackPart]:
    for part in attacks:
        parameters = control_of(part.attack.spec())
        if parameters is None:
            continue
        control = make_attack(NonEntityNoise.name, parameters)
        if control.spec() not in known:
            known.append(control.spec())
            yield AttackPart(label=f"{PREFIX}{part.label}", attack=control, is_labelled=True)
