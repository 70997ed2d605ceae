"""Modules of the user's own that a file of theirs imports, found without running it.

Imports are read in the source text, those inside functions too, and followed from module to module.
Looking at what is in memory once the file is imported would miss what a function imports when it is
first called, and would depend on whatever else this process has loaded. What the text does not say
is not seen: modules whose names are computed.
"""

from __future__ import annotations

import ast
import importlib
import sys
import sysconfig
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import cache_from_source
from pathlib import Path
from pkgutil import iter_modules

from medstress.hashing import file_hash

_INSTALLED = {"site-packages", "dist-packages"}
_STANDARD = [Path(sysconfig.get_path(kind)).resolve() for kind in ("stdlib", "platstdlib")]
_OURS = __name__.partition(".")[0]
_COARSE_SECONDS = 2.0
"""How exactly file systems and compiled copies tell times apart."""
_loaded: dict[str, tuple[Path, str]] = {}
"""Module -> its file and what that held when it was imported here."""


def local_imports(*, file: Path | None = None, module: str | None = None) -> dict[str, Path]:
    """Find the user's own modules behind a file or a module: not installed ones, nor Python's.

    Args:
        file: a source file that is no module of a package.
        module: a module's dotted name; it and its packages are among what is found.

    Returns:
        Dotted name -> file, sorted by name. Folders that are packages without a file are left out.
    """
    importlib.invalidate_caches()
    found: dict[str, Path] = {}
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
            if known in found or spec.origin is None:
                continue
            found[known] = path = Path(spec.origin)
            is_package = spec.submodule_search_locations is not None
            waiting += _names_in(path, known if is_package else known.rpartition(".")[0])
    return dict(sorted(found.items()))


def forget_changed(modules: Mapping[str, Path]) -> None:
    """Let Python import modules anew whose files are others than those in memory.

    All of them where one is: the others hold what they took from it. So are those that earlier
    files imported and that are not on the path any more.
    """
    now = {name: (path.resolve(), file_hash(path)) for name, path in modules.items()}
    known = [name for name in now if name in sys.modules]
    forgotten = {name for name in _loaded if name not in now and not list(_specs(name))}
    if any(_loaded.get(name) != now[name] for name in known):
        forgotten.update(each for name in known for each in _with_packages(name))
    for name in forgotten:
        sys.modules.pop(name, None)
        _loaded.pop(name, None)
    for path in modules.values():
        drop_compiled(path)
    _loaded.update(now)


def _with_packages(name: str) -> Iterator[str]:
    parts = name.split(".")
    return (".".join(parts[: i + 1]) for i in range(len(parts)))


def drop_compiled(path: Path) -> None:
    """Remove a compiled copy that may be of an earlier text: Python compares seconds and size."""
    with suppress(OSError, NotImplementedError):
        compiled = Path(cache_from_source(str(path)))
        if compiled.stat().st_mtime - path.stat().st_mtime < _COARSE_SECONDS:
            compiled.unlink()


def is_installed(path: Path) -> bool:
    """Whether a file is part of Python or of an installed package."""
    place = path.resolve()
    if _INSTALLED & set(place.parts) or any(place.is_relative_to(each) for each in _STANDARD):
        return True
    # Packages may be installed into any folder (`pip install --target`).
    return any(place.parent.glob("*.dist-info")) or any(place.parent.parent.glob("*.dist-info"))


def deepest_relative_import(file: Path) -> int:
    """By how many folders the relative imports of a source file go up; 0 where it has none."""
    levels = (node.level for node in _imports(file) if isinstance(node, ast.ImportFrom))
    return max(levels, default=0)


def _imports(file: Path) -> list[ast.Import | ast.ImportFrom]:
    """The import statements of a source file; none of one that Python cannot read either."""
    if file.suffix != ".py":
        return []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # told when it is imported
            tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    return [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]


def _names_in(file: Path, package: str) -> list[str]:
    """What may be modules among what a source file imports, as dotted names."""
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
    """A dotted name's packages and itself, as far as they are modules of the user's."""
    places: Iterable[str] = sys.path
    parts = name.split(".")
    if parts[0] == _OURS or parts[0] in sys.builtin_module_names:
        return
    loaded = sys.modules.get(parts[0])
    if loaded is not None and not _is_local(getattr(loaded, "__spec__", None)):
        return  # in memory under this name already, so Python does not look for a file
    for i, part in enumerate(parts):
        if part == "*" and i:
            inside = [each.name for each in iter_modules(list(places))]
            for each in inside:
                yield from _specs(".".join([*parts[:i], each]))
            return
        spec = PathFinder.find_spec(part, list(places))
        if spec is None or not _is_local(spec):
            return
        yield ".".join(parts[: i + 1]), spec
        places = spec.submodule_search_locations or ()


def _is_local(spec: ModuleSpec | None) -> bool:
    """Whether a module is neither installed nor Python's."""
    if spec is None or spec.origin in ("built-in", "frozen"):
        return False
    places = [spec.origin] if spec.origin else list(spec.submodule_search_locations or ())
    return not all(is_installed(Path(place)) for place in places)
