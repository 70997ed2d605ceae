"""What differs between two arms, read from the manifests of their runs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from medstress.comparison.attacked import is_replay
from medstress.comparison.sides import Arm
from medstress.results.victims import entries_of

Manifest: TypeAlias = Mapping[str, Any]

ATTACK, NAMES, ROLE = "attack", "names", "role"
TIME, TRAINING, VERSION, VICTIM = "time", "training", "version", "victim"
OF_ATTACKS = frozenset({ATTACK, NAMES, ROLE})
"""Factors that leave clean answers as they are."""

_MEDSTRESS = "medstress"
_READ_BY = {"generate": {"parser", "decoding"}, "choice": {"parser"}, "text": {"text_score"}}
"""Way of answering -> the keys of a task that it reads; the others do not matter there."""
_OF_SOME_WAYS = frozenset().union(*_READ_BY.values())
_SHOWN = 4


@dataclass(frozen=True, slots=True, kw_only=True, order=True)
class Factor:
    """One thing that differs."""

    name: str
    """What it is called, such as `attack`, `names`, `victim` or `prompt`."""
    what: str
    """What it is in A and in B, for people."""

    @property
    def changes_clean_answers(self) -> bool:
        """True if the victim may answer clean items in another way."""
        return self.name not in OF_ATTACKS


def factors_of(first: Manifest, ours: Arm, second: Manifest, theirs: Arm) -> list[Factor]:
    """List what differs between an arm of A and an arm of B; empty if nothing does."""
    replays = is_replay(first, ours, second, theirs)
    attack = [] if replays else _attack(first["attacks"], ours, second["attacks"], theirs)
    found = [
        *_models(first, ours.victim, second, theirs.victim),
        *_tasks(_task_on(first, ours), _task_on(second, theirs)),
        *attack,
        *_groups(first, ours.group, second, theirs.group, other_attack=bool(attack) or replays),
        *_roles(first, second, other_attack=bool(attack) or replays),
        *_version(first, second),
    ]
    return list(dict.fromkeys(found))


def also_differs(first: Manifest, second: Manifest) -> dict[str, list[str]]:
    """Return the versions of libraries and the settings that differ: listed, but no factor."""
    found = _differing(_without(first["versions"]), _without(second["versions"]))
    settings = _differing(first["parts"]["settings"], second["parts"]["settings"])
    return {**found, **{f"[experiment] {key}": values for key, values in settings.items()}}


def _differing(first: Manifest, second: Manifest) -> dict[str, list[str]]:
    keys = dict.fromkeys((*first, *second))
    return {
        key: [_shown(first.get(key)), _shown(second.get(key))]
        for key in keys
        if first.get(key) != second.get(key)
    }


def _without(versions: Manifest) -> Manifest:
    return {key: value for key, value in versions.items() if key != _MEDSTRESS}


def _version(first: Manifest, second: Manifest) -> Iterator[Factor]:
    """Compare the versions of medstress."""
    ours, theirs = (each["versions"].get(_MEDSTRESS) for each in (first, second))
    if ours != theirs:
        yield Factor(name=VERSION, what=f"medstress {ours} in A, {theirs} in B")


def _models(first: Manifest, ours: str, second: Manifest, theirs: str) -> Iterator[Factor]:
    entries = [entries_of(*each).values() for each in ((first, ours), (second, theirs))]
    hashes = [sorted(str(entry["model_hash"]) for entry in side) for side in entries]
    names = [sorted(str(entry["model"]) for entry in side) for side in entries]
    if hashes[0] == hashes[1]:
        served = [_served(first, ours), _served(second, theirs)]
        if None not in served and served[0] != served[1]:
            yield Factor(name=VERSION, what=f"the server answered as {served[0]}, {served[1]}")
        return
    trained = [_training(first, ours), _training(second, theirs)]
    bases = [side["model"] if side else names[i][0] for i, side in enumerate(trained)]
    if any(trained) and bases[0] == bases[1]:
        yield Factor(name=TRAINING, what=_trainings(first, ours, second, theirs))
    elif names[0] != names[1] or any(trained):
        yield Factor(name=VICTIM, what=f"{_named(names[0])} in A, {_named(names[1])} in B")
    else:
        yield Factor(
            name=VERSION, what=f"{_named(names[0])}: its weights, settings or code changed"
        )


def _served(manifest: Manifest, victim: str) -> str | None:
    for endpoint in manifest.get("endpoints") or ():
        if endpoint.get("victim") == victim and endpoint.get("answered_as"):
            return str(endpoint["answered_as"])
    return None


def _training(manifest: Manifest, victim: str) -> Mapping[str, Any] | None:
    """Return the training of a run, if the victim was trained in it."""
    notes: Mapping[str, Any] | None = manifest.get("training")
    if notes is None or all(model["victim"] != victim for model in notes["models"]):
        return None
    return notes


def _trainings(first: Manifest, ours: str, second: Manifest, theirs: str) -> str:
    tables = [each["config"].get("train") or {} for each in (first, second)]
    changed = _differing(*tables)
    if ours != theirs or not changed:
        return f"{ours!r} in A, {theirs!r} in B"
    shown = [f"{key} {a} in A, {b} in B" for key, (a, b) in changed.items()]
    return f"{ours!r} with {'; '.join(shown[:_SHOWN])}"


def _named(names: Sequence[str]) -> str:
    return repr(names[0]) if len(names) == 1 else f"{len(names)} models, the first {names[0]!r}"


def _task_on(manifest: Manifest, arm: Arm) -> Mapping[str, Any]:
    """Return what an arm's victim was asked with: `task` and `prompt`."""
    entry = next(iter(entries_of(manifest, arm.victim).values()))
    return {**entry, **entry.get("by_dataset", {}).get(arm.dataset, {})}


