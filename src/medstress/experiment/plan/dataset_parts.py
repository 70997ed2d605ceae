"""Data sets as the plan has them: loaded, with their samples drawn."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medstress.core import registry
from medstress.core.errors import DataError
from medstress.datasets.draw import draw, draw_documents
from medstress.datasets.source import DatasetOptions, Loaded, LoadedTexts
from medstress.experiment.file.config import DatasetTable
from medstress.experiment.file.labels import unique_labels


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
