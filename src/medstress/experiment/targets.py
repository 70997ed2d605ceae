"""Functions of the user's as victims and roles: told apart, and what is watched of each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from pathlib import Path

from medstress.backends.python import PythonBackend
from medstress.calls import Backend
from medstress.errors import UsageError
from medstress.experiment.prepared import Prepared

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


def watched(backend: Backend) -> list[str] | None:
    """What makes a function another one when it changes; None for what is no function."""
    if not isinstance(backend, PythonBackend):
        return None
    if backend.version is not None or backend.loaded is None:
        return []
    behind = [f"{name} ({path.name})" for name, path in backend.loaded.behind.items()]
    return [backend.loaded.place, *behind, *backend.loaded.packages]


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
