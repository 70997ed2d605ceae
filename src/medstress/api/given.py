"""What Python gives for a table of an experiment file: paths, tables, attacks, functions."""

from __future__ import annotations

import ast
import inspect
import linecache
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Protocol, runtime_checkable

from pydantic import BaseModel

from medstress.attacks.protocol import Attack, attack_class, attack_fault
from medstress.core import registry
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.experiment.file.config import AttackTable
from medstress.files.functions import source_hashes

MAIN = "__main__"
"""The module of a notebook's cells and of a script that is run."""


@runtime_checkable
class Answering(Protocol):
    """An object, or a class of objects, that answers prompts."""

    def answer(self, prompts: list[Any], /) -> Any:
        """Return one answer for each prompt, in order."""


def is_answering(given: Any) -> bool:
    """Return whether a value can be a victim as it is: a function, class or object."""
    if isinstance(given, BaseModel | Mapping):
        return False
    return callable(given) or isinstance(given, Answering)


def entries(given: Any) -> list[Any]:
    """Return the entries of an array of tables; one alone may stand for a list of one."""
    return list(given) if isinstance(given, list | tuple) else [given]


def tables_of(given: Mapping[Any, Any]) -> dict[str, Any]:
    """Return the tables of an experiment as TOML would give them.

    Typed tables, attacks, and functions as victims or as the `target` of one may stand in them.

    Raises:
        UsageError: an attack or a function cannot be found again.
    """
    found = dict(given)
    if found.get("victim") is not None:
        found["victim"] = [victim_keys(each) for each in entries(found["victim"])]
    return plain(found)  # type: ignore[no-any-return]


def victim_keys(given: Any) -> Any:
    """Return the keys of a `[[victim]]` table for what can stand for one; else what came."""
    if is_answering(given):
        return plain(function_keys(given))
    if isinstance(given, Mapping) and is_answering(given.get("target")):
        keys = {key: each for key, each in given.items() if key not in ("target", "version")}
        return plain(function_keys(given["target"], given.get("version"), **keys))
    return plain(given)


def plain(value: Any) -> Any:
    """Return a value from Python as TOML would give it; keys that are None are left out."""
    if isinstance(value, Attack):
        return attack_keys(value)
    if isinstance(value, BaseModel):
        given = value.model_fields_set
        found = {name: getattr(value, name) for name in type(value).model_fields if name in given}
        if isinstance(value, AttackTable):
            found |= value.parameters
        return plain(found)
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, float) and type(value) is not float:
        return float(value)  # a number of numpy
    return value


def attack_keys(attack: Attack) -> dict[str, Any]:
    """Return the keys of an `[[attack]]` table that make this attack again, and no others.

    An attack of a class that is not installed is known by its name for the rest of the session.

    Raises:
        UsageError: it is no attack, or its class cannot be found again or has the name of another.
    """
    if fault := attack_fault(attack):
        raise UsageError(f"attack {attack!r} {fault}")
    kind: type[Any] = type(attack)
    name = str(attack.spec()["name"])
    _know(kind, name)
    keys = {each.name: getattr(attack, each.name) for each in fields(kind) if each.init}
    # Twice: a key whose default depends on others may stand in the way of them the first time.
    for key in [*keys, *keys]:
        fewer = {each: value for each, value in keys.items() if each != key}
        if key in keys and _makes(kind, fewer, attack):
            keys = fewer
    return {"name": name, **plain(keys)}


def _makes(kind: type[Any], keys: Mapping[str, Any], attack: Attack) -> bool:
    try:
        return bool(kind(**keys) == attack)
    except (TypeError, UsageError):
        return False


def _know(kind: type[Any], name: str) -> None:
    """Make the class of an attack known by its name."""
    if name not in registry.installed("attacks"):
        target = _name_of(kind)
        if target is None:
            raise UsageError(
                f"attack {name!r}: {kind.__qualname__} is made inside a function, so it cannot be "
                "found again; move the class to the top of its module or cell"
            )
        registry.ATTACKS[name] = registry.Entry(target, "an attack of this session")
    known = attack_class(name)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise UsageError(
            f"attack {name!r}: {known.__module__}.{known.__qualname__} is installed under this "
            f"name already; give {kind.__qualname__} another `name` in its spec"
        )


def function_keys(
    function: Callable[..., Any] | Answering, version: str | None = None, **keys: Any
) -> dict[str, Any]:
    """Return the keys of a `[[victim]]` table for a function, class or object.

    The run is identified by its source: the file of a module, or the text of a notebook's cell.

    Args:
        function: what answers (docs: victims).
        version: identifies it instead of its source, for an object or where a function uses more
            than its own source says, such as a model that was loaded in another cell.
        keys: other keys of the table.

    Raises:
        UsageError: it cannot be found again under a name, or it has no source and no version.
    """
    target = _name_of(function)
    if target is None:
        shown = getattr(function, "__qualname__", type(function).__name__)
        raise UsageError(
            f"victim {shown}: a function that is made inside another, or has no name, cannot be "
            "found again; define it with `def` at the top of its module or cell, or give an "
            "object a name there"
        )
    if version is None and not source_hashes(function):
        version = _hash_of_text(function, target)
    given = {"backend": "python", "target": target, "version": version, **keys}
    return {"name": target.rpartition(":")[2], **given}


def _name_of(thing: Any) -> str | None:
    """Return `module:name` by which a thing can be found; None if there is none."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if isinstance(module, str) and isinstance(name, str):
        found: Any = sys.modules.get(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        # A cell that is run again makes the class anew, and a run imports a module again.
        is_again = inspect.isclass(found) and inspect.isclass(thing)
        code = getattr(thing, "__code__", None)
        is_again |= code is not None and getattr(found, "__code__", None) == code
        if found is thing or is_again:
            return f"{module}:{name}"
    # An object, or a function without a name of its own, that a cell has given a name.
    main = vars(sys.modules[MAIN])
    names = (name for name, held in list(main.items()) if held is thing and name[:1] != "_")
    found = next(names, None)
    return None if found is None else f"{MAIN}:{found}"


def _hash_of_text(function: Any, target: str) -> str:
    try:
        text = _class_text(function) if inspect.isclass(function) else inspect.getsource(function)
    except (OSError, TypeError):
        raise UsageError(
            f"victim {target}: it has no source that identifies it; give it a version, as in "
            f'ms.Victim.of({target.rpartition(":")[2]}, version="1")'
        ) from None
    return content_hash(["source", text])


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
