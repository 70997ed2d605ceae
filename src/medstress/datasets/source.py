"""Options and results of every data set source, and the treatment of bad rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeVar

from medstress.core.attacked import AttackSet
from medstress.core.clusters import Clustered
from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.hashing import content_hash, file_hash
from medstress.core.items import Question
from medstress.core.label_schemes import Scheme
from medstress.datasets.label_types import Types
from medstress.datasets.tables.parts import parts_of
from medstress.files.bounded import read_data

Raw = TypeVar("Raw")
Item = TypeVar("Item", bound=Clustered)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetOptions:
    """The keys of a `[[dataset]]` table that concern its source."""

    path: Path | None = None
    """The file with the rows, for sources that need one."""
    sample: Literal["questions", "vignettes"] = "questions"
    """sample: the part of it to read."""
    annotations: Path | None = None
    """medqa, medmcqa: the file with the entity spans of the options."""
    split: str | None = None
    """medqa, medmcqa: the published split that the file holds; bc5cdr, biosses, hub: the split to
    read."""
    on_bad_row: Literal["error", "skip"] = "error"
    """At a row that breaks the contract: stop, or skip it and report it."""
    hub: str | None = None
    """bc5cdr, biosses, hub: a data set of the Hugging Face hub, `owner/name`, instead of a path."""
    on_bad_labels: Literal["error", "repair"] = "error"
    """Tagged texts, at a label that continues no entity: stop, or begin one and report it."""
    types: Types | None = None
    """Tagged texts: the entity types that become labels, or their new names; None: all."""
    scheme: Scheme | None = None
    """iob, bc5cdr, hub: the labelling scheme of the file; None: IOB2."""
    columns: Mapping[str, str | Sequence[str]] = field(default_factory=dict)
    """Questions, pairs: field -> its name in the file; `options` may be a list of names."""
    answer_base: Literal[0, 1] | None = None
    """Questions: the number of the first option where answers are numbers; None: the file tells."""
    encoding: str | None = None
    """Text files of rows: their encoding; None: UTF-8, or what a byte order mark says."""
    sheet: str | None = None
    """xlsx: the name of the sheet; None: the only one with content."""
    scale: tuple[float, float] | None = None
    """pairs: lowest and highest score; None: 0 to 4."""
    documents: Path | None = None
    """iob, bc5cdr: a PubTator file with the documents that the sentences come from (bc5cdr: or a
    folder with one per split)."""

    def __post_init__(self) -> None:
        for key, known in (
            ("on_bad_row", ("error", "skip")),
            ("on_bad_labels", ("error", "repair")),
            ("sample", ("questions", "vignettes")),
        ):
            if (value := getattr(self, key)) not in known:
                raise UsageError(f"{key}: expected {known[0]!r} or {known[1]!r}, got {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The questions of one source."""

    questions: tuple[Question, ...]
    """In the order of the file; ids are unique."""
    skipped: tuple[str, ...]
    """One sentence for each skipped row."""
    source_hash: str
    """Content hash of the files."""
    notes: tuple[str, ...] = ()
    """One sentence for each kind of content that was skipped within rows."""
    understood: str = ""
    """How the rows were read, in one line; empty if they are in medstress's own format."""
    has_optional_passages: bool = False
    """True if its questions are meant to be asked without their passages too."""
    attack_set: AttackSet | None = None
    """attacked: what the file says of the edits that its questions bring."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedTexts:
    """The items of one source, all of one kind other than questions."""

    items: tuple[Any, ...]
    """In the order of the file; ids are unique."""
    skipped: tuple[str, ...]
    """One sentence for each skipped row."""
    source_hash: str
    """Content hash of the files."""
    notes: tuple[str, ...] = ()
    """One sentence for each kind of repair or loss."""
    understood: str = ""
    """How the rows were read, in one line; empty if they are in medstress's own format."""


