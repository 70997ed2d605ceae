"""The manifest of a run: versions, hashes, and whether a folder may be resumed or extended."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from medstress.backends.python.functions import PythonBackend
from medstress.core.calls import Backend
from medstress.core.errors import OtherRunError
from medstress.core.hashing import content_hash
from medstress.experiment.file.config import VictimTable
from medstress.experiment.plan.changes import Changes, differing
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import used_tables
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.records import attack_records
from medstress.experiment.plan.roles import RolePart
from medstress.experiment.plan.surrogate_coverage import surrogates_of
from medstress.experiment.plan.targets import target_hash, watched
from medstress.files.versions import versions
from medstress.store.run_store import RunStore
from medstress.tasks.victim import Victim


def fingerprint_parts(prepared: Prepared) -> dict[str, Any]:
    """Return the hashes that identify the experiment, by label.

    Paths, devices and batch sizes are left out.
    """
    settings = prepared.experiment.experiment
    return {
        "seeds": list(settings.seeds),
        "settings": {"flip_check": settings.flip_check, **prepared.portion.settings},
        "items": prepared.selected(),
        "groups": {part.label: part.fingerprint for part in prepared.groups},
        "victims": {victim.label: content_hash(victim.spec()) for victim in prepared.victims},
        "attacks": {part.label: content_hash(part.attack.spec()) for part in prepared.attacks},
        **_prompts_by_dataset(prepared.victims),
        **({"roles": {part.name: part.hash for part in prepared.roles}} if prepared.roles else {}),
    }


def differences(
    old: Mapping[str, Any], new: Mapping[str, Any], changes: Changes | None = None
) -> list[str]:
    """List what the new experiment changes or lacks; if nothing, the folder may be extended.

    Args:
        old: the folder's `fingerprint_parts`.
        new: the experiment's.
        changes: says which keys of a part differ.

    >>> old = {"seeds": [0], "settings": {}, "items": {}, "victims": {"m": "1"}}
    >>> differences(old, {**old, "seeds": [0, 1]})
    []
    >>> differences(old, {**old, "victims": {"m": "2"}})
    ["victim 'm' changed"]
    >>> differences(old, {**old, "settings": {"flip_check": True}, "seeds": [1]})
    ['seeds [0] are missing', 'flip_check was not set, is true']
    """
    changes = changes or Changes()
    found = []
    if missing := [seed for seed in old["seeds"] if seed not in new["seeds"]]:
        found.append(f"seeds {missing} are missing")
    found += differing(old["settings"], new["settings"])
    found += _lost_items(old, new, changes)
    for kind, noun in (("groups", "entity group"), ("victims", "victim"), ("attacks", "attack")):
        for label, value in old.get(kind, {}).items():
            if label not in new[kind]:
                known = old[kind]
                same = [name for name, v in new[kind].items() if v == value and name not in known]
                now = ", ".join(repr(name) for name in new[kind] if name not in known)
                hint = f" (new: {now})" if now else ""
                if same:
                    hint = f" (it is now called {same[0]!r}: label it {label!r})"
                found.append(f"{noun} {label!r} is missing{hint}")
            elif new[kind][label] != value:
                found.append(f"{noun} {label!r} changed{changes.of(kind, label)}")
    found += _other_prompts(old, new)
    roles, asked = old.get("roles") or {}, new.get("roles") or {}
    # A folder without roles may be extended by an attack that asks roles.
    for name, value in roles.items():
        if name not in asked:
            found.append(f"role {name!r} is missing")
        elif value != asked[name]:
            found.append(f"role {name!r} changed{changes.of('roles', name)}")
    found += [f"role {name!r} is new" for name in asked if roles and name not in roles]
    return found


def _lost_items(old: Mapping[str, Any], new: Mapping[str, Any], changes: Changes) -> list[str]:
    found: dict[str, None] = {}
    # Mentions of a group are part of an item.
    dropped = [label for label in old.get("groups", {}) if label not in new["groups"]]
    for label, hashes in old["items"].items():
        dataset, _, group = label.rpartition("/")
        if label in new["items"]:
            lost = set(hashes) - set(new["items"][label])
            if lost and not (dropped and changes.are_all_there(dataset, lost)):
                told = changes.of_items(dataset, lost)
                found[f"{len(lost)} items of dataset {dataset!r} are missing or changed{told}"] = (
                    None
                )
        elif group in new["groups"]:
            found[f"dataset {dataset!r} is missing"] = None
    return list(found)


def _prompts_by_dataset(victims: Sequence[Victim]) -> dict[str, Any]:
    """Return the hashes of prompts that differ by data set; empty if none do."""
    found = {
        victim.label: {name: content_hash(spec) for name, spec in victim.prompt_specs().items()}
        for victim in victims
        if victim.by_dataset
    }
    return {"prompts": found} if found else {}


def _other_prompts(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """List the victims and data sets of the folder whose prompt changed."""
    datasets = dict.fromkeys(label.rpartition("/")[0] for label in old["items"])
    was, now = old.get("prompts", {}), new.get("prompts", {})
    return [
        f"the prompt of victim {victim!r} for dataset {dataset!r} changed"
        for victim in old["victims"]
        for dataset in datasets
        if victim in new["victims"]
        and was.get(victim, {}).get(dataset) != now.get(victim, {}).get(dataset)
    ]


def check_same_run(
    store: RunStore, known: Mapping[str, Any], new: Mapping[str, Any], prepared: Prepared
) -> None:
    """Check that an experiment resumes or extends a folder and changes nothing in it.

    Args:
        store: the run folder.
        known: its manifest.
        new: the experiment's `fingerprint_parts`.
        prepared: the experiment.

    Raises:
        OtherRunError: something differs; the message names it, with its old and new value.
    """
    if not differences(known["parts"], new):
        return
    found = differences(known["parts"], new, changes_of(store, known, new, prepared))
    raise OtherRunError(
        f"{store.folder} holds another experiment: {'; '.join(found)}. "
        "Choose another folder with --out, or throw the old run away with --fresh",
        store.folder,
    )


def changes_of(
    store: RunStore | None, known: Mapping[str, Any], new: Mapping[str, Any], prepared: Prepared
) -> Changes:
    """Return what tells the keys in which a folder and an experiment differ."""
    return Changes(
        known=known,
        new=describe(prepared, new),
        stored=store.item_hashes() if store is not None else (),
        items={part.label: [item.id for item in part.questions] for part in prepared.datasets},
    )


def former_victims(
    known: Mapping[str, Any], new: Mapping[str, Any], may_lack: Collection[str]
) -> list[str]:
    """List victims of a folder that its experiment has dropped and was allowed to drop."""
    held = known["victims"] if known else ()
    return [label for label in held if label in may_lack and label not in new["victims"]]


def describe(prepared: Prepared, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest entries that describe the run."""
    return {
        "given": prepared.given,
        "base": str(prepared.base),
        "config": used_tables(prepared.experiment),
        "parts": dict(parts),
        "fingerprint": content_hash(parts),
        "seeds": list(prepared.experiment.experiment.seeds),
        "versions": versions(),
        "git_commit": git_commit(prepared.base),
        "datasets": {part.label: _dataset(part, prepared) for part in prepared.datasets},
        "groups": {
            part.label: {**part.describe(), "recogniser": found}
            for part, found in zip(prepared.groups, prepared.recognisers, strict=True)
        },
        "victims": {
            victim.label: {
                **_victim(victim),
                **_size(table, victim),
                **_part_of(victim.label, prepared.portion.names),
            }
            for victim, table in zip(prepared.victims, prepared.experiment.victim, strict=True)
        },
        "attacks": {part.label: part.attack.spec() for part in prepared.attacks},
        "records": attack_records(prepared),
        "controls": prepared.controls.describe(),
        "roles": {part.name: _role(part) for part in prepared.roles},
        "endpoints": endpoints([*prepared.victims, *prepared.roles]),
        **({"surrogates": found} if (found := list(surrogates_of(prepared))) else {}),
        **prepared.portion.notes,
    }


