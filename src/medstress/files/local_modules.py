"""Finds the user's own modules that a source file imports, without running it.

The source text is parsed, imports inside functions included, and followed from module to module.
Inspecting `sys.modules` after an import would miss what functions import when first called, and
would depend on what else the process has loaded. Imports with computed names are not found.
"""

from __future__ import annotations

import ast
import importlib
import sys
import sysconfig
import threading
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import cache_from_source
from pathlib import Path
from pkgutil import iter_modules

from medstress.core.hashing import file_hash

_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]
_OURS = __name__.partition(".")[0]
_CLOCK_SECONDS = 2.0
"""Resolution of the times of files and compiled copies."""
_loaded: dict[str, tuple[Path, str]] = {}
"""Module -> its file and the file's hash when this process imported it."""
_PARSING = threading.Lock()
"""Python 3.11 counts the depth of `ast.parse` for all threads together and then refuses."""


def local_imports(*, file: Path | None = None, module: str | None = None) -> dict[str, Path]:
    """Find the user's own modules that a file or module imports, directly or through others.

    Installed modules and the standard library are left out.

    Args:
        file: a source file outside any package.
        module: a module's dotted name; the result includes it and its packages.

    Returns:
        Dotted name -> file, sorted by name. Namespace packages, which have no file, are left out.
    """
    importlib.invalidate_caches()
    modules: dict[str, Path] = {}
    seen: set[str] = set()
    waiting = [module] if module is not None else []
    if file is not None:
        waiting += _names_in(file, "")
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        for known, spec in _specs(name):
            if known in modules or spec.origin is None:
                continue
            modules[known] = path = Path(spec.origin)
            is_package = spec.submodule_search_locations is not None
            waiting += _names_in(path, known if is_package else known.rpartition(".")[0])
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
        stale.update(each for name in imported for each in _with_packages(name))
    for name in stale:
        sys.modules.pop(name, None)
        _loaded.pop(name, None)
    for path in modules.values():
        drop_compiled(path)
    _loaded.update(current)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)))


def drop_compiled(path: Path) -> None:
    """Remove a compiled copy that may be stale; Python compares only whole seconds and the size."""
    with suppress(OSError, NotImplementedError):
        compiled = Path(cache_from_source(str(path)))
        if compiled.stat().st_mtime - path.stat().st_mtime < _CLOCK_SECONDS:
            compiled.unlink()


def is_installed(path: Path) -> bool:
    """Return whether a file belongs to Python or to an installed package."""
    place = path.resolve()
    if _INSTALLED & set(place.parts) or any(place.is_relative_to(each) for each in _STANDARD):
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
            submodules = [each.name for each in iter_modules(list(places))]
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