def required_file(source: str, key: str, path: Path | None) -> Path:
    """Return `path` if it is a file.

    Args:
        source: the data set's name, for the message.
        key: the key of `[[dataset]]` that holds the path.
        path: the key's value.

    Raises:
        UsageError: no path, or no file there; suggests the closest name in the folder.
    """
    if path is None:
        raise UsageError(f"dataset {source!r} needs the key {key!r}, the file to read")
    if path.is_file():
        return path
    if path.is_dir():
        raise UsageError(
            f"dataset {source!r}: {key} {path} is a folder, expected a file; give one of its files"
        )
    if not path.parent.is_dir():
        raise UsageError(
            f"dataset {source!r}: there is no folder {path.parent} (for {key} {path}); fix the path"
        )
    names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
    hint = did_you_mean(path.name, names)
    raise UsageError(
        f"dataset {source!r}: there is no file {path} (key {key!r}){hint}"
        + ("" if hint else "; fix the path")
    )


def check_keys(source: str, options: DatasetOptions, *keys: str) -> None:
    """Refuse keys that a source does not accept; all accept `on_bad_row`.

    Raises:
        UsageError: a key other than `keys` is set.
    """
    for known in fields(options):
        value = getattr(options, known.name)
        default = {} if known.name == "columns" else known.default
        if known.name not in (*keys, "on_bad_row") and value != default:
            raise UsageError(
                f"dataset {source!r} does not accept the key {known.name!r}, got {str(value)!r}"
            )


def single_columns(columns: Mapping[str, str | Sequence[str]]) -> dict[str, str]:
    """Return `columns` where every field has one name in the file.

    Raises:
        UsageError: a field has a list of names.
    """
    for name, own in columns.items():
        if not isinstance(own, str):
            raise UsageError(f"columns: expected one name for {name!r}, got {list(own)!r}")
    return {name: str(own) for name, own in columns.items()}


def hash_files(*paths: Path) -> str:
    """Return the hash of one file's bytes, or one hash over those of several.

    A folder that `datasets` saved stands for its Arrow files, a pattern for its parts.
    """
    files = [
        f
        for path in paths
        for f in (sorted(path.glob("*.arrow")) if path.is_dir() else parts_of(path) or [path])
    ]
    hashes = [file_hash(path) for path in files]
    return hashes[0] if len(hashes) == 1 else content_hash(hashes)


def collect(
    path: Path,
    rows: Iterable[tuple[str, Raw]],
    convert: Callable[[Raw], Item],
    on_bad_row: Literal["error", "skip"],
) -> tuple[tuple[Item, ...], tuple[str, ...]]:
    """Convert rows to items, refuse repeated ids, and raise or collect errors about bad rows.

    Args:
        path: the file the rows come from, for messages.
        rows: pairs of a place such as ``line 3`` and the raw row.
        convert: turns a raw row into an item or raises a `DataError` about it.
        on_bad_row: raise the first error, or collect them all.

    Returns:
        The items, and one sentence for each skipped row.

    Raises:
        DataError: no rows, no good row, or a bad row, if `on_bad_row` is ``error``.
    """
    items: list[Item] = []
    skipped: list[str] = []
    places: dict[str, str] = {}
    for place, raw in rows:
        try:
            item = convert(raw)
            if item.id in places:
                raise DataError(
                    f"field 'id': expected a unique id, got {item.id!r} as in "
                    f"{places[item.id]}; give each row an id of its own"
                )
        except DataError as error:
            sentence = f"{path}, {place}: {error}"
            if on_bad_row == "error":
                raise DataError(sentence) from error
            skipped.append(sentence)
        else:
            places[item.id] = place
            items.append(item)
    if not items and skipped:
        what = f"none of its {len(skipped)} rows" if len(skipped) > 1 else "not one row"
        raise DataError(f"{path}: {what} is usable; the first error: {skipped[0]}")
    if not items:
        content = "none" if read_data(path).strip() else "an empty file"
        raise DataError(f"{path}: expected at least one row, got {content}; give a file with rows")
    return tuple(items), tuple(skipped)