def endpoints(victims: Sequence[Victim | RolePart]) -> list[dict[str, Any]]:
    """Describe the servers that are asked and the models they have answered as."""
    found = [(victim.label, victim.backend.endpoint) for victim in victims]
    return [{"victim": label, **endpoint} for label, endpoint in found if endpoint]


def expect_same_models(victims: Sequence[Victim | RolePart], known: Mapping[str, Any]) -> None:
    """Tell each server's back end the model and temperature it answered with before.

    Args:
        victims: the victims and roles.
        known: the stored manifest.
    """
    stored = {each["victim"]: each for each in known.get("endpoints") or ()}
    for victim in victims:
        victim.backend.expect(stored.get(victim.label, {}))


def _role(part: RolePart) -> dict[str, Any]:
    return {
        "model": part.backend.identity.name,
        "model_hash": part.backend.identity.hash,
        "decoding": [part.decoding.max_new_tokens, part.decoding.temperature],
        "price_in": part.table.price_in,
        "price_out": part.table.price_out,
        "backend": _deciding(part.backend),
        **_watched(part.backend),
    }


def _dataset(part: DatasetPart, prepared: Prepared) -> dict[str, Any]:
    drawn = (group for group in prepared.question_groups if group.needs_passages)
    passages = [group.resources_on(part).passages.hash for group in drawn]
    return {
        "n_items": len(part.questions),
        "n_rows": len(part.all_items),
        "skipped": list(part.loaded.skipped),
        "notes": list(part.loaded.notes),
        **({"understood": part.loaded.understood} if part.loaded.understood else {}),
        "hash": part.loaded.source_hash,
        **({"passages": passages[0]} if passages else {}),
    }


