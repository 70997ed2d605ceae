"""Find the mentions of every entity group with its recogniser."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core.errors import UsageError
from medstress.core.items import check_words
from medstress.entities.groups import typed_options, types_of
from medstress.experiment.file.config import EntitiesTable
from medstress.experiment.file.labels import group_labels, type_label

if TYPE_CHECKING:
    from medstress.entities.recognisers import Recogniser
    from medstress.experiment.plan.dataset_parts import DatasetPart
    from medstress.experiment.plan.parts import AttackPart

GIVEN: dict[str, Any] = {"name": "given"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Recognised:
    """Data sets with the mentions that recognisers found."""

    datasets: list[DatasetPart]
    """The data sets with new mentions, which enter the items' hashes."""
    recognisers: list[dict[str, Any]]
    """Spec of each group's recogniser, in the order of the groups."""


def recognise_mentions(
    tables: Sequence[EntitiesTable],
    base: Path,
    datasets: Sequence[DatasetPart],
    note: Callable[[str], None],
    *,
    needs_all: bool = True,
) -> Recognised:
    """Find the mentions of every group.

    All groups share the same items, so that the baseline is asked once. Therefore each type has
    one recogniser: groups that share a type must share the recogniser.

    Args:
        tables: the groups.
        base: the folder that their paths start from.
        datasets: the data sets.
        note: told which recogniser works.
        needs_all: whether a recogniser that finds nothing is refused.

    Raises:
        UsageError: a recogniser is not available, two recognisers claim one type, or a data set
            has no mentions.
        DataError: a given mention cuts a word.
    """
    from medstress.entities.recognisers import recognise

    carried = any(item.mentions for part in datasets for item in part.all_items)
    usual = {"recogniser": "given" if carried else "gazetteer"}
    tables = [one if one.recogniser else one.model_copy(update=usual) for one in tables]
    labels = group_labels(tables)
    _check_types(tables, labels)
    specs: dict[str, dict[str, Any]] = {}
    found = list(datasets)
    for key in dict.fromkeys(map(_key, tables)):
        users = [table for table in tables if _key(table) == key]
        name = users[0].recogniser
        if name == "given":
            _require_mentions(datasets)
            _require_words(datasets)
            specs[key] = GIVEN
            continue
        note(f"mentions ({name})")
        recogniser = _open(users, base)
        types = frozenset().union(*(types_of(table.type) for table in users))
        for i, part in enumerate(found):
            items = recognise(part.questions, recogniser, types)
            found_any = any(mention.type in types for item in items for mention in item.mentions)
            if needs_all and not found_any:
                raise UsageError(
                    f"dataset {part.label!r}: recogniser {name!r} finds no mention of type "
                    f"{' or '.join(sorted({type_label(t) for t in users}))} in its "
                    f"{len(items)} items"
                ).with_command(part.check)
            found[i] = replace(part, questions=items)
        specs[key] = recogniser.spec()
    return Recognised(datasets=found, recognisers=[specs[_key(table)] for table in tables])


def _open(tables: Sequence[EntitiesTable], base: Path) -> Recogniser:
    """Open one recogniser for all groups that use it."""
    table = tables[0]
    if table.recogniser == "spacy":
        from medstress.entities.recognisers import SpacyPipeline

        assert table.model is not None  # checked by the table
        return SpacyPipeline(table.model, base, table.labels, table.linker)
    from medstress.entities.recognisers import (
        Gazetteer,
        Source,
        shipped_gazetteer,
        shipped_sources,
    )
    from medstress.entities.vocabularies import SHIPPED, load_vocabulary

    own = []
    for each in tables:
        if each.vocabulary in SHIPPED and each.type == each.vocabulary:
            continue
        names = load_vocabulary(each.vocabulary, base, each.column).names
        own.append(Source(names=names, type=_one_type(each)))
    return Gazetteer([*shipped_sources(), *own]) if own else shipped_gazetteer()


def _one_type(table: EntitiesTable) -> str:
    """Return the type of the names in a group's vocabulary."""
    types = [table.type] if isinstance(table.type, str) else list(table.type)
    if len(types) > 1:
        raise UsageError(
            f"entities, type = {types!r}: recogniser 'gazetteer' gives every name of the "
            f"vocabulary {table.vocabulary!r} one type; give one type, or recogniser = 'given' "
            "or 'spacy'"
        )
    return types[0]


def _key(table: EntitiesTable) -> str:
    """Return a key that is equal for groups with the same recogniser."""
    if table.recogniser != "spacy":
        return str(table.recogniser)
    return repr([table.model, sorted((table.labels or {}).items()), table.linker])


def _check_types(tables: Sequence[EntitiesTable], labels: Sequence[str]) -> None:
    users: dict[str, tuple[str, str, str]] = {}
    for table, label in zip(tables, labels, strict=True):
        for type_ in sorted(types_of(table.type)):
            key, first, name = users.setdefault(type_, (_key(table), label, str(table.recogniser)))
            if key != _key(table):
                raise UsageError(
                    f"groups {first!r} ({name}) and {label!r} ({table.recogniser}) share the type "
                    f"{type_} but not the recogniser; give both the same, or compare recognisers "
                    "in two experiments"
                )


def _require_mentions(datasets: Sequence[DatasetPart]) -> None:
    for dataset in datasets:
        if not any(item.mentions for item in dataset.all_items):
            raise UsageError(
                f"dataset {dataset.label!r} has no mentions, but recogniser = 'given' needs them: "
                'add mentions to the rows, or set annotations = "...", or find them with '
                'recogniser = "gazetteer"'
            ).with_command(dataset.check)


def require_attackable(
    tables: Sequence[EntitiesTable], datasets: Sequence[DatasetPart], attacks: Sequence[AttackPart]
) -> None:
    """Check that some option of some item names an entity of some group, if attacks draw names.

    Items before the limit count, so that a small sample without any may still be asked.

    Raises:
        UsageError: no item is attackable; the message says what the options do name.
    """
    groups = [types_of(table.type) for table in tables]
    items = [item for part in datasets for item in part.known_items]
    if (
        not groups
        or not all("names" in part.attack.needs for part in attacks)
        or any(typed_options(item, types) for item in items for types in groups)
    ):
        return
    found = sorted(
        {m.type for item in items for m in item.mentions if m.field in {*item.letters} - {item.key}}
    )
    wanted = " or ".join(sorted({type_label(table) for table in tables}))
    if found:
        why = f"the mentions there are of type {', '.join(found[:5])}; change type"
    else:
        why = "no mention is there; mark the names in the options"
    raise UsageError(
        f"no item is attackable: no wrong option names an entity of type {wanted}: {why}, or find "
        'mentions with recogniser = "gazetteer"'
    ).with_command(datasets[0].check)


def _require_words(datasets: Sequence[DatasetPart]) -> None:
    """Check that no mention cuts a word; plug-ins and callers may give such items."""
    for dataset in datasets:
        for item in dataset.all_items:
            check_words(item)
