"""`[experiment] controls = true`: a control arm beside every attack that has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from medstress.attacks.noise.non_entity_noise import NonEntityNoise, control_of
from medstress.attacks.protocol import make_attack
from medstress.errors import UsageError
from medstress.experiment.parts import AttackPart
from medstress.kinds import Kind

PREFIX = "control of "
"""Begins the label of a control that the user has not written."""


def with_controls(attacks: Sequence[AttackPart], kind: Kind) -> list[AttackPart]:
    """Add the control arm of every attack, unless it is there.

    The control of a perturbed copy of tagged texts is `non_entity_noise`: as many words changed,
    none of them in an entity. Attacks of one control share it. A search has none.

    Args:
        attacks: of the experiment.
        kind: of its items.

    Raises:
        UsageError: the items are others, or no attack has a control.
    """
    if not kind.has_controls:
        raise UsageError(
            f"[experiment] controls = true is built for tagged texts, and the data are "
            f"{kind.name}; leave the key out"
        )
    known = [part.attack.spec() for part in attacks]
    added = list(_missing(attacks, known))
    if not added and not any(spec["name"] == NonEntityNoise.name for spec in known):
        raise UsageError(
            "[experiment] controls = true: none of the attacks has a control; a search perturbs no "
            'whole data set, so write search = "none", or leave the key out'
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
