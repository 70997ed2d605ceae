"""The key `types`: which entity types become labels, and under which names."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.sentences import OUTSIDE, TaggedText
from medstress.datasets.documents import Document

Types: TypeAlias = tuple[str, ...] | Mapping[str, str]
"""A list of the types to keep, or a table: name in the file -> name in the labels (O drops it)."""
LabelOfType: TypeAlias = Callable[[str], str | None]
"""Gives the label name of a type; None drops the type."""


def label_of_type(types: Types | None, known: Collection[str], path: Path) -> LabelOfType:
    """Return the mapping from types to label names.

    A list keeps the types it names. A table renames, drops those it maps to O, and keeps others.

    Raises:
        UsageError: no entity of the file has one of the types, or a new name is not one word.
    """
    if types is None:
        return lambda type_: type_
    for type_ in types:
        if type_ not in known:
            raise UsageError(
                f"{path}: no entity has the type {type_!r}{did_you_mean(type_, known)} (types in "
                f"the file: {', '.join(sorted(known)) or 'none'}); change the key 'types'"
            )
    if not isinstance(types, Mapping):
        kept = frozenset(types)
        return lambda type_: type_ if type_ in kept else None
    for name in types.values():
        if name.split() != [name]:
            raise UsageError(f"types: expected a one-word name, got {name!r}")
    new = {type_: None if name == OUTSIDE else name for type_, name in types.items()}
    return lambda type_: new.get(type_, type_)


def keep_types(documents: list[Document], types: Types | None, path: Path) -> None:
    """Keep and rename the entities of the documents as `types` says, in place.

    Raises:
        UsageError: as in `label_of_type`.
    """
    known = {entity.type for document in documents for entity in document.annotations}
    label_of = label_of_type(types, known, path)
    for document in documents:
        named = ((entity, label_of(entity.type)) for entity in document.annotations)
        document.annotations = [replace(e, type=name) for e, name in named if name is not None]


def with_types(
    items: Iterable[TaggedText], types: Types | None, path: Path
) -> tuple[TaggedText, ...]:
    """Return the tagged texts with types kept and renamed as `types` says.

    Raises:
        UsageError: as in `label_of_type`.
    """
    items = tuple(items)
    if types is None:
        return items
    known = {entity.type for item in items for entity in item.entities}
    label_of = label_of_type(types, known, path)
    return tuple(
        replace(item, labels=tuple(_renamed(label, label_of) for label in item.labels))
        for item in items
    )


def _renamed(label: str, label_of: LabelOfType) -> str:
    name = label_of(label[2:]) if label != OUTSIDE else None
    return OUTSIDE if name is None else f"{label[0]}-{name}"
