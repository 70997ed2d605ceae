"""The experiments of this user's own runs, by run id, in the user's state directory.

So `test` and `explain` need no file for a run that was made here. Nothing that a folder says of
itself is asked: its id only finds the entry, which anybody who has a copy of the folder could
claim. The entry names the folder, its file by device and inode, and the last link of its chain; a
copy, a folder from elsewhere and one that was changed agree with none of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.backends.python import PythonBackend
from medstress.core.errors import UsageError
from medstress.core.hashing import file_hash
from medstress.core.writing import refuse_link, state_dir, write_text
from medstress.engine.progress import Watcher
from medstress.experiment.config import Experiment
from medstress.experiment.models import payers
from medstress.experiment.plan import Prepared
from medstress.experiment.reading import Source
from medstress.store.database import FILE
from medstress.store.run_store import RunStore

_ID = re.compile(r"[0-9a-f]{32}")
_FAULTS = (OSError, ValueError, LookupError, TypeError, AttributeError, RecursionError)


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnRun:
    """What a run of this user was started with."""

    experiment: Source
    overrides: tuple[str, ...]
    targets: Mapping[str, str]
    """File of a function -> its hash when the run last ended."""

    def check_targets(self) -> None:
        """Check that the files of functions are what they were, before one is imported.

        Raises:
            UsageError: one is not.
        """
        for file, hash_ in self.targets.items():
            if not Path(file).is_file() or file_hash(Path(file)) != hash_:
                raise UsageError(
                    f"{file} is not what this run asked: add --experiment FILE to ask it all the "
                    "same, if the run allows it (version)"
                )


def keep_own(store: RunStore, bench: Prepared | None, watcher: Watcher) -> bool:
    """Keep what a run was started with and where it is; forget runs whose folders are gone.

    A shard is no run of its own, and what a merge joins may come from anybody.

    Args:
        store: the run, after a commit.
        bench: its experiment, with its models open; None leaves the one that is kept.
        watcher: is told where nothing can be kept.

    Returns:
        Whether it was kept.
    """
    run_id = store.manifest().get("id")
    if run_id is None:
        return False
    try:
        entries = state_dir("runs")
        refuse_link(entries)
        for path in entries.glob("*.json"):
            if _is_gone(path):
                path.unlink(missing_ok=True)
        path = entries / f"{run_id}.json"
        started = json.loads(path.read_text("utf-8")) if bench is None else _started(bench)
        place = {"folder": str(store.folder.resolve()), "file": _file_of(store.folder)}
        entry = {**started, **place, "head": store.head()}
        write_text(path, json.dumps(entry))
    except _FAULTS as error:
        watcher.announce(
            f"the state directory cannot be written ({error}): `test` and `explain` of this run "
            "will need --experiment"
        )
        return False
    return True


def _started(bench: Prepared) -> dict[str, Any]:
    backends = [*bench.backends, *(part.backend for part in bench.roles)]
    functions = [one for one in backends if isinstance(one, PythonBackend) and not one.version]
    paths = [one.loaded.path for one in functions if one.loaded is not None]
    return {
        "base": str(bench.base.resolve()),
        "experiment": bench.given["experiment"],
        "overrides": bench.given["overrides"],
        "targets": {str(path.resolve()): file_hash(path) for path in paths if path is not None},
    }


def is_own_run(store: RunStore) -> bool:
    """Return whether a folder is where this user made the run that it holds."""
    try:
        own_run(store.folder, store.manifest(), store.commits_after)
    except UsageError:
        return False
    return True


def own_run(
    folder: Path, manifest: Mapping[str, Any], commits_after: Callable[[str], int | None]
) -> OwnRun:
    """Return what the run in a folder was started with on this machine, by this user.

    Args:
        folder: of the run.
        manifest: of the run.
        commits_after: says how many links its chain has after one; None if it has no such link.

    Raises:
        UsageError: it was not, or the folder is a copy, or another run has its place.
    """
    run_id, own, is_there = manifest.get("id"), None, False
    if isinstance(run_id, str) and _ID.fullmatch(run_id):
        with suppress(*_FAULTS):
            path = state_dir("runs") / f"{run_id}.json"
            refuse_link(path)
            entry = json.loads(path.read_text("utf-8"))
            is_there = (
                entry["folder"] == str(folder.resolve())
                and entry["file"] == _file_of(folder)
                and commits_after(str(entry["head"])) is not None
            )
            own = OwnRun(
                experiment=Source(
                    text=str(entry["experiment"]),
                    name="the run's experiment",
                    base=Path(entry["base"]),
                ),
                overrides=tuple(map(str, entry["overrides"])),
                targets={str(file): str(hash_) for file, hash_ in entry["targets"].items()},
            )
    if own is None or not is_there:
        why = "was not made here" if own is None else "is not the folder that this run was made in"
        raise UsageError(
            f"{folder} {why}, and models are never taken from a folder: add --experiment FILE, "
            "your own experiment (or recipe) of this run"
        )
    return own


def _file_of(folder: Path) -> list[int]:
    """Return device and inode of a run's file."""
    status = (folder / FILE).lstat()
    return [status.st_dev, status.st_ino]


def _is_gone(path: Path) -> bool:
    try:
        return not (Path(json.loads(path.read_text("utf-8"))["folder"]) / FILE).exists()
    except _FAULTS:
        return False


def who_is_asked(experiment: Experiment) -> Iterator[str]:
    """Yield a line for each model of an experiment: its address, or where it runs."""
    for label, table in payers(experiment).items():
        keys = table.model_dump(mode="json", exclude_none=True)
        model = keys.get("target") or keys.get("model") or ""
        place = keys.get("base_url") or "this machine"
        yield f"{label}: {table.backend} {model}".rstrip() + f", {place}"
