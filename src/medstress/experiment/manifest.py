"""What a run is: versions, hashes, and whether a folder may be resumed or extended."""

from __future__ import annotations

import platform
import subprocess
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from medstress.errors import StoreError
from medstress.experiment.config import Experiment
from medstress.experiment.parts import AttackPart, DatasetPart, GroupPart, used_tables
from medstress.hashing import content_hash
from medstress.version import __version__
from medstress.victim import Victim

LIBRARIES = ("numpy", "scipy", "polars", "pydantic", "jinja2", "torch", "transformers")


def fingerprint_parts(
    experiment: Experiment,
    datasets: Sequence[DatasetPart],
    groups: Sequence[GroupPart],
    victims: Sequence[Victim],
    attacks: Sequence[AttackPart],
) -> dict[str, Any]:
    """What the experiment is by content, label by label; no paths, devices or batch sizes."""
    return {
        "seeds": list(experiment.experiment.seeds),
        "settings": {"flip_check": experiment.experiment.flip_check},
        "items": {
            part.label: sorted(content_hash([q.id, q.hash]) for q in part.questions)
            for part in datasets
        },
        "groups": {
            part.label: content_hash([sorted(part.resources.types), part.perturbations.hash])
            for part in groups
        },
        "victims": {victim.label: content_hash(victim.spec()) for victim in victims},
        "attacks": {part.label: content_hash(part.attack.spec()) for part in attacks},
    }


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What the folder holds that the new experiment changes or lacks; empty: resume or extend.

    >>> old = {"seeds": [0], "settings": {}, "items": {}, "victims": {"m": "1"}}
    >>> differences(old, {**old, "seeds": [0, 1]})
    []
    >>> differences(old, {**old, "victims": {"m": "2"}})
    ["victim 'm' is another one (model, prompt or source changed)"]
    """
    found = []
    if missing := [seed for seed in old["seeds"] if seed not in new["seeds"]]:
        found.append(f"seeds {missing} are missing")
    if old["settings"] != new["settings"]:
        found.append(f"settings were {old['settings']}, are {new['settings']}")
    for label, hashes in old["items"].items():
        if label not in new["items"]:
            found.append(f"dataset {label!r} is missing")
        elif lost := len(set(hashes) - set(new["items"][label])):
            found.append(f"{lost} items of dataset {label!r} are missing or changed")
    for kind, noun in (("groups", "entity group"), ("victims", "victim"), ("attacks", "attack")):
        for label, value in old.get(kind, {}).items():
            if label not in new[kind]:
                known = old[kind]
                same = [name for name, v in new[kind].items() if v == value and name not in known]
                hint = f" (it is called {same[0]!r} now: label it {label!r})" if same else ""
                found.append(f"{noun} {label!r} is missing{hint}")
            elif new[kind][label] != value:
                hint = " (model, prompt or source changed)" if kind == "victims" else ""
                found.append(f"{noun} {label!r} is another one{hint}")
    return found


def check_same_run(folder: Path, old: Mapping[str, Any], new: Mapping[str, Any]) -> None:
    """Allow resuming and extending; refuse changing.

    Raises:
        StoreError: naming what differs.
    """
    found = differences(old, new)
    if found:
        raise StoreError(
            f"{folder} holds another experiment: {'; '.join(found)}. Choose another folder with "
            "--out, or throw the old run away with --fresh"
        )


def describe(
    experiment: Experiment,
    parts: Mapping[str, Any],
    datasets: Sequence[DatasetPart],
    groups: Sequence[GroupPart],
    victims: Sequence[Victim],
    attacks: Sequence[AttackPart],
    base: Path,
) -> dict[str, Any]:
    """The manifest entries that say what the run is."""
    tables = {
        table.name or table.model or table.target or table.backend: table
        for table in experiment.victim
    }
    return {
        "config": used_tables(experiment),
        "parts": dict(parts),
        "fingerprint": content_hash(parts),
        "seeds": list(experiment.experiment.seeds),
        "versions": versions(),
        "git_commit": git_commit(base),
        "datasets": {
            part.label: {
                "n_items": len(part.questions),
                "n_rows": len(part.loaded.questions),
                "skipped": list(part.loaded.skipped),
                "hash": part.loaded.source_hash,
            }
            for part in datasets
        },
        "groups": {
            part.label: {
                "vocabulary": part.table.vocabulary,
                "n_names": len(part.perturbations.names),
                "vocabulary_hash": part.perturbations.vocabulary.hash,
                "embedding": part.table.embedding,
                "hash": part.perturbations.hash,
            }
            for part in groups
        },
        "victims": {
            victim.label: {
                "model": victim.backend.identity.name,
                "model_hash": victim.backend.identity.hash,
                "task": victim.task.spec(),
                "prompt": {
                    "name": victim.task.template.name,
                    "source": victim.task.template.source,
                },
                "parameters": getattr(tables.get(victim.label), "parameters", None),
            }
            for victim in victims
        },
        "attacks": {part.label: part.attack.spec() for part in attacks},
        "endpoints": [],
    }


def versions() -> dict[str, str]:
    """Versions of medstress, Python, the system and the libraries that matter."""
    found = {
        "medstress": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
    }
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


def git_commit(folder: Path) -> str | None:
    """The commit of the repository the experiment file lies in, or None."""
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
    """The time in UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def command_line() -> str:
    """The command that started this process, without the interpreter's path."""
    import shlex

    return shlex.join([Path(sys.argv[0]).name, *sys.argv[1:]])
