"""Build the attacks of a run again from what its folder says, as far as judging answers needs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from medstress.attacks.attacked import AttackedArm
from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.control import Control
from medstress.attacks.protocol import Attack, rebuilt
from medstress.core.attacked import NAME as ATTACKED
from medstress.core.attacked import AttackSet, Selection, StoredArm
from medstress.core.errors import UsageError
from medstress.core.items import Question
from medstress.core.resources import PerturbationSet, Resources
from medstress.core.validity import VARIANT_CLASSES
from medstress.entities.name_rules import NameRules, option_texts
from medstress.entities.names import DIFFERENT, variant_class
from medstress.entities.no_names import NoNames
from medstress.entities.semantic_types import types_of
from medstress.entities.synonyms import SynonymGroups, load_synonyms

_OWN_LISTS = ("default", "none")
_NAMES_A_FILE = ("template", "exemplars_from")
"""Parameters that name files of the user; nothing in them judges an answer."""
_LACK = "the rule reads names or vectors that are not in the folder"
_NO_LIST = SynonymGroups("", "", ())


class NotJudgedError(Exception):
    """What a trial says cannot be judged here; the message says why."""


def attack_of(spec: Mapping[str, Any]) -> Attack:
    """Return the attack that an arm's parameters describe.

    Raises:
        NotJudgedError: it is of a plug-in that is not installed.
    """
    found = _stored(spec) if "set" in spec and "of" in spec else _own(spec)
    if found is None:
        name = spec.get("control_of", spec).get("name", spec.get("name"))
        raise NotJudgedError(f"the attack {name!r} is not installed")
    return found


def _own(spec: Mapping[str, Any]) -> Attack | None:
    known = {
        key: value
        for key, value in spec.items()
        if key not in _NAMES_A_FILE and not (key == "budget" and value is None)
    }
    if "control_of" not in spec:
        return rebuilt(known)
    control, of = rebuilt(known), _own(spec["control_of"])
    if not isinstance(control, Control) or of is None:
        return None
    return control_arm(control, of)


def _stored(spec: Mapping[str, Any]) -> Attack | None:
    of = rebuilt(spec["of"]) if spec["name"] == ATTACKED else None
    control = None if spec["name"] == ATTACKED else str(spec["name"])
    changes = spec["name"] == ATTACKED and of is not None and of.traits.changes_evidence
    if spec["name"] == ATTACKED and of is None and spec["of"].get("name") != ATTACKED:
        return None
    stored = StoredArm(
        label=spec["label"],
        control=control,
        spec=spec["of"],
        is_blind=bool(spec["is_blind"]),
        changes_evidence=changes,
        fields=(),
        seeds=(None,),
        n_repeats=1,
        most=spec["budget"],
    )
    whole = AttackSet(
        hash=spec["set"], source=spec["source"], selection=Selection(spec["selection"]), arms=()
    )
    return AttackedArm(stored=stored, set=whole, budget=spec["budget"])


class _Rules(NameRules):
    """The rules for names, which need no vectors."""

    def evidence(self, item: Question, name: str, field: str) -> tuple[()]:
        """Return nothing: what tables said is taken as it is stored."""
        return ()

    def __getattr__(self, name: str) -> Any:
        raise NotJudgedError(_LACK)


class _UnknownList(_Rules):
    """The same without the user's list of synonyms."""

    def variant_class(self, item: Question, name: str) -> str:
        """Return the class of a name, unless it could be that of a synonym."""
        found = variant_class(name, option_texts(item, item.key))
        if found == VARIANT_CLASSES[DIFFERENT]:
            raise NotJudgedError(
                "whether a name is a synonym of the key says a list of yours, which is not in the "
                "folder: give it with --synonyms"
            )
        return found


class _Unknown:
    """Stands for what a folder does not hold; using it ends the judging."""

    def __getattr__(self, name: str) -> Any:
        raise NotJudgedError(_LACK)


def resources_of(manifest: Mapping[str, Any], synonyms: Path | None) -> dict[str, Resources]:
    """Return group -> what rules may read, as far as the folder says it.

    Args:
        manifest: of the run.
        synonyms: the user's list of synonyms, for groups with a list of their own.

    Raises:
        UsageError: the list cannot be read, or is that of no group of the run.
    """
    tables = iter(manifest["config"].get("entities") or ())
    given = None if synonyms is None else load_synonyms(str(synonyms.resolve()), Path())
    found: dict[str, Resources] = {}
    fits: dict[str, bool] = {}
    for label, group in (manifest.get("groups") or {}).items():
        names: Any = NoNames()
        types: frozenset[str] = frozenset()
        if "vocabulary" in group:
            table: Mapping[str, Any] = next(tables, {})
            source, types = str(table.get("synonyms", "default")), types_of(table["type"])
            if source in _OWN_LISTS:
                names = _Rules(load_synonyms(source, Path()))
            else:
                used = group["synonyms_hash"]
                names = _UnknownList(_NO_LIST)
                if given is not None and used == given.hash:
                    names = _Rules(given)
                fits[f"{used} of {label}"] = not isinstance(names, _UnknownList)
        found[label] = Resources(
            group=label,
            types=types,
            perturbations=cast("PerturbationSet", names),
            noise=_Unknown(),
            passages=cast("Any", _Unknown()),
        )
    if given is not None and fits and not any(fits.values()):
        raise UsageError(
            f"--synonyms {synonyms}: expected the list that the run used, with the hash "
            f"{', '.join(fits)}; found another one, with the hash {given.hash}"
        )
    return found
