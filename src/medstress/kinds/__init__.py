"""The kinds of items. A new kind is a module here, one entry in `KINDS`, and one in the classes of
stored items (`medstress.store.codec`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from medstress.kinds.choice import CHOICE
from medstress.kinds.kind import Kind, Tasks, VictimRequest
from medstress.kinds.nli import NLI
from medstress.kinds.similarity import SIMILARITY
from medstress.kinds.tagging import TAGGING

__all__ = [
    "KINDS",
    "Kind",
    "Tasks",
    "VictimRequest",
    "kind_described",
    "kind_of",
    "kind_of_all",
]

KINDS: tuple[Kind, ...] = (CHOICE, TAGGING, SIMILARITY, NLI)
"""All kinds. Empty data sets have the first kind."""

_BY_TYPE = {type_: kind for kind in KINDS for type_ in (kind.item, kind.unit_type) if type_}


def kind_of(item: Any) -> Kind:
    """Return the kind of an item, or of a unit of one.

    Raises:
        TypeError: the value is not an item.
    """
    kind = _BY_TYPE.get(type(item))
    if kind is None:
        names = ", ".join(type_.__name__ for type_ in _BY_TYPE)
        raise TypeError(f"expected an item ({names}), got {type(item).__name__}")
    return kind


def kind_of_all(items: Iterable[Any]) -> Kind:
    """Return the kind of items that all have the same kind."""
    for item in items:
        return kind_of(item)
    return KINDS[0]


def kind_described(spec: dict[str, Any]) -> Kind:
    """Return the kind of a task in a manifest."""
    return next((kind for kind in KINDS if kind.is_described(spec)), KINDS[0])
