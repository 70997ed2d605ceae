"""Functions of the user's, named as ``module:function`` or ``file.py:function``."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from medstress.errors import UsageError
from medstress.hashing import file_hash


def load_function(target: str, base: Path, what: str) -> tuple[Callable[..., Any], Path | None]:
    """Import the function that `target` names.

    Args:
        target: ``module:function`` or ``file.py:function``.
        base: folder that a relative file starts from.
        what: the function's part in the experiment, for messages.

    Returns:
        The function, and the file that `target` names, where there is one.

    Raises:
        UsageError: no such file, module or function, or importing it raised.
    """
    module, path = load_module(target, base, what)
    where, _, name = target.rpartition(":")
    function = getattr(module, name, None)
    if not callable(function):
        raise UsageError(f"{what} {target!r}: {where} has no function {name!r}")
    return function, path


def load_module(target: str, base: Path, what: str) -> tuple[Any, Path | None]:
    """Import what stands before the colon of a target, as `load_function` does.

    Returns:
        The module, and its file, where there is one.

    Raises:
        UsageError: no such file or module, or importing it raised.
    """
    where = target.rpartition(":")[0]
    path = base / where if where.endswith(".py") else None
    module = _load_module(where, what) if path is None else _load_file(path, what)
    source = getattr(module, "__file__", None)
    return module, path or (Path(source) if source else None)


def source_hashes(function: Any, path: Path | None, kind: type[Any] | None = None) -> list[str]:
    """Hashes of the file a target names and, where they are others, of those that define it.

    Args:
        function: what is called.
        path: the file that the target names.
        kind: the class of the object that is called, or whose method is.

    Returns:
        Sorted hashes; none for a function without a source file.
    """
    of_kind = None if kind is None else _source(kind)
    source = _source(function) or of_kind
    if source is None or not source.is_file():
        return []
    return sorted({file_hash(p) for p in (path, source, of_kind) if p is not None and p.is_file()})


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
    if not path.is_file():
        raise UsageError(f"{what}: there is no file {path}")
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