def _tasks(first: Mapping[str, Any], second: Mapping[str, Any]) -> Iterator[Factor]:
    (ours, our_wraps), (theirs, their_wraps) = _unwrapped(first["task"]), _unwrapped(second["task"])
    for name in ("shots", "wrap"):
        wraps = [
            [each for each in side if (each["wrap"] == "few_shot") == (name == "shots")]
            for side in (our_wraps, their_wraps)
        ]
        if wraps[0] != wraps[1]:
            a, b = (", ".join(str(each["wrap"]) for each in side) or "none" for side in wraps)
            yield Factor(name=name, what=f"{a} in A, {b} in B")
    ways = ours.get("answer_by"), theirs.get("answer_by")
    if ways[0] != ways[1]:
        yield Factor(name="answer_by", what=f"{ways[0]} in A, {ways[1]} in B")
    for key, (a, b) in _differing(ours, theirs).items():
        if key == "template":
            yield Factor(name="prompt", what=_prompts(first, second))
        elif key != "answer_by" and not _is_unread(key, ways):
            yield Factor(name=key, what=f"{a} in A, {b} in B")


def _is_unread(key: str, ways: tuple[Any, Any]) -> bool:
    """Return whether a key of a task is read by none of two ways of answering, or they differ."""
    return key in _OF_SOME_WAYS and (
        ways[0] != ways[1] or key not in _READ_BY.get(str(ways[0]), ())
    )


def _prompts(first: Mapping[str, Any], second: Mapping[str, Any]) -> str:
    a, b = ((side.get("prompt") or {}).get("name", "?") for side in (first, second))
    return f"{a} in A, {b} in B" if a != b else f"{a}, with another text"


def _unwrapped(task: Mapping[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    wraps = []
    while "task" in task:
        wraps.append({key: value for key, value in task.items() if key != "task"})
        task = task["task"]
    return dict(task), wraps


def _attack(first: Manifest, ours: Arm, second: Manifest, theirs: Arm) -> list[Factor]:
    specs = first[ours.attack], second[theirs.attack]
    if json.dumps(specs[0], sort_keys=True) == json.dumps(specs[1], sort_keys=True):
        return []
    changed = _differing(*specs)
    if "name" in changed:
        changed = {"name": changed["name"]}
    told = [f"{key} {a} in A, {b} in B" for key, (a, b) in changed.items()]
    return [Factor(name=ATTACK, what="; ".join(told[:_SHOWN]))]


def _groups(
    first: Manifest, ours: str, second: Manifest, theirs: str, *, other_attack: bool
) -> Iterator[Factor]:
    """Compare what attacks draw names from; another attack may draw none at all."""
    hashes = [
        side["parts"]["groups"].get(group) for side, group in ((first, ours), (second, theirs))
    ]
    if hashes[0] == hashes[1]:
        return
    told = [first["groups"].get(ours, {}), second["groups"].get(theirs, {})]
    if other_attack and not all(each.get("n_names") for each in told):
        return
    keys = ("vocabulary", "n_names", "vocabulary_hash", "embedding", "distance")
    changed = _differing(*({key: each.get(key) for key in keys} for each in told))
    changed.pop("vocabulary_hash", None) if len(changed) > 1 else None
    shown = [f"{key} {a} in A, {b} in B" for key, (a, b) in changed.items()]
    yield Factor(name=NAMES, what="; ".join(shown) or "types, synonyms or word lists of the group")


def _roles(first: Manifest, second: Manifest, *, other_attack: bool) -> Iterator[Factor]:
    ours, theirs = (each["parts"].get("roles") or {} for each in (first, second))
    if other_attack and not (ours and theirs):
        return
    for role in _differing(ours, theirs):
        a, b = (str(each.get("roles", {}).get(role, {}).get("model")) for each in (first, second))
        yield Factor(name=ROLE, what=f"{role}: {a} in A, {b} in B")


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else f"{text[:57]}..."


def names_of(factors: Iterable[Factor]) -> list[str]:
    """Return the distinct names, in order."""
    return list(dict.fromkeys(factor.name for factor in factors))
