"""Functions of the user's, named as ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from medstress.errors import UsageError
from medstress.hashing import file_hash
from medstress.local_modules import (
    deepest_relative_import,
    drop_compiled,
    forget_changed,
    local_imports,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A module of the user's in use: what it imports can be imported from beside it."""

    module: Any
    """As imported."""
    place: str
    """What it is called wherever it lies: its file's name, or its dotted name."""
    path: Path | None
    """Its file, where there is one."""
    imports: Mapping[str, Path]
    """The user's own modules behind it, by dotted name; of a dotted name also itself."""
    packages: tuple[str, ...]
    """Name and version of the packages that it is installed with; none for the user's own."""
    folder: str
    """First of the folders that are searched for modules."""

    @property
    def behind(self) -> dict[str, Path]:
        """What it imports, without itself."""
        own = None if self.path is None else self.path.resolve()
        return {name: path for name, path in self.imports.items() if path.resolve() != own}

    def close(self) -> None:
        """Search its folder no more."""
        _search_no_more(self.folder)


def load_function(target: str, base: Path, what: str) -> tuple[Callable[..., Any], Loaded]:
    """Import the function that `target` names.

    Args:
        target: ``module:function`` or ``file.py:function``.
        base: folder that a relative file or module starts from.
        what: the function's part in the experiment, for messages.

    Returns:
        The function, and the module that holds it.

    Raises:
        UsageError: no such file, module or function, or importing it raised.
    """
    loaded = load_module(target, base, what)
    where, _, name = target.rpartition(":")
    function = getattr(loaded.module, name, None)
    if not callable(function):
        raise UsageError(f"{what} {target!r}: {where} has no function {name!r}")
    return function, loaded


def load_module(target: str, base: Path, what: str) -> Loaded:
    """Import what stands before the colon of a target, as `load_function` does.

    Modules beside a file, or beside the experiment, can be imported as they can by a script; a
    file that imports by dots is imported as a part of its package. What has changed since this
    process imported it is imported anew.

    Raises:
        UsageError: no such file or module, or importing it raised.
    """
    where = target.rpartition(":")[0]
    if not where.endswith(".py"):
        return _in_use(base, where, what, place=where)
    path = base / where
    if not path.is_file():
        raise UsageError(f"{what}: there is no file {path}")
    place = path.name
    n_up = deepest_relative_import(path)
    if not n_up:
        return _in_use(path.parent, path, what, place=place)
    folders = path.resolve().parents
    n_up = min(n_up, len(folders) - 1)
    while (folders[n_up] / "__init__.py").is_file():
        n_up += 1
    name = ".".join([*(folders[i].name for i in reversed(range(n_up))), path.stem])
    loaded = _in_use(folders[n_up], name, what, place=place)
    if loaded.path is None or loaded.path.resolve() != path.resolve():
        loaded.close()
        raise UsageError(
            f"{what}: {path} imports by dots, so it is imported as {name}, and Python finds that "
            f"in {loaded.path}; rename the folder {folders[n_up - 1]}"
        )
    return loaded


def _in_use(folder: Path, module: Path | str, what: str, *, place: str) -> Loaded:
    """Import a file or a module with a folder searched first."""
    first = str(folder.resolve())
    sys.path.insert(0, first)
    known = {"file": module} if isinstance(module, Path) else {"module": module}
    try:
        forget_changed(local_imports(**known))
        found = _load_file(module, what) if isinstance(module, Path) else _load_module(module, what)
        # Again: the file itself may have named more folders to search.
        imports = local_imports(**known)
    except BaseException as error:
        _search_no_more(first)
        if isinstance(error, OSError):
            raise UsageError(f"{what}: cannot read {error.filename}: {error.strerror}") from error
        raise
    source = getattr(found, "__file__", None)
    own = isinstance(module, Path) or module in imports
    return Loaded(
        module=found,
        place=place,
        path=module if isinstance(module, Path) else Path(source) if source else None,
        imports=imports,
        packages=() if own else _packages_of(str(module)),
        folder=first,
    )


def _search_no_more(folder: str) -> None:
    with suppress(ValueError):  # the user's code may have changed the path
        sys.path.remove(folder)


def _packages_of(module: str) -> tuple[str, ...]:
    names = metadata.packages_distributions().get(module.partition(".")[0], [])
    return tuple(f"{name} {metadata.version(name)}" for name in sorted(set(names)))


def source_hashes(
    function: Any, loaded: Loaded | None = None, kind: type[Any] | None = None
) -> list[str]:
    """Hashes of the file a target names, of those that define it, where they are others, and of
    the user's own modules that it imports.

    Args:
        function: what is called.
        loaded: the module that the target names.
        kind: the class of the object that is called, or whose method is.

    Returns:
        Sorted hashes, then one of each module with its name; none for a function without a source
        file.
    """
    of_kind = None if kind is None else _source(kind)
    source = _source(function) or of_kind
    if source is None or not source.is_file():
        return []
    path = None if loaded is None else loaded.path
    files = {file_hash(p) for p in (path, source, of_kind) if p is not None and p.is_file()}
    imports = {} if loaded is None else loaded.behind
    return sorted(files) + [f"{name} {file_hash(each)}" for name, each in imports.items()]


def _source(thing: Any) -> Path | None:
    try:
        found = inspect.getsourcefile(thing)
    except TypeError:
        return None
    return None if found is None else Path(found)


def told(error: BaseException) -> str:
    """An error of the user's code as text that can be stored, whatever its own text does."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - the user's class
        text = "(its message cannot be read)"
    return f"{type(error).__name__}: {text}".encode("utf-8", "replace").decode()


def _load_file(path: Path, what: str) -> Any:
    drop_compiled(path)
    name = f"medstress_{what.replace(' ', '_')}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: importing {path} raised {told(error)}") from error
    return module


def _load_module(name: str, what: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise UsageError(
            f"{what}: module {name!r} cannot be imported ({error}); give a file as "
            '"path/to/file.py:function", or put its folder on PYTHONPATH'
        ) from error
    except (Exception, SystemExit) as error:
        raise UsageError(f"{what}: importing {name!r} raised {told(error)}") from error
