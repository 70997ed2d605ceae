"""What a run stores of its attacks, so that readers load none of them (`AttackRecord`)."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from medstress.attacks.attacked import AttackedArm
from medstress.attacks.noise.non_entity_noise import NonEntityNoise, is_control_of
from medstress.attacks.protocol import Attack, AttackTraits, rebuilt
from medstress.experiment.plan.parts import AttackPart
from medstress.experiment.plan.plan import Prepared


def attack_records(prepared: Prepared) -> dict[str, dict[str, Any]]:
    """Return for each attack, by label, the fields of its record beside the parameters."""
    return {part.label: _record(part, prepared) for part in prepared.attacks}


def _record(part: AttackPart, prepared: Prepared) -> dict[str, Any]:
    traits, spec = part.attack.traits, part.attack.spec()
    judged = prepared.kind.is_judged or spec.get("max_change") is not None
    return {
        "draws_names": _draws_names(part.attack),
        "whole_copy": traits.is_static,
        "judged": judged,
        "control_of": _control_of(part.label, spec, prepared),
        "traits": _traits(traits),
    }


def _traits(traits: AttackTraits) -> dict[str, Any]:
    """Return what of an attack decides how its answers are judged, where it is not the default.

    With it a trial is judged again where the attack is not installed.
    """
    found: dict[str, Any] = {}
    for one in fields(traits):
        value = getattr(traits, one.name)
        if one.name == "roles" or value == one.default:
            continue
        if one.name == "goal" and not isinstance(value, str):
            return {}  # a rule of its own
        found[one.name] = sorted(value) if isinstance(value, frozenset) else value
    return found


def _draws_names(attack: Attack) -> bool:
    """Return whether edits put in names; stored ones do if those that they come from did."""
    if not isinstance(attack, AttackedArm):
        return attack.traits.needs_entities
    spec = attack.stored.spec
    while "of" in spec:
        spec = spec["of"]
    made = rebuilt(spec)
    return made is not None and made.traits.needs_entities


def _control_of(label: str, spec: dict[str, Any], prepared: Prepared) -> str | None:
    """Return the label of the attack that an arm controls; None for an attack."""
    if "control_of" in spec:
        return label.removesuffix(f" / {spec['name']}")
    if spec["name"] != NonEntityNoise.name:
        return None
    controlled = (p.label for p in prepared.attacks if is_control_of(spec, p.attack.spec()))
    return next(controlled, None)
