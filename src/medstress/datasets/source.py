"""Options and results of every data set source, samples, types, and the treatment of bad rows."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar

from medstress.core.attacked import AttackSet
from medstress.core.clusters import documents_of
from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.hashing import content_hash, digest, file_hash
from medstress.core.items import OUTSIDE
from medstress.core.items import Item as AnyItem
from medstress.core.sentences import Scheme
from medstress.core.tables import Table, cut_names, no_rows, read_table

Raw = TypeVar("Raw")
Item = TypeVar("Item", bound=AnyItem)

Types: TypeAlias = tuple[str, ...] | Mapping[str, str]
"""A list of the types to keep, or a table: name in the file -> name in the labels (O drops it)."""
LabelOfType: TypeAlias = Callable[[str], str | None]
"""Gives the label name of a type; None drops the type."""
_LOOKED_AT = 1 << 16
"""Bytes of a file that tell its format."""
_TAGGED = re.compile(r"\S+\t(?:\d{1,3}|O|[BIESLU](?:-\S+)?)\s*")
CONVERT_SPANS = (
    ", which medstress does not read: convert each text with spaCy, "
    "spacy.training.offsets_to_biluo_tags(nlp.make_doc(text), spans), and write rows of tokens and "
    "labels, which the scheme iobes reads"
)
_SPANS = (
    r'"(?:annotations|entities|ents|spans|labels?|ner|result)"\s*:\s*\[\s*(?:\[\s*\d+\s*,\s*\d+\s*,'
    r'\s*"|\{[^{}]*(?:"value"\s*:\s*\{[^{}]*)?"(?:start|begin)(?:_offset|_char)?"\s*:\s*\d+)'
)
"""Lists of [start, end, type], or of objects with a start, as doccano, Prodigy, GLiNER, spaCy and
Label Studio write."""
_PASSAGES = r'"passages"\s*:\s*\['
_OFFSETS = r'"offsets"\s*:\s*\[\s*\['
"""BigBio writes a list of [start, end] for each passage and entity, BioC one number."""


class BadRowError(DataError):
    """One row breaks the contract; the others may be read with `on_bad_row = "skip"`."""


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
    tag: str | None = None
    """iob, bc5cdr, hub: the type that bare labels (B, I) stand for; None: Entity."""
    names: tuple[str, ...] = ()
    """iob, hub: the labels that whole numbers stand for, from 0."""
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
    documents: str | None = None
    """iob, hub, pairs: the column of rows that names the document of each."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The items of one source, all of one kind."""

    items: tuple[Any, ...]
    """In the order of the file; ids are unique."""
    skipped: tuple[str, ...]
    """One sentence for each row that cannot be read."""
    source_hash: str
    """Content hash of the files."""
    notes: tuple[str, ...] = ()
    """One sentence for each kind of content that was repaired or left out within rows."""
    understood: str = ""
    """How the rows were read, in one line; empty if they are in medstress's own format."""
    has_optional_passages: bool = False
    """Questions: whether they are meant to be asked without their passages too."""
    attack_set: AttackSet | None = None
    """attacked: what the file says of the edits that its questions bring."""


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
    what = f"there is no file {path}"
    hint = "; fix the path"
    if path.is_dir():
        what, hint = f"{path} is a folder, expected a file", "; give one of its files"
    elif path.parent.is_dir():
        names = sorted(entry.name for entry in path.parent.iterdir() if entry.is_file())
        hint = did_you_mean(path.name, names) or hint
    raise UsageError(f"dataset {source!r}, key {key!r}: {what}{hint}")


def check_keys(source: str, options: DatasetOptions, *keys: str) -> None:
    """Refuse keys that a source does not accept; all accept `on_bad_row`.

    Raises:
        UsageError: a key other than `keys` is set.
    """
    for key in fields(options):
        value = getattr(options, key.name)
        default = {} if key.name == "columns" else key.default
        if key.name not in (*keys, "on_bad_row") and value != default:
            of_tags = source == "table" and key.name in ("names", "scheme", "tag")
            raise UsageError(
                f"dataset {source!r} does not accept the key {key.name!r}, got {str(value)!r}"
                + '; for a file of tokens and labels set name = "iob"' * of_tags
            )


def table_of(source: str, options: DatasetOptions, *keys: str) -> Table:
    """Read the table that the key `path` names, for a source that accepts `keys` besides.

    Raises:
        UsageError: another key is set, no path, a missing file or an unknown ending.
        DataError: a file that cannot be read, or without rows.
    """
    check_keys(source, options, "path", "encoding", "sheet", *keys)
    path = required_file(source, "path", options.path)
    return read_table(path, encoding=options.encoding, sheet=options.sheet)


def hash_files(*paths: Path) -> str:
    """Return the hash of one file's bytes, or one hash over those of several."""
    hashes = [file_hash(path) for path in paths]
    return hashes[0] if len(hashes) == 1 else content_hash(hashes)


