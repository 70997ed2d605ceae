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
import sysconfig
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib import metadata
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import cache_from_source
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, Protocol, TypeGuard, runtime_checkable

from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash, file_hash

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


def _import_from(folder: Path, target: Path | str, what: str, *, label: str) -> Loaded:
    """Import a file or a module with `folder` first on `sys.path`."""
    first = str(folder.resolve())
    with _IMPORTING:
        sys.path.insert(0, first)
        try:
            forget_changed(local_imports(target))
            module = _imported(target, what)
            # Again, because the file itself may have put more folders on `sys.path`.
            imports = local_imports(target)
        except BaseException as error:
            _remove_from_path(first)
            if isinstance(error, OSError):
                raise UsageError(
                    f"{what}: cannot read {error.filename}: {error.strerror}"
                ) from error
            raise
    source = getattr(module, "__file__", None)
    is_own = isinstance(target, Path) or target in imports
    return Loaded(
        module=module,
        label=label,
        path=target if isinstance(target, Path) else Path(source) if source else None,
        imports=imports,
        packages=() if is_own else _packages_of(str(target)),
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
    return sorted(files) + [f"{name} {file_hash(place)}" for name, place in imports.items()]


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


def _imported(target: Path | str, what: str) -> Any:
    """Import a file again, or a module by its name."""
    try:
        if isinstance(target, str):
            return importlib.import_module(target)
        drop_compiled(target)
        name = f"medstress_{what.replace(' ', '_')}_{target.stem}"
        spec = importlib.util.spec_from_file_location(name, target)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        if isinstance(target, str) and isinstance(error, ImportError):
            raise UsageError(
                f"{what}: module {target!r} cannot be imported ({error}); give a file as "
                '"path/to/file.py:function", or put its folder on PYTHONPATH'
            ) from error
        raise UsageError(f"{what}: importing {target} raised {describe_error(error)}") from error


# -- functions that Python hands over --------------------------------------------------------------


@runtime_checkable
class Answering(Protocol):
    """An object, or a class of objects, that answers prompts."""

    def answer(self, prompts: list[Any], /) -> Any:
        """Return one answer for each prompt, in order."""


def is_answering(value: Any) -> TypeGuard[Callable[..., Any] | Answering]:
    """Return whether a value can be a victim as it is: a function, class or object."""
    return not isinstance(value, Mapping) and (callable(value) or isinstance(value, Answering))


def identified(
    function: Callable[..., Any] | Answering, version: str | None = None
) -> tuple[str, str | None]:
    """Return the name of a function, class or object, and what identifies it besides its file.

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
        # A cell that is run again makes the class again, and a run imports a module again.
        is_again = inspect.isclass(held) and inspect.isclass(thing)
        code = getattr(thing, "__code__", None)
        is_again |= code is not None and getattr(held, "__code__", None) == code
        if held is thing or is_again:
            return f"{module}:{name}"
    # An object, or a function without a name of its own, that a cell has given a name.
    main = vars(sys.modules[MAIN])
    names = (name for name, held in list(main.items()) if held is thing and name[:1] != "_")
    first = next(names, None)
    return None if first is None else f"{MAIN}:{first}"


def _class_text(kind: type[Any]) -> str:
    """Return the source of a class of a cell, which `inspect` finds in files alone.

    Raises:
        OSError: none of its methods says where it was written.
    """
    codes = (getattr(member, "__code__", None) for member in vars(kind).values())
    for file in dict.fromkeys(code.co_filename for code in codes if code is not None):
        text = "".join(linecache.getlines(file))
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.ClassDef) and node.name == kind.__name__:
                return ast.get_source_segment(text, node) or ""
    raise OSError


# -- Modules that a source file imports -----------------------------------------------------------
_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]
_OURS = __name__.partition(".")[0]
_CLOCK_SECONDS = 2.0
"""Resolution of the times of files and compiled copies."""
_loaded: dict[str, tuple[Path, str]] = {}
"""Module -> its file and the file's hash when this process imported it."""
_PARSING = threading.Lock()
"""Python 3.11 counts the depth of `ast.parse` for all threads together and then refuses."""


def local_imports(start: Path | str) -> dict[str, Path]:
    """Find the user's own modules that a file or module imports, directly or through others.

    Installed modules and the standard library are left out.

    Args:
        start: a source file outside any package, or a module's dotted name, whose result includes
            it and its packages.

    Returns:
        Dotted name -> file, sorted by name. Namespace packages, which have no file, are left out.
    """
    importlib.invalidate_caches()
    modules: dict[str, Path] = {}
    seen: set[str] = set()
    waiting = [start] if isinstance(start, str) else _names_in(start, "")
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for module, spec in _specs(name):
            if module in modules or spec.origin is None:
                continue
            modules[module] = path = Path(spec.origin)
            is_package = spec.submodule_search_locations is not None
            waiting += _names_in(path, module if is_package else module.rpartition(".")[0])
    return dict(sorted(modules.items()))


def forget_changed(modules: Mapping[str, Path]) -> None:
    """Remove changed modules from `sys.modules`, so that Python imports them again.

    If one has changed, all are removed, because the others hold objects from it. Modules of earlier
    files that are no longer on the path are removed too.
    """
    current = {name: (path.resolve(), file_hash(path)) for name, path in modules.items()}
    imported = [name for name in current if name in sys.modules]
    stale = {name for name in _loaded if name not in current and not list(_specs(name))}
    if any(_loaded.get(name) != current[name] for name in imported):
        for name in imported:  # with its packages
            parts = name.split(".")
            stale.update(".".join(parts[: i + 1]) for i in range(len(parts)))
    for name in stale:
        sys.modules.pop(name, None)
        _loaded.pop(name, None)
    for path in modules.values():
        drop_compiled(path)
    _loaded.update(current)


def drop_compiled(path: Path) -> None:
    """Remove a compiled copy that may be stale; Python compares only whole seconds and the size."""
    with suppress(OSError, NotImplementedError):
        compiled = Path(cache_from_source(str(path)))
        if compiled.stat().st_mtime - path.stat().st_mtime < _CLOCK_SECONDS:
            compiled.unlink()


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    place = path.resolve()
    if _INSTALLED & set(place.parts) or any(place.is_relative_to(folder) for folder in _STANDARD):
        return True
    # `pip install --target` puts packages into any folder.
    return any(place.parent.glob("*.dist-info")) or any(place.parent.parent.glob("*.dist-info"))


def deepest_relative_import(file: Path) -> int:
    """Return how many levels the relative imports of a source file go up; 0 if it has none."""
    levels = (node.level for node in _imports(file) if isinstance(node, ast.ImportFrom))
    return max(levels, default=0)


def _imports(file: Path) -> list[ast.Import | ast.ImportFrom]:
    """Return the import statements of a source file; none if Python cannot parse it."""
    if file.suffix != ".py":
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # shown when the file is imported
            with _PARSING:
                tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _names_in(file: Path, package: str) -> list[str]:
    """Return the dotted names in a source file's imports that may be modules."""
    names: list[str] = []
    for node in _imports(file):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
            continue
        above = package.split(".")[: len(package.split(".")) - node.level + 1]
        base = ".".join(filter(None, [*(above if node.level else ()), node.module]))
        names += [base, *(f"{base}.{alias.name}" for alias in node.names)] if base else []
    return names


def _specs(name: str) -> Iterator[tuple[str, ModuleSpec]]:
    """Yield the packages of a dotted name and the module itself, while they are the user's own."""
    places: Iterable[str] = sys.path
    parts = name.split(".")
    if parts[0] == _OURS or parts[0] in sys.builtin_module_names:
        return
    loaded = sys.modules.get(parts[0])
    if loaded is not None and not _is_local(getattr(loaded, "__spec__", None)):
        return  # already imported under this name, so Python would not look for a file
    for i, part in enumerate(parts):
        if part == "*" and i:
            submodules = [one.name for one in iter_modules(list(places))]
            for submodule in submodules:
                yield from _specs(".".join([*parts[:i], submodule]))
            return
        spec = PathFinder.find_spec(part, list(places))
        if spec is None or not _is_local(spec):
            return
        yield ".".join(parts[: i + 1]), spec
        places = spec.submodule_search_locations or ()


def _is_local(spec: ModuleSpec | None) -> bool:
    """Return whether a module is neither installed nor part of Python."""
    if spec is None or spec.origin in ("built-in", "frozen"):
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return not all(is_installed(Path(place)) for place in places)
