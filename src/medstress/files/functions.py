"""Loads the user's functions by their names, ``module:function`` or ``file.py:function``.

The other way round, finds the name of a function that Python hands over, and what identifies it.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import linecache
import sys
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Protocol, TypeGuard, runtime_checkable

from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, file_hash
from medstress.files.local_modules import (
    deepest_relative_import,
    drop_compiled,
    forget_changed,
    local_imports,
)

MAIN = "__main__"
"""The module of a notebook's cells and of a script that is run."""
_IMPORTING = threading.RLock()
"""One thread at a time: `sys.path`, `sys.modules` and Python's finders are those of the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """An imported user module; its folder is on `sys.path` until `close`."""

    module: Any
    """The module object."""
    label: str
    """Its name without folders: the file's name, or the dotted name."""
    path: Path | None
    """Its file, if it has one."""
    imports: Mapping[str, Path]
    """The user's own modules it imports, by dotted name; a named module includes itself."""
    packages: tuple[str, ...]
    """Names and versions of the packages that install it; none for the user's own."""
    folder: str
    """The folder put first on `sys.path`."""

    @property
    def dependencies(self) -> dict[str, Path]:
        """The user's own modules it imports, without itself."""
        own = None if self.path is None else self.path.resolve()
        return {name: path for name, path in self.imports.items() if path.resolve() != own}

    def close(self) -> None:
        """Remove its folder from `sys.path`."""
        _remove_from_path(self.folder)


def load_function(target: str, base: Path, what: str) -> tuple[Callable[..., Any], Loaded]:
    """Import the function that `target` names.

    Args:
        target: ``module:function`` or ``file.py:function``.
        base: the folder of relative files and modules.
        what: the function's role in the experiment, for messages.

    Returns:
        The function, and the module that holds it.

    Raises:
        UsageError: the file, module or function does not exist, or importing it raised.
    """
    loaded = load_module(target, base, what)
    where, _, name = target.rpartition(":")
    function = getattr(loaded.module, name, None)
    if not callable(function):
        raise UsageError(f"{what} {target!r}: {where} has no function {name!r}")
    return function, loaded


def load_module(target: str, base: Path, what: str) -> Loaded:
    """Import the module that `target` names before its colon.

    The module can import its neighbours, as a script can. A file with relative imports is imported
    as part of its package. Modules that changed since this process imported them are imported
    again.

    Raises:
        UsageError: the file or module does not exist, or importing it raised.
    """
    where = target.rpartition(":")[0]
    if not where.endswith(".py"):
        return _import_from(base, where, what, label=where)
    path = base / where
    if not path.is_file():
        raise UsageError(f"{what}: there is no file {path}")
    label = path.name
    n_up = deepest_relative_import(path)
    if not n_up:
        return _import_from(path.parent, path, what, label=label)
    folders = path.resolve().parents
    n_up = min(n_up, len(folders) - 1)
    while (folders[n_up] / "__init__.py").is_file():
        n_up += 1
    name = ".".join([*(folders[i].name for i in reversed(range(n_up))), path.stem])
    loaded = _import_from(folders[n_up], name, what, label=label)
    if loaded.path is None or loaded.path.resolve() != path.resolve():
        loaded.close()
        raise UsageError(
            f"{what}: {path} has relative imports, so it is imported as {name}, but Python finds "
            f"{name} in {loaded.path}; rename the folder {folders[n_up - 1]}"
        )
    return loaded


def _import_from(folder: Path, module: Path | str, what: str, *, label: str) -> Loaded:
    """Import a file or a module with `folder` first on `sys.path`."""
    with _IMPORTING:
        return _import_alone(folder, module, what, label)


def _import_alone(folder: Path, module: Path | str, what: str, label: str) -> Loaded:
    first = str(folder.resolve())
    sys.path.insert(0, first)
    by_kind = {"file": module} if isinstance(module, Path) else {"module": module}
    try:
        forget_changed(local_imports(**by_kind))
        imported = (
            _load_file(module, what) if isinstance(module, Path) else _load_module(module, what)
        )
        # Again, because the file itself may have put more folders on `sys.path`.
        imports = local_imports(**by_kind)
    except BaseException as error:
        _remove_from_path(first)
        if isinstance(error, OSError):
            raise UsageError(f"{what}: cannot read {error.filename}: {error.strerror}") from error
        raise
    source = getattr(imported, "__file__", None)
    own = isinstance(module, Path) or module in imports
    return Loaded(
        module=imported,
        label=label,
        path=module if isinstance(module, Path) else Path(source) if source else None,
        imports=imports,
        packages=() if own else _packages_of(str(module)),
        folder=first,
    )


def _remove_from_path(folder: str) -> None:
    with suppress(ValueError):  # the user's code may have changed `sys.path`
        sys.path.remove(folder)