def draw(items: Sequence[Item], limit: int | None, sample_seed: int = 0) -> tuple[Item, ...]:
    """Draw `limit` items, in their original order.

    Each item is ranked by a hash of the seed and its id, so the sample does not depend on the
    order of the rows, and limit 200 contains limit 100.

    Args:
        items: with unique ids.
        limit: at least 1; None, or more than there are, takes all.
        sample_seed: another seed, another sample.

    Raises:
        UsageError: `limit` is below 1.

    >>> from medstress.core.items import Question
    >>> items = [Question(id=i, stem="?", options=("a", "b"), key="A") for i in "pqrst"]
    >>> two, three = draw(items, 2), draw(items, 3)
    >>> len(two), len(three), all(item in three for item in two)
    (2, 3, True)
    """
    if limit is None:
        return tuple(items)
    if limit <= 0:
        raise UsageError(f"limit: expected at least 1, got {limit}")
    ranked = sorted(items, key=lambda item: digest([sample_seed, item.id]))
    drawn = {item.id for item in ranked[:limit]}
    return tuple(item for item in items if item.id in drawn)


def draw_documents(items: Sequence[Item], n: int | None, sample_seed: int = 0) -> tuple[Item, ...]:
    """Draw all items of `n` documents as `draw` draws items; one without document is its own."""
    if n is None:
        return tuple(items)
    of_item = documents_of(items)
    names = dict.fromkeys(of_item.values())
    ranked = sorted(names, key=lambda name: digest(["document", sample_seed, name]))
    drawn = set(ranked[:n])
    return tuple(item for item in items if of_item[item.id] in drawn)


def label_of_type(types: Types | None, present: Collection[str], path: Path) -> LabelOfType:
    """Return the mapping from types to label names.

    A list keeps the types it names. A table renames, drops those it maps to O, and keeps others.

    Raises:
        UsageError: no entity of the file has one of the types, or a new name is not one word.
    """
    if types is None:
        return lambda type_: type_
    for type_ in types:
        if type_ not in present:
            raise UsageError(
                f"{path}: no entity has the type {type_!r}{did_you_mean(type_, present)} (types in "
                f"the file: {cut_names(sorted(present)) or 'none'}); change the key 'types'"
            )
    if not isinstance(types, Mapping):
        kept = frozenset(types)
        return lambda type_: type_ if type_ in kept else None
    for name in types.values():
        if name.split() != [name]:
            raise UsageError(f"types: expected a one-word name, got {name!r}")
    new = {type_: None if name == OUTSIDE else name for type_, name in types.items()}
    return lambda type_: new.get(type_, type_)


def refuse_other_formats(path: Path) -> None:
    """Refuse BioC, BigBio and lists of spans, naming the program that converts them.

    Raises:
        UsageError: the file, or the first of a folder that may be one, begins as one of them.
    """
    if path.is_dir():
        endings = (".xml", ".json", ".jsonl")
        path = next((x for x in sorted(path.iterdir()) if x.suffix.lower() in endings), path)
    if not path.is_file():
        return
    with path.open("rb") as stream:
        head = stream.read(_LOOKED_AT).decode("utf-8", "replace")
    is_xml = re.search(r"<!DOCTYPE collection|<collection[\s>]", head) is not None
    has_passages = re.search(_PASSAGES, head) is not None
    is_bigbio = has_passages and re.search(_OFFSETS, head) is not None
    if is_xml or (has_passages and not is_bigbio):
        form = "bioc_xml" if is_xml else "bioc_json"
        raise UsageError(
            f"{path} is BioC, which medstress does not read: convert each document d of "
            f'bconv.load("{path.name}", fmt="{form}") to brat with the package bconv, '
            'bconv.dump(d, d.id + ".txt", fmt="txt") and bconv.dump(d, d.id + ".ann", fmt="brat")'
        )
    if is_bigbio or re.search(_SPANS, head):
        form, text = "lists spans of texts", "each text"
        if is_bigbio:
            form = "is BigBio"
            text = "the passages of each document, joined by spaces, and the offsets of entities"
        raise UsageError(f"{path} {form}{CONVERT_SPANS.replace('each text', text)}")


def is_tagged(path: Path) -> bool:
    """Return whether a .tsv file begins with a token and its label, so that it is no table."""
    if path.suffix.lower() != ".tsv":
        return False
    with path.open(encoding="utf-8", errors="replace") as stream:
        lines = stream.read(_LOOKED_AT).split("\n")
    first = next((line for line in lines if line.strip() and "DOCSTART" not in line), "")
    return _TAGGED.fullmatch(first) is not None


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
                raise BadRowError(sentence) from error
            skipped.append(sentence)
        else:
            places[item.id] = place
            items.append(item)
    if not items and skipped:
        what = f"none of its {len(skipped)} rows" if len(skipped) > 1 else "not one row"
        raise DataError(f"{path}: {what} is usable; the first error: {skipped[0]}")
    if not items:
        raise no_rows(path)
    return tuple(items), tuple(skipped)
