"""Data sets as the plan has them: loaded, with their samples drawn."""

from __future__ import annotations

import re
import shlex
from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medstress.core import registry
from medstress.core.calls import Call, Window
from medstress.core.errors import DataError
from medstress.core.items import Question
from medstress.core.passages import sentence_spans
from medstress.datasets.draw import draw, draw_documents
from medstress.datasets.source import DatasetOptions, Loaded, LoadedTexts
from medstress.experiment.file.config import DatasetTable
from medstress.experiment.file.labels import unique_labels
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
    if n_passages and not readers and not getattr(part.loaded, "has_optional_passages", False):
        notes.append(
            f"{n_passages} questions have a passage, but no victim's prompt shows it: set prompt = "
            '"open_book" or "open_book_cloze", or place {{ passage }} in a prompt of yours'
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
                f"victim {victim.label!r} reads at once; they are cut at the end of a sentence, or "
                "of a word where not even the first sentence fits, for all victims"
            )
            part = replace(part, questions=questions)
            if isinstance(part.loaded, Loaded):
                # Probes draw passages of all rows.
                fitting = (_fitting(item, asked, window) for item in part.loaded.questions)
                part = replace(part, loaded=replace(part.loaded, questions=tuple(fitting)))
    return replace(part, loaded=replace(part.loaded, notes=(*part.loaded.notes, *notes)))


def with_long_items(
    victim: Victim, parts: Sequence[DatasetPart], note: Callable[[str], None]
) -> tuple[Victim, list[DatasetPart]]:
    """Return a victim that knows which items it cannot read, and the data sets with a note on them.

    Their trials end as not attackable, and nothing is asked about them.

    Args:
        victim: open.
        parts: the data sets.
        note: receives the notes as well.
    """
    too_long: dict[tuple[str, str], str] = {}
    noted = []
    for part in parts:
        asked = victim.on(part.label)
        calls = [(item, call) for item in part.questions for call in _clean_calls(asked, item)]
        reasons = victim.backend.too_long([call for _, call in calls])
        of_part = {
            (part.label, item.id): reason
            for (item, _), reason in zip(calls, reasons, strict=True)
            if reason is not None
        }
        if of_part:
            text = (
                f"{len(of_part)} of {len(part.questions)} items of {part.label!r} are longer than "
                f"victim {victim.label!r} reads at once, and are not attacked: "
                f"{next(iter(of_part.values()))}"
            )
            note(text)
            part = replace(part, loaded=replace(part.loaded, notes=(*part.loaded.notes, text)))
        too_long |= of_part
        noted.append(part)
    return (replace(victim, too_long=too_long) if too_long else victim), noted


def _clean_calls(victim: Victim, item: Any) -> list[Call]:
    try:
        return [
            request.call
            for unit in item.units()[:1]
            for request in next(victim.flow(unit.candidate()))
        ]
    except Exception:  # noqa: BLE001 - its trial says why
        return []


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
    loaded: Loaded | LoadedTexts
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
        return self.loaded.questions if isinstance(self.loaded, Loaded) else self.loaded.items


def load_datasets(
    tables: Sequence[DatasetTable], base: Path, limit: int | None
) -> list[DatasetPart]:
    """Load every data set and draw its sample; `limit` (--limit) caps each one."""
    labels = unique_labels(
        "dataset",
        [(t.label, t.name, t.model_dump(exclude={"name", "label", "use"})) for t in tables],
    )
    parts = []
    for table, label in zip(tables, labels, strict=True):
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


def _loaded(table: DatasetTable, base: Path) -> Loaded | LoadedTexts:
    """Load a data set; a bad row names the command that shows how rows are understood."""
    load = registry.load("datasets", table.name)
    try:
        loaded: Loaded | LoadedTexts = load(dataset_options(table, base))
    except DataError as error:
        error.with_command(_checking(table, base))
        raise
    return loaded


def _checking(table: DatasetTable, base: Path) -> str:
    """Return the command that shows how a data set is understood."""
    given = _path(base, table.path) or table.hub or table.name
    return shlex.join(["medstress", "check", str(given)])


def dataset_options(table: DatasetTable, base: Path) -> DatasetOptions:
    """Return the options of a data set's source; relative paths start from `base`."""
    return DatasetOptions(
        path=_path(base, table.path),
        sample=table.sample,
        annotations=_path(base, table.annotations),
        split=table.split,
        on_bad_row=table.on_bad_row,
        hub=table.hub,
        on_bad_labels=table.on_bad_labels,
        types=table.types,
        scheme=table.scheme,
        columns=table.columns or {},
        answer_base=table.answer_base,
        encoding=table.encoding,
        sheet=table.sheet,
        scale=table.scale,
        documents=_path(base, table.documents),
    )


def _path(base: Path, given: str | None) -> Path | None:
    return None if given is None else base / Path(given).expanduser()