def _packages_of(module: str) -> tuple[str, ...]:
    names = metadata.packages_distributions().get(module.partition(".")[0], [])
    return tuple(f"{name} {metadata.version(name)}" for name in sorted(set(names)))


def source_hashes(
    function: Any, loaded: Loaded | None = None, kind: type[Any] | None = None
) -> list[str]:
    """Return hashes of all source files behind a user's function.

    These are the file its target names, the files that define the function and its class, and the
    user's own modules that the target imports.

    Args:
        function: the function or callable object.
        loaded: the module that the target names.
        kind: the class of the callable object, or of the object whose method is called.

    Returns:
        Sorted hashes of files, then name and hash of each imported module; empty for a function
        without a source file.
    """
    of_kind = None if kind is None else _source(kind)
    source = _source(function) or of_kind
    if source is None or not source.is_file():
        return []
    path = None if loaded is None else loaded.path
    files = {file_hash(p) for p in (path, source, of_kind) if p is not None and p.is_file()}
    imports = {} if loaded is None else loaded.dependencies
    return sorted(files) + [f"{name} {file_hash(each)}" for name, each in imports.items()]


def _source(thing: Any) -> Path | None:
    try:
        path = inspect.getsourcefile(thing)
    except (TypeError, OSError):  # a class of a notebook's cell has no file
        return None
    return None if path is None else Path(path)


def describe_error(error: BaseException) -> str:
    """Format a user's exception for storage, even if its `__str__` fails."""
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
        raise UsageError(f"{what}: importing {path} raised {describe_error(error)}") from error
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
        raise UsageError(f"{what}: importing {name!r} raised {describe_error(error)}") from error


# -- functions that Python hands over --------------------------------------------------------------


@runtime_checkable
class Answering(Protocol):
    """An object, or a class of objects, that answers prompts."""

    def answer(self, prompts: list[Any], /) -> Any:
        """Return one answer for each prompt, in order."""


def is_answering(given: Any) -> TypeGuard[Callable[..., Any] | Answering]:
    """Return whether a value can be a victim as it is: a function, class or object."""
    return not isinstance(given, Mapping) and (callable(given) or isinstance(given, Answering))


def identified(
    function: Callable[..., Any] | Answering, version: str | None = None
) -> tuple[str, str | None]:
    """Return the name of a function, class or object, and what identifies it beside its file.

    Args:
        function: what answers (docs: models).
        version: identifies it instead of its source, for an object or where a function uses more
            than its own source says, such as a model that was loaded in another cell.

    Returns:
        `module:name`, and the version: the given one, or in a notebook the hash of its text; None
        where a file identifies it.

    Raises:
        UsageError: it cannot be found again under a name, or it has no source and no version.
    """
    target = name_of(function)
    if target is None:
        shown = getattr(function, "__qualname__", type(function).__name__)
        raise UsageError(
            f"victim {shown}: a function that is made inside another, or has no name, cannot be "
            "found again; define it with `def` at the top of its module or cell, or give an "
            "object a name there"
        )
    if version is not None or source_hashes(function):
        return target, version
    try:
        is_class = inspect.isclass(function)
        text = _class_text(function) if is_class else inspect.getsource(function)  # type: ignore[arg-type]
    except (OSError, TypeError):
        raise UsageError(
            f"victim {target}: it has no source that identifies it; give it a version, as in "
            f'ms.Victim(target={target.rpartition(":")[2]}, version="1")'
        ) from None
    return target, content_hash(["source", text])


def name_of(thing: Any) -> str | None:
    """Return `module:name` by which a thing can be found; None if there is none."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str):
        held: Any = sys.modules.get(module)
        for part in name.split("."):
            held = getattr(held, part, None)
        # A cell that is run again makes the class anew, and a run imports a module again.
        is_again = inspect.isclass(held) and inspect.isclass(thing)
        code = getattr(thing, "__code__", None)
        is_again |= code is not None and getattr(held, "__code__", None) == code
        if held is thing or is_again:
            return f"{module}:{name}"
    # An object, or a function without a name of its own, that a cell has given a name.
    main = vars(sys.modules[MAIN])
    names = (name for name, held in list(main.items()) if held is thing and name[:1] != "_")
    given = next(names, None)
    return None if given is None else f"{MAIN}:{given}"


def _class_text(kind: type[Any]) -> str:
    """Return the source of a class of a cell, which `inspect` finds in files alone.

    Raises:
        OSError: none of its methods says where it was written.
    """
    codes = (getattr(each, "__code__", None) for each in vars(kind).values())
    for file in dict.fromkeys(code.co_filename for code in codes if code is not None):
        text = "".join(linecache.getlines(file))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                return ast.get_source_segment(text, node) or ""
    raise OSError
