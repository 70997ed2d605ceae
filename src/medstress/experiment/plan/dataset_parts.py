"""Data sets as the plan has them: loaded, their samples drawn, and their mentions found."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.core import registry
from medstress.core.calls import Call, Window
from medstress.core.errors import DataError, UsageError
from medstress.core.items import Question, check_words
from medstress.core.text import sentence_spans
from medstress.datasets.source import DatasetOptions, Loaded, draw, draw_documents
from medstress.entities.groups import typed_options, types_of
from medstress.experiment.file import config

if TYPE_CHECKING:
    from medstress.attacks.protocol import Attack
    from medstress.entities.recognisers import Recogniser
    from medstress.tasks.victim import Victim

_WORD = re.compile(r"\S+")
ROOM = 128
"""Tokens left free for what attacks put into a prompt: names, an inserted sentence."""


def with_fitting_passages(part: DatasetPart, victims: Sequence[Victim]) -> DatasetPart:
    """Return a data set whose passages fit the windows of all victims that show them.

    The prompt of the clean item, its longest option, the reply and `ROOM` tokens have to fit. An
    item whose prompt is too long without its passage keeps the first word of it, and its trials
    fail as they would have.

    Returns:
        The data set, with a note for each victim for which passages were cut, one if no victim is
        shown any passage, and one for each that expects passages where questions have none.
        Victims whose window is unknown, such as servers, cut nothing.
    """
    n_passages = sum(bool(getattr(item, "passage", "")) for item in part.questions)
    readers = [
        victim
        for victim in victims
        if victim.on(part.label).prompt is not None and victim.on(part.label).shows("passage")
    ]
    notes = []
    if n_passages and not readers and not part.loaded.has_optional_passages:
        notes.append(
            f"{n_passages} questions have a passage, but no victim's prompt shows it: set prompt = "
            '"open_book" or "open_book_cloze"'
        )
    for victim in readers:
        if n_missing := len(part.questions) - n_passages:
            notes.append(
                f"{n_missing} of {len(part.questions)} questions have no passage; victim "
                f"{victim.label!r} is asked about them without one"
            )
        window = victim.backend.window
        if window is None or not n_passages:
            continue
        asked = victim.on(part.label)
        questions = tuple(_fitting(item, asked, window) for item in part.questions)
        n_cut = sum(new is not old for new, old in zip(questions, part.questions, strict=True))
        if n_cut:
            notes.append(
                f"{n_cut} of {n_passages} passages do not fit the {window.tokens:,} tokens that "
                f"victim {victim.label!r} reads at once; they are cut for all victims"
            )
            part = replace(part, questions=questions)
            # Probes draw passages of all rows.
            fitting = (_fitting(item, asked, window) for item in part.all_items)
            part = replace(part, loaded=replace(part.loaded, items=tuple(fitting)))
    return replace(part, loaded=replace(part.loaded, notes=(*part.loaded.notes, *notes)))


def with_long_items(
    victim: Victim,
    parts: Sequence[DatasetPart],
    note: Callable[[str], None],
    asked: Mapping[str, Callable[[Victim, str, Any], Victim]],
) -> tuple[Victim, list[DatasetPart]]:
    """Return a victim that knows which items it cannot read, and the data sets with a note on them.

    Their trials end as not attackable, and nothing is asked about them.

    Args:
        victim: open.
        parts: the data sets.
        note: receives the notes as well.
        asked: name of an attack that asks in turns, or "" for all others -> returns the victim as
            it is asked about an item of a data set.
    """

    def clean_calls(part: DatasetPart, item: Any, name: str) -> list[Call]:
        try:
            way = asked[name](victim, part.label, item)
            flows = (way.flow(unit.candidate()) for unit in item.units()[:1])
            return [request.call for flow in flows for request in next(flow)]
        except Exception:  # noqa: BLE001 - its trial says why
            return []

    too_long: dict[tuple[str, str, bool], str] = {}
    noted = list(parts)
    for (place, part), name in product(enumerate(parts), asked):
        calls = [(item, call) for item in part.questions for call in clean_calls(part, item, name)]
        reasons = victim.backend.too_long([call for _, call in calls])
        of_part = {
            (part.label, item.id, name != ""): reason
            for (item, _), reason in zip(calls, reasons, strict=True)
            if reason is not None
        }
        if of_part:
            text = (
                f"{len(of_part)} of {len(part.questions)} items of {part.label!r} are longer than "
                f"victim {victim.label!r} reads at once, and are not attacked"
                f"{f' by {name}' if name else ''}: {next(iter(of_part.values()))}"
            )
            note(text)
            loaded = noted[place].loaded
            noted[place] = replace(part, loaded=replace(loaded, notes=(*loaded.notes, text)))
        too_long |= of_part
    return (replace(victim, too_long=too_long) if too_long else victim), noted


def _fitting(item: Question, victim: Victim, window: Window) -> Question:
    """Return the item with as many sentences of its passage as fit."""
    if not item.passage.strip():
        return item
    most = window.tokens - ROOM - _reply(victim)
    ends = [end for _, end in sentence_spans(item.passage)]
    words = [found.end() for found in _WORD.finditer(item.passage, 0, ends[0])]

    def fits(end: int) -> bool:
        prompt = victim.task.template.render(_shortened(item, end).candidate())  # type: ignore[attr-defined]
        longest = max(item.options, key=len)
        prompts = [f"{prompt} {longest}"] if isinstance(prompt, str) else [prompt, longest]
        return sum(window.count(prompts)) <= most

    if fits(ends[-1]):
        return item
    if not fits(ends[0]):
        ends = words
    n = bisect_left(ends, True, key=lambda end: not fits(end))
    return _shortened(item, ends[max(n, 1) - 1])


def _reply(victim: Victim) -> int:
    """Return the most tokens of a reply that share the window with the prompt."""
    spec: Any = victim.task.spec()
    while "task" in spec:
        spec = spec["task"]
    if spec.get("answer_by") != "generate":
        return 0
    return int(spec["decoding"][0]) + int(spec.get("reasoning_tokens") or 0)


def _shortened(item: Question, end: int) -> Question:
    if end >= len(item.passage.rstrip()):
        return item
    kept = (m for m in item.mentions if m.field != "passage" or m.end <= end)
    return replace(item, passage=item.passage[:end], mentions=tuple(kept))


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


def load_datasets(
    tables: Sequence[config.Dataset], base: Path, limit: int | None
) -> list[DatasetPart]:
    """Load every data set and draw its sample; `limit` (--limit) caps each one."""
    parts = []
    for table, label in zip(tables, config.dataset_labels(tables), strict=True):
        loaded = _loaded(table, base)
        seed = table.sample_seed
        whole = DatasetPart(
            label=label,
            questions=(),
            loaded=loaded,
            sample_seed=seed,
            check=_checking(table, base),
        )
        limits = [value for value in (table.limit, limit) if value is not None]
        from_documents = draw_documents(whole.all_items, table.limit_documents, seed)
        drawn = draw(from_documents, min(limits, default=None), seed)
        parts.append(replace(whole, questions=drawn))
    return parts


def _loaded(table: config.Dataset, base: Path) -> Loaded:
    """Load a data set; a bad row names the command that shows how rows are understood."""
    load, keys = registry.load("datasets", table.name), vars(table)
    own = {field.name: keys[field.name] for field in fields(DatasetOptions)}
    places = {key: _path(base, keys[key]) for key in ("path", "annotations")}
    options = DatasetOptions(**{**own, **places, "columns": table.columns or {}})
    try:
        loaded: Loaded = load(options)
    except DataError as error:
        error.with_command(_checking(table, base))
        raise
    return loaded


def _checking(table: config.Dataset, base: Path) -> str:
    """Return the command that shows how a data set is understood."""
    given = _path(base, table.path) or table.hub or table.name
    return shlex.join(["medstress", "check", str(given)])


def _path(base: Path, given: str | None) -> Path | None:
    return None if given is None else base / Path(given).expanduser()


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
    labels = config.group_labels(tables)
    _check_types(tables, labels)
    specs: dict[str, dict[str, Any]] = {}
    found = list(datasets)
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
        for i, part in enumerate(found):
            items = recognise(part.questions, recogniser, types)
            found_any = any(mention.type in types for item in items for mention in item.mentions)
            if needs_all and not found_any:
                raise UsageError(
                    f"dataset {part.label!r}: recogniser {name!r} finds no mention of type "
                    f"{' or '.join(sorted({t.types for t in users}))} in its "
                    f"{len(items)} items"
                ).with_command(part.check)
            found[i] = replace(part, questions=items)
        specs[key] = recogniser.spec()
    return found, [specs[_key(table)] for table in tables]


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
    for each in tables:
        if each.vocabulary in SHIPPED and each.type == each.vocabulary:
            continue
        first, *others = [each.type] if isinstance(each.type, str) else each.type
        if others:
            raise UsageError(
                f"entities, type = {each.type!r}: recogniser 'gazetteer' gives every name of "
                f"{each.vocabulary!r} one type; give one"
            )
        names = load_vocabulary(each.vocabulary, base, each.column).names
        own.append(Source(names=names, type=first))
    return Gazetteer(own, with_shipped=True) if own else shipped_gazetteer()


def _key(table: config.Entities) -> str:
    """Return a key that is equal for groups with the same recogniser."""
    if table.recogniser != "spacy":
        return str(table.recogniser)
    return repr([table.model, sorted((table.labels or {}).items()), table.linker])


def _check_types(tables: Sequence[config.Entities], labels: Sequence[str]) -> None:
    users: dict[str, tuple[str, str, str]] = {}
    for table, label in zip(tables, labels, strict=True):
        for type_ in sorted(types_of(table.type)):
            key, first, name = users.setdefault(type_, (_key(table), label, str(table.recogniser)))
            if key != _key(table):
                raise UsageError(
                    f"groups {first!r} ({name}) and {label!r} ({table.recogniser}) share the type "
                    f"{type_} but not the recogniser; give both the same"
                )


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
    found = sorted(
        {m.type for item in items for m in item.mentions if m.field in {*item.letters} - {item.key}}
    )
    wanted = " or ".join(sorted({table.types for table in tables}))
    if found:
        why = f"the mentions there are of type {', '.join(found[:5])}; change type"
    else:
        why = "no mention is there; mark the names in the options"
    raise UsageError(
        f"no item is attackable: no wrong option names an entity of type {wanted}: {why}, or find "
        'mentions with recogniser = "gazetteer"'
    ).with_command(datasets[0].check)
