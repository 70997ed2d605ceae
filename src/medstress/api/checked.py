"""Checks the arguments of public functions against their annotations before anything is opened."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from functools import cache, wraps
from os import PathLike
from pathlib import Path
from reprlib import Repr
from types import NoneType, SimpleNamespace, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin, get_type_hints

from medstress.api.given import Answering
from medstress.api.wording import say_as_asked
from medstress.attacks.protocol import Attack
from medstress.core.errors import MedstressError, UsageError, did_you_mean
from medstress.experiment.file.config import TomlTable

P = ParamSpec("P")
T = TypeVar("T")
_WORDS: dict[Any, tuple[str, str]] = {
    str: ("a text", "texts"),
    int: ("a whole number", "whole numbers"),
    float: ("a number", "numbers"),
    bool: ("True or False", "truth values"),
    Path: ("a path", "paths"),
    Mapping: ("a dict", "dicts"),
    Callable: ("a function", "functions"),
}
"""Type -> its name, of one and of several."""
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function refuse arguments that are not of their annotated types.

    What it refuses itself, it says as Python: messages are those of the command line too.

    Raises:
        UsageError: when called so: the argument, what was expected, and what came.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            _refuse_setting(signature, kwargs)
            return function(*args, **kwargs)  # raises Python's own error, with the function's name
        for name, kind in _types(function).items():
            if name in given:
                check_argument(name, given[name], kind)
        try:
            return function(*args, **kwargs)
        except MedstressError as error:
            say_as_asked(error)
            raise

    return call


def _refuse_setting(signature: inspect.Signature, given: Mapping[str, Any]) -> None:
    """Refuse an argument that is a key of `[experiment]`, where a function takes `overrides`.

    Raises:
        UsageError: what to write in its place.
    """
    from medstress.experiment.file.config import ExperimentTable

    if "overrides" not in signature.parameters:
        return
    strange = [name for name in given if name not in signature.parameters]
    if name := next((each for each in strange if each in ExperimentTable.model_fields), None):
        value = json.dumps(given[name], default=str)
        raise UsageError(
            f"{name} is a key of [experiment] and no argument here; give "
            f"overrides=['experiment.{name}={value}'], or an ms.Experiment with {name}"
        )


def check_argument(name: str, value: Any, kind: Any) -> None:
    """Check one value.

    Raises:
        UsageError: it is of another type, or none of the known words.
    """
    if _fits(value, kind):
        return
    known = [
        word for each in _members(kind) if get_origin(each) is Literal for word in get_args(each)
    ]
    hint = did_you_mean(value, known) if isinstance(value, str) else ""
    if hasattr(value, "to_parquet") or hasattr(value, "write_parquet"):
        write = "write_parquet" if hasattr(value, "write_parquet") else "to_parquet"
        hint = f'; write it to a file, as in frame.{write}("my.parquet"), and give "my.parquet"'
    raise UsageError(f"{name}: expected {_words(kind)}, got {_shown(value)}{hint}")


@cache
def _types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return parameter -> type; the type of the result may be known to type checkers alone."""
    given = {
        name: each for name, each in inspect.get_annotations(function).items() if name != "return"
    }
    names = getattr(function, "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__=given), names)


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, each) for each in inner)
    if origin is Literal:
        return any(value is each or (type(value) is type(each) and value == each) for each in inner)
    if origin is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(_fits(each, inner[0]) for each in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, inner[0]) and _fits(each, inner[1]) for key, each in value.items()
        )
    if kind is Path:
        return isinstance(value, PathLike)
    if kind is int or kind is float:
        return not isinstance(value, bool) and isinstance(
            value, int if kind is int else int | float
        )
    return isinstance(value, origin or kind)


def _words(kind: Any, *, many: bool = False) -> str:
    """Return a type in words.

    >>> _words(str | Path | None), _words(str | Sequence[str])
    ('a text or a path', 'a text or a list of texts')
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        words = list(
            dict.fromkeys(_words(each, many=many) for each in inner if each is not NoneType)
        )
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is Sequence:
        return f"{'lists' if many else 'a list'} of {_words(inner[0], many=True)}"
    known = _WORDS.get(origin or kind)
    if known is not None:
        return known[many]
    name = kind.__name__
    if kind is Attack:
        return "attacks" if many else "an attack"
    if kind is Answering:
        return "objects with a method `answer`" if many else "an object with a method `answer`"
    if issubclass(kind, TomlTable):
        name = f"ms.{name.removesuffix('Table')}"
    return name if many else f"an {name}" if name[0] in "AEIOm" else f"a {name}"


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float | list | tuple | dict | None):
        return _SHORT.repr(value)
    if inspect.isclass(value) or inspect.isroutine(value):
        return repr(value)
    return f"an object of {type(value).__module__}.{type(value).__qualname__}"