def _victim(victim: Victim) -> dict[str, Any]:
    return {
        "model": victim.backend.identity.name,
        "model_hash": victim.backend.identity.hash,
        **_task(victim),
        **(
            {"by_dataset": {name: _task(victim.on(name)) for name, _ in victim.by_dataset}}
            if victim.by_dataset
            else {}
        ),
        "backend": _deciding(victim.backend),
        **_watched(victim.backend),
    }


def _deciding(backend: Backend) -> dict[str, Any]:
    """Return what of a back end decides which calls are made."""
    traits = backend.traits
    return {
        "calls": sorted(traits.calls),
        "structured": traits.structured,
        "in_turns": traits.in_turns,
        **({"labels": list(traits.labels)} if traits.labels else {}),
    }


def _watched(backend: Backend) -> dict[str, Any]:
    """Describe the files watched for a user's function."""
    if not isinstance(backend, PythonBackend):
        return {}
    return {"watched": watched(backend), "target_hash": target_hash(backend)}


def _task(victim: Victim) -> dict[str, Any]:
    """Return what is needed to read its answers again."""
    return {"task": victim.task.spec(), "prompt": victim.prompt}


def _part_of(label: str, names: Mapping[str, str]) -> dict[str, str]:
    """Return the name in results of a victim that is asked about some of the items."""
    return {"part_of": names[label]} if label in names else {}


def _size(table: VictimTable, victim: Victim) -> dict[str, Any]:
    """Return what figures by size and costs need; no part of the fingerprint.

    The number of parameters is the user's, or else what a local back end counted.
    """
    counted = victim.backend.traits.parameters
    parameters = table.parameters if table.parameters is not None else counted
    names = ("family", "group", "price_in", "price_out")
    return {"parameters": parameters, **{name: getattr(table, name) for name in names}}


def git_commit(folder: Path) -> str | None:
    """Return the commit of the repository that holds the experiment file, or None."""
    try:
        done = subprocess.run(
            ["git", "-C", str(folder), "rev-parse", "HEAD"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def now() -> str:
    """Return the time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def command_line() -> str:
    """Return the command that started this process, without the interpreter's path."""
    import shlex

    name = Path(sys.argv[0]).name
    # `python -m medstress` begins with the name of a module's file.
    return shlex.join(["medstress" if name == "__main__.py" else name, *sys.argv[1:]])
