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

from medstress.attacks.protocol import Attack
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.frames import Frame
from medstress.core.functions import Answering
from medstress.experiment.config import Settings, Table

P = ParamSpec("P")
T = TypeVar("T")
_WORDS: dict[Any, str] = {
    str: "a text",
    int: "a whole number",
    float: "a number",
    bool: "True or False",
    Path: "a path",
    Mapping: "a dict",
    Callable: "a function",
    Answering: "an object with a method `answer`",
    Attack: "an attack",
    Frame: "a data frame",
}
"""Type -> what messages call it."""
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = 80


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Let a function refuse arguments that are not of their annotated types.

    Raises:
        UsageError: when called so: the argument, what was expected, and what came.
    """
    signature = inspect.signature(function)

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name in kwargs.keys() - signature.parameters:
            _refuse_setting(name, kwargs[name], signature)
        try:
            arguments = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # raises Python's own error, with the function's name
        for name, kind in _types(function).items():
            if name in arguments:
                check_argument(name, arguments[name], kind)
        return function(*args, **kwargs)

    return call


def _refuse_setting(name: str, value: Any, signature: inspect.Signature) -> None:
    """Refuse an argument that is a key of `[experiment]`, where a function takes `overrides`."""
    if "overrides" in signature.parameters and name in Settings.model_fields:
        raise UsageError(
            f"{name} is a key of [experiment] and no argument here; give "
            f"overrides=['experiment.{name}={json.dumps(value, default=str)}'], or an "
            f"ms.Experiment with {name}"
        )


def check_argument(name: str, value: Any, kind: Any) -> None:
    """Check one value.

    Raises:
        UsageError: it is of another type, or none of the known words.
    """
    if _fits(value, kind):
        return
    words = [w for one in _members(kind) if get_origin(one) is Literal for w in get_args(one)]
    hint = did_you_mean(value, words) if isinstance(value, str) else ""
    raise UsageError(f"{name}: expected {_words(kind)}, got {_shown(value)}{hint}")


@cache
def _types(function: Callable[..., Any]) -> dict[str, Any]:
    """Return parameter -> type; the type of the result may be known to type checkers alone."""
    hints = {
        name: hint for name, hint in inspect.get_annotations(function).items() if name != "return"
    }
    names = getattr(function, "__globals__", {})
    return get_type_hints(SimpleNamespace(__annotations__=hints), names)


def _members(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _fits(value: Any, kind: Any) -> bool:
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return True
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in inner)
    if origin is Literal:
        return any(type(value) is type(one) and value == one for one in inner)
    if origin is Sequence:
        is_list = isinstance(value, Sequence) and not isinstance(value, str | bytes)
        return is_list and all(_fits(one, inner[0]) for one in value)
    if origin is Mapping:
        return isinstance(value, Mapping) and all(
            _fits(key, inner[0]) and _fits(one, inner[1]) for key, one in value.items()
        )
    if kind is Path:
        return isinstance(value, PathLike)
    if kind is int or kind is float:
        return not isinstance(value, bool) and isinstance(
            value, int if kind is int else int | float
        )
    return isinstance(value, origin or kind)


def _words(kind: Any) -> str:
    """Return a type in words.

    >>> _words(str | Path | None), _words(str | Sequence[str])
    ('a text or a path', 'a text or a list (each a text)')
    """
    origin, inner = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        words = list(dict.fromkeys(_words(one) for one in inner if one is not NoneType))
        return " or ".join(filter(None, (", ".join(words[:-1]), words[-1])))
    if origin is Literal:
        return " or ".join(map(repr, inner))
    if origin is Sequence:
        return f"a list (each {_words(inner[0])})"
    if (origin or kind) in _WORDS:
        return _WORDS[origin or kind]
    name = f"ms.{kind.__name__}" if issubclass(kind, Table) else kind.__name__
    return f"an {name}" if name[0] in "AEIOm" else f"a {name}"


def _shown(value: Any) -> str:
    if isinstance(value, str | int | float | list | tuple | dict | None):
        return _SHORT.repr(value)
    if inspect.isclass(value) or inspect.isroutine(value):
        return repr(value)
    return f"an object of {type(value).__module__}.{type(value).__qualname__}"
