"""Data sets as the plan has them: loaded, their samples drawn, and their mentions found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.attacks.protocol import Attack
from medstress.core import registry
from medstress.core.errors import DataError, UsageError, are_flags_said
from medstress.core.frames import speak_of_rows
from medstress.core.items import check_words
from medstress.core.words import command
from medstress.datasets.source import DatasetOptions, Loaded, draw, draw_documents
from medstress.entities.groups import typed_options, types_of
from medstress.experiment import config

if TYPE_CHECKING:
    from medstress.entities.recognisers import Recogniser


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPart:
    """One data set, loaded, with its sample drawn."""

    label: str
    """Name in results."""
    questions: tuple[Any, ...]
    """The items after the limit: questions, tagged texts or sentence pairs."""
    loaded: Loaded
    """Everything the source returned, with skipped rows."""
    sample_seed: int = 0
    """Seed of its sample and of the groups' samples; a smaller sample is a subset of a larger."""
    check: str = "medstress check --help"
    """The command that shows how its rows are understood."""

    @property
    def understood(self) -> tuple[str, ...]:
        """How its rows were read, in a line; none if they are in medstress's own format."""
        return (f"read {self.loaded.understood}",) if self.loaded.understood else ()

    @property
    def known_items(self) -> tuple[Any, ...]:
        """The items before the limit; those after it with the mentions that were found in them."""
        drawn = {item.id: item for item in self.questions}
        return tuple(drawn.get(item.id, item) for item in self.all_items)

    @property
    def all_items(self) -> tuple[Any, ...]:
        """The items before the limit."""
        return self.loaded.items


_kept: dict[Any, Loaded] = {}
"""The file that was read last: `run --data` looks at it, composes an experiment, and runs that."""


def _loaded(name: str, options: DatasetOptions) -> Loaded:
    path = options.path
    stat = path.stat() if path is not None and path.is_file() else None
    key = stat and (name, repr(options), stat.st_mtime_ns, stat.st_size)
    if key in _kept:
        return _kept.pop(key)
    loaded: Loaded = registry.load("datasets", name)(options)
    _kept.clear()
    if key is not None:
        _kept[key] = loaded
    return loaded


def load_datasets(
    tables: Sequence[config.Dataset], base: Path, limit: int | None
) -> list[DatasetPart]:
    """Load every data set and draw its sample; `limit` (--limit) caps each one.

    Raises:
        UsageError: a file or key is missing.
        DataError: a bad row; it names the command that shows how rows are understood.
    """
    parts = []
    for table, label in zip(tables, config.labels_of(tables), strict=True):
        keys, seed = vars(table), table.sample_seed
        places = {
            key: base / Path(keys[key]).expanduser()
            for key in ("path", "annotations")
            if keys[key] is not None
        }
        own = {one.name: keys[one.name] for one in fields(DatasetOptions)}
        options = DatasetOptions(**{**own, **places, "columns": table.columns or {}})
        shown = places.get("path") or table.hub or table.name
        check = command("check", shown)
        try:
            loaded = _loaded(table.name, options)
        except DataError as error:
            sentence = str(error) if are_flags_said() else speak_of_rows(str(error), Path(shown))
            if sentence != str(error):
                raise DataError(sentence) from error
            error.with_command(check)
            raise
        part = DatasetPart(label=label, questions=(), loaded=loaded, sample_seed=seed, check=check)
        limits = [value for value in (table.limit, limit) if value is not None]
        from_documents = draw_documents(part.all_items, table.limit_documents, seed)
        drawn = draw(from_documents, min(limits, default=None), seed)
        parts.append(replace(part, questions=drawn))
    return parts


GIVEN: dict[str, Any] = {"name": "given"}


