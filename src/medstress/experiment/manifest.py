"""The manifest of a run: what the experiment is, by content, and what readers need of it."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

from medstress.attacks.attacked import AttackedArm
from medstress.attacks.noise import Synonym, noise_of
from medstress.attacks.noise_control import NonEntityNoise
from medstress.attacks.protocol import Attack, declared_by, rebuilt
from medstress.backends.python import PythonBackend
from medstress.core.calls import Backend
from medstress.core.errors import OtherRunError, another_folder
from medstress.core.hashing import content_hash
from medstress.experiment import config
from medstress.experiment.arms import AttackPart
from medstress.experiment.data import DatasetPart, other_names_in
from medstress.experiment.models import RolePart, tables_of
from medstress.experiment.plan import Prepared, target_hash
from medstress.files.extras import versions
from medstress.store.run_store import RunStore
from medstress.tasks.victim import Victim

SOURCES = ("listed", "defined", "nearest", "ambiguous", "distant", "unchanged")
"""Where the other names of mentions come from; the last three have none."""


def surrogates_of(prepared: Prepared) -> Iterator[dict[str, Any]]:
    """Yield a row for each data set and synonym attack: its mentions by source of their name.

    Of a pair, the text that the attack perturbs counts; both count if it is drawn.
    """
    places = product(prepared.groups, prepared.datasets, prepared.attacks)
    for group, dataset, part in places:
        noise, attack = noise_of(group.resources), part.attack
        if noise is None or not isinstance(attack, Synonym):
            continue
        names = other_names_in(dataset.questions, attack, noise)
        counts = Counter(source for _, source in names)
        yield {
            "dataset": dataset.label,
            "attack": part.label,
            "surrogate": attack.surrogate,
            "n_mentions": counts.total(),
            **{f"n_{source}": counts[source] for source in SOURCES},
        }


def fingerprint_parts(prepared: Prepared) -> dict[str, Any]:
    """Return the hashes that identify the experiment, by label.

    Paths, devices and batch sizes are left out.
    """
    settings = prepared.experiment.experiment
    prompts = {
        victim.label: {name: content_hash(spec) for name, spec in victim.prompt_specs().items()}
        for victim in prepared.victims
        if victim.by_dataset
    }
    return {
        "seeds": list(settings.seeds),
        "settings": {"flip_check": settings.flip_check, **prepared.portion.settings},
        "items": prepared.selected(),
        "groups": {part.label: part.fingerprint for part in prepared.groups},
        "victims": {victim.label: content_hash(victim.spec()) for victim in prepared.victims},
        "attacks": {part.label: content_hash(part.attack.spec()) for part in prepared.attacks},
        **({"prompts": prompts} if prompts else {}),
        **({"roles": {part.name: part.hash for part in prepared.roles}} if prepared.roles else {}),
    }


def describe(prepared: Prepared, parts: Mapping[str, Any]) -> dict[str, Any]:
    """Return the manifest entries that describe the run."""
    tables = zip(prepared.victims, prepared.experiment.victim, strict=True)
    roles = tables_of(prepared.experiment.role)
    surrogates = list(surrogates_of(prepared))
    return {
        "given": prepared.given,
        "base": str(prepared.base),
        "config": prepared.experiment.model_dump(mode="json", exclude_none=True),
        "parts": dict(parts),
        "fingerprint": content_hash(parts),
        "seeds": list(prepared.experiment.experiment.seeds),
        "versions": versions(),
        "git_commit": git_commit(prepared.base),
        "datasets": {part.label: _dataset(part, prepared) for part in prepared.datasets},
        "groups": {part.label: part.describe() for part in prepared.groups},
        "victims": {one.label: _victim(one, table, prepared) for one, table in tables},
        "attacks": {part.label: part.attack.spec() for part in prepared.attacks},
        "records": {part.label: _record(part, prepared) for part in prepared.attacks},
        "controls": {"left_out": prepared.left_out},
        "roles": {
            part.name: {
                **_model(part.backend, roles[part.name]),
                "decoding": [part.decoding.max_new_tokens, part.decoding.temperature],
            }
            for part in prepared.roles
        },
        "endpoints": endpoints([*prepared.victims, *prepared.roles]),
        **({"surrogates": surrogates} if surrogates else {}),
        **prepared.portion.notes,
    }


def _record(part: AttackPart, prepared: Prepared) -> dict[str, Any]:
    """Return the fields of an attack's record beside the parameters."""
    attack, spec = part.attack, part.attack.spec()
    source: Attack | None = attack
    if isinstance(attack, AttackedArm):  # stored edits put in names if their attack did
        of = attack.stored.spec
        while "of" in of:
            of = of["of"]
        source = rebuilt(of)
    control_of = part.beside[0] if part.beside else None
    if isinstance(attack, NonEntityNoise):
        others = (one.label for one in prepared.attacks if attack.controls(one.attack))
        control_of = next(others, None)
    return {
        "draws_names": source is not None and "names" in source.needs,
        "whole_copy": attack.is_copy,
        "judged": prepared.kind.is_judged or spec.get("max_change") is not None,
        "control_of": control_of,
        "declared": declared_by(attack),
    }


