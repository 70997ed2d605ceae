"""Users' functions as victims and roles: how they are told apart, and what is watched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from medstress.backends.python import PythonBackend
from medstress.core.calls import Backend
from medstress.core.errors import OtherRunError, UsageError
from medstress.core.hashing import file_hash
from medstress.experiment.plan.plan import Prepared

Named = tuple[str, Backend]
"""Name of a victim or role in messages, and its back end."""


def named_backends(prepared: Prepared) -> list[Named]:
    """Return the victims of an experiment and the roles with back ends of their own."""
    roles = [(part.label, part.backend) for part in prepared.roles if not part.is_shared]
    return [*((f"victim {v.label!r}", v.backend) for v in prepared.victims), *roles]


def check_targets(backends: Sequence[Named]) -> None:
    """Check that no two functions can be confused by their answers or modules.

    Raises:
        UsageError: two functions can be confused; the message names both.
    """
    functions = [
        (name, backend) for name, backend in backends if isinstance(backend, PythonBackend)
    ]
    for (one, first), (other, second) in combinations(functions, 2):
        if _function(first) == _function(second):
            continue
        if first.identity.hash == second.identity.hash:
            what = "the same source" if first.version is None else f"version {first.version!r}"
            raise UsageError(
                f"{one} and {other}: targets {first.identity.name!r} and {second.identity.name!r} "
                f"have files and functions of the same names and {what}, so each would get the "
                "other's answers; give them different versions or file names"
            )
        for name, path in _modules(first).items():
            if _modules(second).get(name, path) != path:
                raise UsageError(
                    f"{one} and {other}: both import a module {name!r}, from {path} and from "
                    f"{_modules(second)[name]}, but Python can load only one module of a name; "
                    "rename one, or use two experiments"
                )


def check_same_targets(prepared: Prepared, known: Mapping[str, Any], folder: Path) -> None:
    """Check that the functions of a folder's victims and roles are in the same files.

    A version names one file, which may be edited, moved and copied. No file that the folder names
    is opened.

    Args:
        prepared: the experiment, with victims and roles open.
        known: the folder's manifest.
        folder: the run folder.

    Raises:
        StoreError: a target changed; the message names the victim or role, and both targets.
    """
    stored = {**known["victims"], **{f"role.{k}": v for k, v in known.get("roles", {}).items()}}
    current = [(f"victim {v.label!r}", v.label, v.backend) for v in prepared.victims]
    current += [(part.label, part.label, part.backend) for part in prepared.roles]
    for what, label, backend in current:
        if "watched" not in stored.get(label, ()) or not isinstance(backend, PythonBackend):
            continue
        was, now = stored[label]["model"], backend.identity.name
        old_path, path = _place(was, Path(known["base"])), _place(now, prepared.base)
        is_same_file = old_path == path or _place(was, Path()) == _place(now, Path())
        is_same_text = stored[label].get("target_hash", "") == target_hash(backend)
        if was.rpartition(":")[2] != now.rpartition(":")[2] or not (is_same_file or is_same_text):
            raise OtherRunError(
                f"{folder} holds another experiment: the target of {what} was {was!r}, is {now!r}. "
                "Give it another label, choose another folder with --out, or throw the old run "
                "away with --fresh",
                folder,
            )


def claim_answers(prepared: Prepared) -> None:
    """Check that no function has the name and version of another file in the shared cache.

    Raises:
        UsageError: it has; the message names the victim or role, and both files.
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
                f"{what}: target {identity.name!r} is {path}, but the cache "
                f"{prepared.shared.folder} holds answers of version {backend.version!r} of "
                f"{file}, whose file and function have the same names; give it another version "
                "or cache"
            )
        prepared.shared.keep_file(identity.hash, path, target_hash(backend))


def target_hash(backend: PythonBackend) -> str | None:
    """Of the file that a target names; None for what has none."""
    path = _function(backend)[0]
    return None if path is None or not path.is_file() else file_hash(path)


def _place(target: str, base: Path) -> Path:
    """Return the path that a target names, without opening it; dotted names differ from paths."""
    return (base / target.rpartition(":")[0]).resolve()


def watched(backend: Backend) -> list[str] | None:
    """List the files and packages that identify a function; None for other back ends."""
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
    """Yield a line for each function: which files are watched for changes, and which are not."""
    for label, backend in backends:
        if not isinstance(backend, PythonBackend):
            continue
        if backend.version is not None:
            yield (f"{label}: identified by version {backend.version!r}, so no file is watched")
            continue
        yield (
            f"{label}: watched for changes: {', '.join(watched(backend) or ())}; not watched: "
            "other installed packages, modules imported by computed names, and files that it "
            "reads, such as weights"
        )


def _function(backend: PythonBackend) -> tuple[Path | None, str]:
    loaded, name = backend.loaded, backend.identity.name.rpartition(":")[2]
    path = None if loaded is None or loaded.path is None else loaded.path.resolve()
    return path, name


def _modules(backend: PythonBackend) -> dict[str, Path]:
    imports = {} if backend.loaded is None else backend.loaded.imports
    return {name: path.resolve() for name, path in imports.items()}