def recognise_mentions(
    tables: Sequence[config.Entities],
    base: Path,
    datasets: Sequence[DatasetPart],
    note: Callable[[str], None],
    *,
    needs_all: bool = True,
) -> tuple[list[DatasetPart], list[dict[str, Any]]]:
    """Find the mentions of every group.

    All groups share the same items, so that the baseline is asked once. Therefore each type has
    one recogniser: groups that share a type must share the recogniser.

    Args:
        tables: the groups.
        base: the folder that their paths start from.
        datasets: the data sets.
        note: told which recogniser works.
        needs_all: whether a recogniser that finds nothing is refused.

    Returns:
        The data sets with new mentions, which enter the items' hashes, and the spec of each group's
        recogniser.

    Raises:
        UsageError: a recogniser is not available, two recognisers claim one type, or a data set
            has no mentions.
        DataError: a given mention cuts a word.
    """
    from medstress.entities.recognisers import recognise

    carried = any(item.mentions for part in datasets for item in part.all_items)
    usual = {"recogniser": "given" if carried else "gazetteer"}
    tables = [one if one.recogniser else one.model_copy(update=usual) for one in tables]
    for one, other in combinations(tables, 2):
        shared = types_of(one.type) & types_of(other.type)
        if shared and _key(one) != _key(other):
            raise UsageError(
                f"groups {one.called!r} ({one.recogniser}) and {other.called!r} "
                f"({other.recogniser}) share the type {min(shared)} but not the recogniser; give "
                "both the same"
            )
    specs: dict[str, dict[str, Any]] = {}
    parts = list(datasets)
    for key in dict.fromkeys(map(_key, tables)):
        users = [table for table in tables if _key(table) == key]
        name = users[0].recogniser
        if name == "given":
            _require_mentions(datasets)
            specs[key] = GIVEN
            continue
        note(f"mentions ({name})")
        recogniser = _open(users, base)
        types = frozenset().union(*(types_of(table.type) for table in users))
        for i, part in enumerate(parts):
            items = recognise(part.questions, recogniser, types)
            has_one = any(mention.type in types for item in items for mention in item.mentions)
            if needs_all and not has_one:
                raise UsageError(
                    f"dataset {part.label!r}: recogniser {name!r} finds no mention of type "
                    f"{' or '.join(sorted({t.types for t in users}))} in its "
                    f"{len(items)} items"
                ).with_command(part.check)
            parts[i] = replace(part, questions=items)
        specs[key] = recogniser.spec()
    return parts, [specs[_key(table)] for table in tables]


def _open(tables: Sequence[config.Entities], base: Path) -> Recogniser:
    """Open one recogniser for all groups that use it."""
    table = tables[0]
    if table.recogniser == "spacy":
        from medstress.entities.recognisers import SpacyPipeline

        assert table.model is not None  # checked by the table
        return SpacyPipeline(table.model, base, table.labels, table.linker)
    from medstress.entities.recognisers import Gazetteer, Source, shipped_gazetteer
    from medstress.entities.vocabularies import SHIPPED, load_vocabulary

    own = []
    for one in tables:
        if one.vocabulary in SHIPPED and one.type == one.vocabulary:
            continue
        first, *others = [one.type] if isinstance(one.type, str) else one.type
        if others:
            raise UsageError(
                f"entities, type = {one.type!r}: recogniser 'gazetteer' gives every name of "
                f"{one.vocabulary!r} one type; give one"
            )
        names = load_vocabulary(one.vocabulary, base, one.column).names
        own.append(Source(names=names, type=first))
    return Gazetteer(own, with_shipped=True) if own else shipped_gazetteer()


def _key(table: config.Entities) -> str:
    """Return a key that is equal for groups with the same recogniser."""
    if table.recogniser != "spacy":
        return str(table.recogniser)
    return repr([table.model, sorted((table.labels or {}).items()), table.linker])


def _require_mentions(datasets: Sequence[DatasetPart]) -> None:
    """Check that rows carry mentions and that none cuts a word, which plug-ins may give."""
    for dataset in datasets:
        for item in dataset.all_items:
            check_words(item)
        if not any(item.mentions for item in dataset.all_items):
            raise UsageError(
                f"dataset {dataset.label!r} has no mentions, but recogniser = 'given' needs them; "
                'find them with recogniser = "gazetteer"'
            ).with_command(dataset.check)


def require_attackable(
    tables: Sequence[config.Entities], datasets: Sequence[DatasetPart], attacks: Iterable[Attack]
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
        or not all("names" in attack.needs for attack in attacks)
        or any(typed_options(item, types) for item in items for types in groups)
    ):
        return
    others = sorted(
        {m.type for item in items for m in item.mentions if m.field in {*item.letters} - {item.key}}
    )
    wanted = " or ".join(sorted({table.types for table in tables}))
    if others:
        why = f"the mentions there are of type {', '.join(others[:5])}; change type"
    else:
        why = "no mention is there; mark the names in the options"
    raise UsageError(
        f"no item is attackable: no wrong option names an entity of type {wanted}: {why}, or find "
        'mentions with recogniser = "gazetteer"'
    ).with_command(datasets[0].check)
