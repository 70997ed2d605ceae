"""The experiments of this user's own runs, by run id, in the user's state directory.

So `test` and `explain` need no file for a run that was made here. Nothing that a folder says of
itself is ever asked: it gives its id alone, and the entry of this id names the folder that it is
of. A folder from elsewhere that claims an id of one's own, or a copy of it, has no entry.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

from medstress.core.errors import UsageError
from medstress.experiment.file.config import Experiment
from medstress.experiment.file.labels import victim_labels
from medstress.experiment.file.model_tables import VictimTable
from medstress.experiment.file.sources import Source
from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.roles import tables_of
from medstress.files.cache_folders import state_dir
from medstress.files.toml_values import toml_key, toml_value
from medstress.files.writing import Access, write_text

_ID = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """What a run of this user was started with."""

    experiment: Source
    overrides: tuple[str, ...]


def new_id() -> str:
    """Return the id of a new run."""
    return uuid4().hex


def remember(run_id: str, folder: Path, bench: Prepared) -> None:
    """Keep what a run was started with; where nothing can be written, nothing is kept."""
    given = bench.given["experiment"]
    if isinstance(given, Mapping):
        given = "\n".join(f"{toml_key(key)} = {toml_value(value)}" for key, value in given.items())
    entry = {
        "folder": str(folder.resolve()),
        "base": str(bench.base.resolve()),
        "experiment": given,
        "overrides": bench.given["overrides"],
    }
    with suppress(OSError):
        write_text(state_dir("runs") / f"{run_id}.json", json.dumps(entry), Access.OWNER)


def own_run(folder: Path, manifest: Mapping[str, Any]) -> OwnRun:
    """Return what the run in a folder was started with on this machine, by this user.

    Raises:
        UsageError: it was not, or the folder is another than the one that it was made in.
    """
    run_id, own, place = manifest.get("id"), None, ""
    if isinstance(run_id, str) and _ID.fullmatch(run_id):
        with suppress(OSError, ValueError, LookupError, TypeError, RecursionError):
            entry = json.loads((state_dir("runs") / f"{run_id}.json").read_text("utf-8"))
            place, base = str(entry["folder"]), Path(entry["base"])
            own = OwnRun(
                experiment=Source(
                    text=str(entry["experiment"]), name="the run's experiment", base=base
                ),
                overrides=tuple(map(str, entry["overrides"])),
            )
    if own is None or place != str(folder.resolve()):
        why = "was not made here" if own is None else "is not where this run was made"
        raise UsageError(
            f"{folder} {why}, and models are never taken from a folder: add --experiment FILE, "
            "your own experiment (or recipe) of this run"
        )
    return own


def who_is_asked(experiment: Experiment) -> Iterator[str]:
    """Yield a line for each model of an experiment: its address, or where it runs."""
    tables: dict[str, VictimTable] = dict(
        zip(victim_labels(experiment.victim), experiment.victim, strict=True)
    )
    tables |= {f"role.{name}": table for name, table in tables_of(experiment.role).items()}
    for label, table in tables.items():
        keys = table.model_dump(mode="json", exclude_none=True)
        model = keys.get("target") or keys.get("model") or ""
        place = keys.get("base_url") or "this machine"
        yield f"{label}: {table.backend} {model}".rstrip() + f", {place}"
