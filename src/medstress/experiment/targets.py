"""Functions of the user's as victims and roles: told apart, and what is watched of each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from medstress.backends.python import PythonBackend
from medstress.calls import Backend
from medstress.errors import StoreError, UsageError
from medstress.experiment.prepared import Prepared
from medstress.hashing import file_hash

Named = tuple[str, Backend]
"""What a table is called in messages, and its back end."""


def named_backends(prepared: Prepared) -> list[Named]:
    """The victims of an experiment and the roles that no victim shares."""
    roles = [(part.label, part.backend) for part in prepared.roles if not part.is_shared]
    return [*((f"victim {v.label!r}", v.backend) for v in prepared.victims), *roles]


def check_targets(backends: Sequence[Named]) -> None:
    """Refuse functions whose answers or modules would be taken for each other's.

    Raises:
        UsageError: naming both.
    """
    asked = [(label, backend) for label, backend in backends if isinstance(backend, PythonBackend)]
    for (one, first), (other, second) in combinations(asked, 2):
        if _function(first) == _function(second):
            continue
        if first.identity.hash == second.identity.hash:
            what = "the same source" if first.version is None else f"version {first.version!r}"
            raise UsageError(
                f"{one} and {other}: targets {first.identity.name!r} and {second.identity.name!r} "
                f"have files and functions of one name and {what}, so each would be given the "
                "other's answers; give each a version of its own, or another file name"
            )
        for name, path in _modules(first).items():
            if _modules(second).get(name, path) != path:
                raise UsageError(
                    f"{one} and {other}: both import a module {name!r}, from {path} and from "
                    f"{_modules(second)[name]}, and Python holds one of a name; rename one, or "
                    "run the two in experiments of their own"
                )


def check_same_targets(prepared: Prepared, known: Mapping[str, Any], folder: Path) -> None:
    """Refuse a folder whose victims and roles were functions of other files.

    A version is the user's word for one file, which may be edited, moved and copied. No file that
    the folder names is opened.

    Args:
        prepared: with victims and roles opened.
        known: the folder's manifest.
        folder: the run folder.

    Raises:
        StoreError: naming the victim or role, and both targets.
    """
    held = {**known["victims"], **{f"role.{k}": v for k, v in known.get("roles", {}).items()}}
    asked = [(f"victim {v.label!r}", v.label, v.backend) for v in prepared.victims]
    asked += [(part.label, part.label, part.backend) for part in prepared.roles]
    for what, label, backend in asked:
        if "watched" not in held.get(label, ()) or not isinstance(backend, PythonBackend):
            continue
        was, now = held[label]["model"], backend.identity.name
        began, path = _place(was, Path(known["base"])), _place(now, prepared.base)
        is_same_file = began == path or _place(was, Path()) == _place(now, Path())
        is_same_text = held[label].get("target_hash", "") == target_hash(backend)
        if was.rpartition(":")[2] != now.rpartition(":")[2] or not (is_same_file or is_same_text):
            raise StoreError(
                f"{folder} holds another experiment: the target of {what} was {was!r}, is {now!r}. "
                "Give it another label, choose another folder with --out, or throw the old run "
                "away with --fresh"
            )


def claim_answers(prepared: Prepared) -> None:
    """Refuse functions whose name and version stand for another file in the shared cache.

    Raises:
        UsageError: naming the victim or role, and both files.
    """
    if prepared.shared is None:
        return
    for what, backend in named_backends(prepared):
        if not isinstance(backend, PythonBackend) or backend.version is None:
            continue
        path, identity = _function(backend)[0], backend.identity
        if path is None:
            continue
        file, text = prepared.shared.file_of(identity.hash) or (path, target_hash(backend))
        if file != path and text != target_hash(backend) and file.is_file():
            raise UsageError(
                f"{what}: target {identity.name!r} is {path}, and the answers of version "
                f"{backend.version!r} of a function and file of these names in the cache "
                f"{prepared.shared.folder} are of {file}; give it a version of its own, or "
                "another cache"
            )
        prepared.shared.keep_file(identity.hash, path, target_hash(backend))


def target_hash(backend: PythonBackend) -> str | None:
    """Of the file that a target names; None for what has none."""
    path = _function(backend)[0]
    return None if path is None or not path.is_file() else file_hash(path)


def _place(target: str, base: Path) -> Path:
    """The file that a target names, of which nothing is opened; dotted names stay apart."""
    return (base / target.rpartition(":")[0]).resolve()


def watched(backend: Backend) -> list[str] | None:
    """What makes a function another one when it changes; None for what is no function."""
    if not isinstance(backend, PythonBackend):
        return None
    if backend.version is not None or backend.loaded is None:
        return []
    loaded = backend.loaded
    own = loaded.label
    if loaded.path is not None and not own.endswith(".py"):
        own = f"{own} ({loaded.path.name})"
    behind = [f"{name} ({path.name})" for name, path in loaded.dependencies.items()]
    return [own, *behind, *loaded.packages]


def watched_lines(backends: Sequence[Named]) -> Iterator[str]:
    """A line for each function: what is watched of it, and what is not."""
    for label, backend in backends:
        if not isinstance(backend, PythonBackend):
            continue
        if backend.version is not None:
            yield (
                f"{label}: version {backend.version!r} is taken at your word, no file is watched"
            )
            continue
        yield (
            f"{label}: watched: {', '.join(watched(backend) or ())}; not watched: what else is "
            "installed, modules whose names are computed, files that it reads, such as weights"
        )


def _function(backend: PythonBackend) -> tuple[Path | None, str]:
    loaded, name = backend.loaded, backend.identity.name.rpartition(":")[2]
    path = None if loaded is None or loaded.path is None else loaded.path.resolve()
    return path, name


def _modules(backend: PythonBackend) -> dict[str, Path]:
    imports = {} if backend.loaded is None else backend.loaded.imports
    return {name: path.resolve() for name, path in imports.items()}
