"""Which types of entities become labels, and under which names: the key `types`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from medstress.datasets.documents import Document
from medstress.errors import UsageError, did_you_mean
from medstress.sentences import OUTSIDE, TaggedText

Types: TypeAlias = tuple[str, ...] | Mapping[str, str]
"""A list of the types to keep, or their names in the file -> in the labels (O drops one)."""
Chosen: TypeAlias = Callable[[str], str | None]
"""The name of a type in the labels; None where it is left out."""


def chosen_types(types: Types | None, known: Collection[str], path: Path) -> Chosen:
    """How types are named in the labels: a list keeps its own only, a table all but those as O.

    Raises:
        UsageError: no entity of the file has one of the types, or a new name is not one word.
    """
    if types is None:
        return lambda type_: type_
    for type_ in types:
        if type_ not in known:
            raise UsageError(
                f"{path}: no entity has the type {type_!r}{did_you_mean(type_, known)} (its types: "
                f"{', '.join(sorted(known)) or 'none'}); change the key 'types'"
            )
    if not isinstance(types, Mapping):
        kept = frozenset(types)
        return lambda type_: type_ if type_ in kept else None
    for name in types.values():
        if name.split() != [name]:
            raise UsageError(f"types: expected a name of one word, got {name!r}")
    new = {type_: None if name == OUTSIDE else name for type_, name in types.items()}
    return lambda type_: new.get(type_, type_)


def keep_types(documents: list[Document], types: Types | None, path: Path) -> None:
    """Keep the entities of some types only, under the names that are wanted.

    Raises:
        UsageError: no entity of the file has one of the types.
    """
    known = {entity.type for document in documents for entity in document.annotations}
    chosen = chosen_types(types, known, path)
    for document in documents:
        named = ((entity, chosen(entity.type)) for entity in document.annotations)
        document.annotations = [replace(e, type=name) for e, name in named if name is not None]


def with_types(
    items: Iterable[TaggedText], types: Types | None, path: Path
) -> tuple[TaggedText, ...]:
    """Tagged texts with the chosen types alone, under their new names.

    Raises:
        UsageError: as in `chosen_types`.
    """
    items = tuple(items)
    if types is None:
        return items
    known = {entity.type for item in items for entity in item.entities}
    chosen = chosen_types(types, known, path)
    return tuple(
        replace(item, labels=tuple(_renamed(label, chosen) for label in item.labels))
        for item in items
    )


def _renamed(label: str, chosen: Chosen) -> str:
    name = chosen(label[2:]) if label != OUTSIDE else None
    return OUTSIDE if name is None else f"{label[0]}-{name}"