def endpoints(victims: Sequence[Victim | RolePart]) -> list[dict[str, Any]]:
    """Describe the servers that are asked and the models they have answered as."""
    found = [(victim.label, victim.backend.endpoint) for victim in victims]
    return [{"victim": label, **endpoint} for label, endpoint in found if endpoint]


def go_on(store: RunStore, victims: Sequence[Victim | RolePart], known: Mapping[str, Any]) -> None:
    """Tell each server's back end what its answers showed before, and keep what they show now.

    Args:
        store: the run folder.
        victims: the victims and roles.
        known: its manifest.

    Raises:
        OtherRunError: calls were made with a schema and would be made without, or the reverse.
    """
    stored = {each["victim"]: each for each in known.get("endpoints") or ()}
    for victim in victims:
        before, now = stored.get(victim.label, {}), victim.backend.traits.structured
        was = before.get("structured", now)
        if was != now and not store.is_unanswered():
            raise OtherRunError(
                f"{store.folder} holds another experiment: structured of {victim.label!r} was "
                f"{str(was).lower()}, is {str(now).lower()}. {another_folder()}",
                store.folder,
            )
        victim.backend.expect(before)
    store.keep_learned(lambda: {"endpoints": endpoints(victims)})


def _dataset(part: DatasetPart, prepared: Prepared) -> dict[str, Any]:
    drawn = (group for group in prepared.groups if group.needs_passages)
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


def _victim(victim: Victim, table: config.Victim, prepared: Prepared) -> dict[str, Any]:
    names, counted = prepared.portion.names, victim.backend.traits.parameters

    def task(own: Victim) -> dict[str, Any]:
        """Return what is needed to read its answers again."""
        return {"task": own.task.spec(), "prompt": own.prompt}

    by_dataset = {name: task(victim.on(name)) for name, _ in victim.by_dataset}
    return {
        **_model(victim.backend, table),
        **task(victim),
        **({"by_dataset": by_dataset} if by_dataset else {}),
        # For figures by size: the user's number, or else what a local back end counted.
        "parameters": counted if table.parameters is None else table.parameters,
        "family": table.family,
        "group": table.group,
        # The name in results of a victim that is asked about some of the items.
        **({"part_of": names[victim.label]} if victim.label in names else {}),
    }


def _model(backend: Backend, table: config.Model) -> dict[str, Any]:
    """Return who answers, what of its back end decides which calls are made, and its price."""
    traits = backend.traits
    # Whether a user's function is in the same file.
    target = {"target_hash": target_hash(backend)} if isinstance(backend, PythonBackend) else {}
    return {
        "model": backend.identity.name,
        "model_hash": backend.identity.hash,
        "price_in": table.price_in,
        "price_out": table.price_out,
        "backend": {
            "calls": sorted(traits.calls),
            "structured": traits.structured,
            "in_turns": traits.in_turns,
            **({"labels": list(traits.labels)} if traits.labels else {}),
        },
        **target,
    }


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
