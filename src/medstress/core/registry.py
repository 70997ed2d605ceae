"""Registry of attacks, back ends and data sets, loaded on use; plug-ins join by entry points."""

from __future__ import annotations

import sys
import tomllib
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.metadata import entry_points
from importlib.resources import files
from operator import attrgetter
from pathlib import Path
from traceback import walk_tb
from typing import Any

from medstress.core.calls import Backend, BackendTraits
from medstress.core.errors import MedstressError, UsageError, did_you_mean, is_panic, reason


@dataclass(frozen=True, slots=True)
class Entry:
    """One installed part."""

    target: str
    """`module:attribute`, imported only when used."""
    summary: str
    """One line for `medstress list`."""


_PARTS = tomllib.loads((files("medstress.core") / "parts.toml").read_text("utf-8"))
KINDS: dict[str, dict[str, Entry]] = {
    kind: {name: Entry(**row) for name, row in rows.items()} for kind, rows in _PARTS.items()
}
KINDS["kinds"] = {}  # those that come with medstress are in `medstress.tasks.kinds`
ATTACKS, BACKENDS, DATASETS = (KINDS[kind] for kind in ("attacks", "backends", "datasets"))


_plug_ins: dict[str, str] = {}
"""Top-level module of a loaded plug-in -> what messages call the plug-in."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Raised:
    """Where in a plug-in an error was raised."""

    plug_in: str
    """What messages call it: its name and the package it comes from."""
    file: Path
    """The source file."""
    line: int
    """From 1."""


def installed(kind: str) -> dict[str, Entry]:
    """Return all entries of a kind, plug-ins included, sorted by name."""
    parts = dict(KINDS[kind])
    groups = {f"medstress.{kind}": ""}
    if kind == "datasets":  # a kind of items brings its reader
        groups["medstress.kinds"] = ".read"
    for group, attribute in groups.items():
        for point in entry_points(group=group):
            dist = point.dist.name if point.dist else "an unknown package"
            entry = Entry(f"{point.value}{attribute}", f"plug-in from {dist}")
            parts.setdefault(point.name, entry)
    return dict(sorted(parts.items()))


def is_installed(kind: str, name: str) -> bool:
    """Return whether an entry has this name."""
    return name in KINDS[kind] or name in installed(kind)


def unknown_name(kind: str, name: str) -> UsageError:
    """Return the error for a name that no entry has, with the nearest name, else with all."""
    entries = installed(kind)
    near = did_you_mean(name, entries)
    hint = near or f" (installed: {', '.join(entries)})"
    error = UsageError(f"unknown {kind[:-1]} {name!r}{hint}")
    return error if near else error.with_command(f"medstress list {kind}")


def load(kind: str, name: str) -> Any:
    """Import one entry.

    Raises:
        UsageError: nothing with this name is installed, or it cannot be imported.
    """
    if name in KINDS[kind]:  # before the plug-ins, which take long to list
        module, _, attribute = KINDS[kind][name].target.partition(":")
        return getattr(import_module(module), attribute)
    entries = installed(kind)
    if name not in entries:
        raise unknown_name(kind, name)
    entry = entries[name]
    module, _, attribute = entry.target.partition(":")
    plug_in = f"{kind[:-1]} {name!r}, the {entry.summary}"
    _plug_ins[module.partition(".")[0]] = plug_in
    try:
        return attrgetter(attribute)(import_module(module))
    except MedstressError:
        raise
    except BaseException as error:
        if not isinstance(error, Exception | SystemExit) and not is_panic(error):
            raise
        raise UsageError(
            f"{plug_in}: importing {entry.target} raised {_described(error)}"
            f"{_at_import(error, module)}; {_remedy(error)}"
        ) from error


def place_of(error: BaseException) -> Raised | None:
    """Find the last line of a plug-in that an error went through; None if there is none."""
    for frame, line in reversed(list(walk_tb(error.__traceback__))):
        module = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if module in _plug_ins:
            return Raised(plug_in=_plug_ins[module], file=Path(frame.f_code.co_filename), line=line)
    return None


def complaint(error: BaseException) -> str | None:
    """Say in one sentence which plug-in raised an error, and where; None if none did."""
    place = place_of(error)
    if place is None:
        return None
    return f"{place.plug_in}: {place.file}, line {place.line} raised {_described(error)}"


def open_backend(name: str, options: Any) -> Backend:
    """Open a back end with its options (`medstress.backends.options.BackendOptions`).

    Raises:
        UsageError: no back end has this name, it refuses its options, or it is no `Backend`.
    """
    backend = load("backends", name)(options)
    if fault := backend_fault(backend):
        raise UsageError(f"backend {name!r} {fault}")
    opened: Backend = backend
    return opened


def backend_fault(made: Any) -> str | None:
    """Say why an object is not a back end, as far as its class shows, or None.

    The answer is the end of a sentence whose subject is the object. An attribute with the name of
    a field of its traits must equal that field.
    """
    declared = getattr(made, "traits", None)
    moved = [
        one.name
        for one in fields(BackendTraits)
        if hasattr(made, one.name) and getattr(made, one.name) != getattr(declared, one.name, ...)
    ]
    if moved:
        values = ", ".join(f"{name}={getattr(made, name)!r}" for name in moved)
        return (
            f"sets {', '.join(moved)}, which medstress reads from its traits alone: write "
            f"traits = BackendTraits({values}{'' if declared is None else ', ...'})"
        )
    if not isinstance(made, Backend):
        return "is no Backend: its class has to inherit medstress.plugin.Backend"
    if not isinstance(declared, BackendTraits):
        return f"has no traits: expected BackendTraits, got {declared!r}"
    return None


def _described(error: BaseException) -> str:
    message = error.msg if isinstance(error, SyntaxError) else reason(error)
    return f"{type(error).__name__}: {message}"


def _remedy(error: BaseException) -> str:
    """Say what to do about a plug-in that cannot be imported."""
    if isinstance(error, ImportError) and (error.name or "").partition(".")[0] == "medstress":
        return "import it from medstress.plugin, where every public name is"
    return "fix or remove that package"


def _at_import(error: BaseException, module: str) -> str:
    """Return file and line where importing a plug-in failed, as far as they are known."""
    place = place_of(error)
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({error.filename}, line {error.lineno})"
    if place is not None:
        return f" ({place.file}, line {place.line})"
    source = getattr(sys.modules.get(module), "__file__", None)
    return f" ({source})" if source else ""
