"""Items that are no questions: tagged sentences, and pairs of texts with a gold similarity.

*Tagged sentences* are IOB or CoNLL files: one token and its label a line, empty lines between; or
rows of a table (.jsonl, .json, .parquet): `tokens` with `labels`, `ner_tags` or `tags`, optionally
`id`, and the document in `document_id`, `document` or the column that `documents` names.

Tabs separate the columns, or spaces in a line without tabs. The first column is the token, the last
one the label; columns between (parts of speech, chunks) are ignored. A line `-DOCSTART-` begins a
new document. A line that begins with `#` is a token if it has as many columns as the other lines
and a label as they have, else a comment. Labels are IOB2 (every entity begins with B-) unless
`scheme` says otherwise, and are converted to IOB2. Labels without a type (B, I) are of the type
`tag`, whole numbers are places in `names` or in the list that the file declares. Sentences are
numbered from 1; the number is the id.

*Pairs* are any table with the columns `text_a`, `text_b`, `score` and optionally `id` (default:
numbers from 1), or `sentence1` and `sentence2` for the texts, in any case; `columns = {text_a =
"first"}` names others. Scores lie within `scale`, by default 0 to 4. Further columns become
metadata; pairs of one document (`documents` names the column) are drawn together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

from medstress.core.clusters import document_of
from medstress.core.errors import DataError, UsageError, did_you_mean
from medstress.core.reading import data_lines
from medstress.core.sentences import (
    OUTSIDE,
    SCHEMES,
    Scheme,
    SentencePair,
    TaggedText,
    are_bare,
    check_scheme,
    read_labels,
    type_of,
)
from medstress.core.tables import (
    Row,
    RowOrError,
    Table,
    attempt,
    columns_of,
    cut_names,
    plain,
    plain_name,
    raise_error,
    read_table,
    shown,
    wrong,
)
from medstress.core.words import plural
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    label_of_type,
    refuse_other_formats,
    required_file,
    table_of,
)

TABLES = (".jsonl", ".json", ".parquet")
"""Endings of files with rows of tokens."""
TAGS = ("labels", "ner_tags", "tags")
"""Columns that may hold the labels."""
DOCUMENT = "-DOCSTART-"
"""The line that begins a document."""
TAG = "Entity"
"""The type of labels without one, where `tag` names no other."""
TOO_NARROW = 2.2
"""Width of an interval by document over one by sentence: the drop of F1 under swap noise, chemicals
of BC5CDR's test split (docs/ner-and-similarity.md, What is measured)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Sentence:
    """One sentence as its file writes it."""

    id: str
    tokens: tuple[str, ...]
    labels: tuple[Any, ...]
    """Texts, or whole numbers."""
    places: tuple[str, ...] = ()
    """Of each token, where it has a place of its own in the file, such as `line 3`."""
    document: str = ""


def load_iob(options: DatasetOptions) -> Loaded:
    """Read a file in IOB or CoNLL layout, or rows of tokens.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: an empty file; if `on_bad_row` is ``error``, also a token without a label, a
            label that is not IOB, or an I- that continues nothing and is not to be repaired.
    """
    keys = ("path", "types", "scheme", "tag", "names", "on_bad_labels")
    check_keys("iob", options, *keys, "documents")
    path = required_file("iob", "path", options.path)
    if path.suffix.lower() in TABLES:
        return read_token_rows(read_table(path), options)
    if options.documents is not None:
        raise UsageError(
            f"dataset 'iob': documents = a column of rows, and {path} has none: write a line "
            f"{DOCUMENT} before each document"
        )
    return read_iob(path, options)


def read_iob(path: Path, options: DatasetOptions) -> Loaded:
    """Read one file of tokens; see `load_iob`."""
    refuse_other_formats(path)
    numbered = [(n, line if line.strip() else "") for n, line in data_lines(path)]
    if bad := next((n for n, line in numbered if "\r" in line), None):
        raise DataError(
            f"{path}, line {bad}: expected lines that end in LF or CR LF, found a CR inside a "
            "line; save the file with such line ends"
        )
    plain = [line for _, line in numbered if line and line[0] != "#" and not _is_document(line)]
    labels = _Labels({_columns(line)[1] for line in plain} - {""}, options, (), path)
    is_token = _tokens_among(plain, labels, options.scheme or "iob2")
    return _read(path, list(_sentences(numbered, is_token)), options, labels)


def read_token_rows(table: Table, options: DatasetOptions) -> Loaded:
    """Read the rows of a table as tagged sentences.

    Raises:
        DataError: rows without tokens and labels, or a bad row, if `on_bad_row` is ``error``.
    """
    path, columns = table.path, columns_of(table.good)
    field = next((name for name in TAGS if name in columns), "")
    if "tokens" not in columns or not field:
        refuse_other_formats(path)
    if columns and ("tokens" not in columns or not field):
        raise DataError(
            f"{path}, {table.rows[0][0]}: expected the fields tokens and {' or '.join(TAGS)}, got "
            f"{cut_names(columns)}"
        )

    sentences = [
        (place, attempt(_of_row, row, field, str(n), options.documents))
        for n, (place, row) in enumerate(table.rows, start=1)
    ]
    every = [x for _, one in sentences if isinstance(one, _Sentence) for x in one.labels]
    labels = _Labels(every, options, table.names.get(field, ()), path)
    return _read(path, sentences, options, labels)


def _of_row(row_or_error: RowOrError, field: str, number: str, documents: str | None) -> _Sentence:
    row = raise_error(row_or_error)
    tokens, labels = row.get("tokens"), row.get(field)
    for name, value in (("tokens", tokens), (field, labels)):
        if not isinstance(value, list) or (name == "tokens" and None in value):
            raise wrong(name, "a list of texts", value)
    identifier = row.get("id")
    return _Sentence(
        id=number if identifier is None else str(identifier),
        tokens=tuple(map(str, tokens or ())),
        labels=tuple(labels or ()),
        document=document_in(row, documents),
    )


def document_in(row: Row, documents: str | None) -> str:
    """Return the document that a row names; empty if it names none.

    Raises:
        DataError: the row lacks the column that `documents` names, or holds no name there.
    """
    if documents is not None and documents not in row:
        raise DataError(
            f"expected the column {documents!r}, which documents names, got {cut_names(row)}"
        )
    for column in ("document_id", "document") if documents is None else (documents,):
        name = row.get(column)
        if isinstance(name, Mapping | list):
            raise wrong(column, "the name of a document", name)
        if name not in (None, ""):
            return str(name)
    return ""


def _read(
    path: Path,
    sentences: Sequence[tuple[str, _Sentence | DataError]],
    options: DatasetOptions,
    labels: _Labels,
) -> Loaded:
    """Return sentences with their labels in IOB2."""
    repaired: list[str] = []

    placed = (
        (place, one) if isinstance(one, DataError) else labels.text_of(one, place, repaired)
        for place, one in sentences
    )
    items, skipped = collect(path, placed, raise_error, options.on_bad_row)
    notes = []
    if repaired:
        what = "that continued or ended no entity (an I- becomes B-)"
        if options.scheme == "iobes":
            what = "that continued no entity (it begins there) or left one open (it ends before)"
        notes.append(
            f"{path}: repaired {plural(len(repaired), 'label')} {what}, the first in {repaired[0]}"
        )
    alone = sum(document_of(item.metadata) is None for item in items)
    if 0 < alone < len(items):
        notes.append(
            f"{path}: {alone:,} of {len(items):,} sentences name no document, so intervals and "
            "tests take each of them as independent"
        )
    if alone == len(items):
        notes.append(
            f"{path}: no sentence names its document, so intervals and tests take sentences as "
            f"independent; on BC5CDR that made intervals up to {TOO_NARROW:g} times too narrow"
        )
    if options.types is not None:
        types = {entity.type for item in items for entity in item.entities}
        label_of = label_of_type(options.types, types, path)
        new = {OUTSIDE: OUTSIDE}
        for type_ in types:
            name = label_of(type_)
            new |= {f"{x}-{type_}": OUTSIDE if name is None else f"{x}-{name}" for x in "BI"}
        items = tuple(replace(one, labels=tuple(new[x] for x in one.labels)) for one in items)
    return Loaded(items=items, skipped=skipped, source_hash=hash_files(path), notes=tuple(notes))


class _Labels:
    """Reads the labels of one file: numbers, marks without a type, and all schemes."""

    def __init__(
        self, labels: Iterable[Any], options: DatasetOptions, declared: Sequence[str], path: Path
    ) -> None:
        """Look at all labels of the file.

        Args:
            labels: as the file writes them.
            options: `names`, `tag`, `scheme` and `on_bad_labels`.
            declared: the names of numbers that the file itself declares.
            path: the file, for messages.

        Raises:
            UsageError: `tag` is no type, or is for labels that have types.
            DataError: labels given as IO are evidently written in another scheme.
        """
        self._names, self._has_names = options.names or tuple(declared), bool(options.names)
        self._scheme: Scheme = options.scheme or "iob2"
        self._is_lenient = options.on_bad_labels == "repair"
        self._typed: Mapping[str, str] = {}
        tag = options.tag or TAG
        if tag.split() != [tag] or (tag[1:2] == "-" and tag[0] in "BIESLU"):
            raise UsageError(f"tag: expected a type, one word such as Drug, got {tag!r}")
        every = {name for label in labels if (name := self.name_of(label)) is not None}
        check_scheme(every, self._scheme, path)
        if are_bare(every, self._scheme):
            marks = (mark for mark in "BIESLU" if are_bare([mark], self._scheme))
            self._typed = {mark: f"{mark}-{tag}" for mark in marks}
        elif options.tag is not None and every - {OUTSIDE}:
            raise UsageError(
                f"{path}: tag names the type of labels without one (B, I), and the labels here are "
                f"{', '.join(sorted(every)[:5])}; leave tag out"
            )

    def name_of(self, label: Any) -> str | None:
        """Return the label with its type; None if it is no label."""
        if isinstance(label, str) and label.isdecimal() and self._has_names and len(label) < 10:
            label = int(label)
        if type(label) is int and 0 <= label < len(self._names):
            label = self._names[label]
        if not isinstance(label, str) or not label or label.isdecimal():
            return None
        return self._typed.get(label, label)

    def text_of(
        self, one: _Sentence, place: str, repaired: list[str]
    ) -> tuple[str, TaggedText | DataError]:
        """Return a sentence with labels in IOB2, or what is wrong with it, and where.

        Args:
            one: the sentence.
            place: where it is.
            repaired: receives the places of labels that were repaired.
        """
        named = [self.name_of(label) for label in one.labels]
        labels = [name for name in named if name is not None]
        read = read_labels(labels, self._scheme, repair=self._is_lenient)
        at, complaint, n = read.place, read.complaint, len(self._names)
        if None in named:
            at = named.index(None)
            what = f"a number from 0 to {n - 1}, as names has {n} labels" if n else "a label"
            complaint = f"expected {what}, got {shown(one.labels[at])}"
            if not n:
                complaint += '; give the names of numbers, as in names = ["O", "B-Drug", "I-Drug"]'
        elif complaint and read.can_repair:
            complaint += '; fix it, or set on_bad_labels = "repair" to begin or end an entity there'
        elif complaint:
            complaint += f"; fix it, or name the labelling scheme: scheme = {', '.join(SCHEMES)}"
        if complaint and one.places:
            return one.places[at], DataError(complaint)
        if complaint:
            return place, DataError(f"token {at + 1}: {complaint}")
        repaired += [one.places[i] if one.places else place for i in read.repaired]
        metadata = {"document": one.document} if one.document else {}
        try:
            text = TaggedText(id=one.id, tokens=one.tokens, labels=read.labels, metadata=metadata)
        except DataError as error:
            return place, error
        return place, text


# -- lines of tokens ----------------------------------------------------------------------------
def _sentences(
    numbered: Iterable[tuple[int, str]], is_token: Callable[[str, bool], bool]
) -> Iterator[tuple[str, _Sentence | DataError]]:
    """Yield (place, sentence); an error takes the place of a bad sentence.

    Args:
        numbered: all lines; empty ones end a sentence.
        is_token: says of a line that begins with `#`, and whether tokens stand before it in its
            sentence, that it is one.
    """
    number, document = 0, 0
    for has_text, block in groupby(numbered, key=lambda line: line[1] != ""):
        lines: list[tuple[int, str]] = []
        for n, line in block if has_text else ():
            if line[0] != "#" or is_token(line, bool(lines)):
                lines.append((n, line))
        if lines and _is_document(lines[0][1]):
            document += 1
            lines = lines[1:]
        if not lines:
            continue
        number += 1
        columns = [_columns(line) for _, line in lines]
        bad = next((i for i, (t, label) in enumerate(columns) if not label or t.split() != [t]), -1)
        if bad >= 0:
            token, label = columns[bad]
            expected = "a token without white space" if label else "a token, a tab and a label"
            mend = "fix the line" if label else "write O for tokens outside entities"
            got = repr(token) if label else f"{token!r} alone"
            yield f"line {lines[bad][0]}", DataError(f"expected {expected}, got {got}; {mend}")
            continue
        tokens, labels = zip(*columns, strict=True)
        yield (
            f"line {lines[0][0]}",
            _Sentence(
                id=str(number),
                tokens=tokens,
                labels=labels,
                places=tuple(f"line {n}" for n, _ in lines),
                document=str(document) if document else "",
            ),
        )


def _tokens_among(
    lines: Sequence[str], labels: _Labels, scheme: Scheme
) -> Callable[[str, bool], bool]:
    """Return what tells tokens such as `#` from comments, by the lines that begin with no `#`.

    A token has as many columns as these lines, and a label whose type occurs in them, since words
    of comments may look like labels. Inside a sentence a line with tabs and the usual columns is a
    token even if its label is bad.
    """

    def type_(line: str) -> str | None:
        label = labels.name_of(_columns(line)[1])
        return None if label is None else type_of(label, scheme)

    def width(line: str) -> int:
        return len(line.split("\t") if "\t" in line else line.split())

    widths = {width(line) for line in lines} or {2}
    types = ({type_(line) for line in lines} | {""}) - {None}

    def is_token(line: str, is_inside: bool) -> bool:
        token, _ = _columns(line)
        if width(line) not in widths or token.split() != [token]:
            return False
        return type_(line) in types or (is_inside and "\t" in line)

    return is_token


def _is_document(line: str) -> bool:
    return line.split(maxsplit=1)[0] == DOCUMENT


def _columns(line: str) -> tuple[str, str]:
    """Return the token and the label of a line; the label is empty if there is one column."""
    fields = line.split("\t") if "\t" in line else line.split()
    return fields[0].strip(), fields[-1].strip() if len(fields) > 1 else ""


# -- pairs of texts --------------------------------------------------------------------------------

FIELDS = ("id", "text_a", "text_b", "score")
SCALE = (0.0, 4.0)
USUAL = {"text_a": ("text1", "sentence1"), "text_b": ("text2", "sentence2")}
"""Other names that files of pairs give the two texts. Case and punctuation of names do not matter,
unless `columns` gives them."""


def load_pairs(options: DatasetOptions) -> Loaded:
    """Read pairs from a file of rows.

    Raises:
        UsageError: no path, a missing file, an unknown ending, an unknown key of `columns`, a
            scale that does not rise, or a key that does not apply.
        DataError: an empty file, a missing column, or a bad row, if `on_bad_row` is ``error``.
    """
    return read_pairs(table_of("pairs", options, "columns", "scale", "documents"), options)


def read_rows(source: str, options: DatasetOptions, convert: Callable[[Row, str], Any]) -> Loaded:
    """Read any table row by row, for a source of one's own.

    Args:
        source: the data set's name, for messages.
        options: its keys; `columns` is left to `convert`.
        convert: (row, its number from 1) -> an item; raises `DataError` about the row.

    Raises:
        UsageError: no path, a missing file, an unknown ending, or a key that does not apply.
        DataError: an empty file, or a bad row, if `on_bad_row` is ``error``.
    """
    return _collected(table_of(source, options, "columns"), options, convert)


def read_pairs(table: Table, options: DatasetOptions) -> Loaded:
    """Turn rows into pairs; see `load_pairs`."""
    columns = options.columns
    for field, own in columns.items():
        if field not in FIELDS or not isinstance(own, str):
            raise UsageError(
                f"columns: expected one name for each of {', '.join(FIELDS)}, got {field!r} = "
                f"{own!r}{did_you_mean(field, FIELDS)}"
            )
    low, high = map(float, SCALE if options.scale is None else options.scale)
    if not low < high:
        raise UsageError(f"scale: expected the lowest and the highest score, got {low:g}, {high:g}")
    by_name: dict[str, str] = {}
    for column in columns_of(table.good):
        by_name.setdefault(column, column)
        by_name.setdefault(plain_name(column), column)
    names: dict[str, str] = {}
    for field in FIELDS:
        usual = (field, plain_name(field), *USUAL.get(field, ()))
        named = str(columns[field]) if field in columns else ""
        names[field] = named or next((by_name[n] for n in usual if n in by_name), field)

    def lacks(field: str, expected: str, value: Any, mend: str = "fix the row") -> DataError:
        name = f'name the column with columns = {{{field} = "..."}}'
        return wrong(names[field], expected, value, name if value is None else mend)

    def convert(row: Row, number: str) -> SentencePair:
        identifier, first, second, value = (row.get(names[field]) for field in FIELDS)
        for field, text in (("text_a", first), ("text_b", second)):
            if not isinstance(text, str):
                raise lacks(field, "a text", text)
        try:
            score = math.nan if isinstance(value, bool) else float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError, OverflowError):
            score = math.nan
        if not low <= score <= high:
            mend = "fix the row, or give the scale with scale = [low, high]"
            raise lacks("score", f"a score from {low:g} to {high:g}", value, mend)
        metadata = {k: plain(v) for k, v in row.items() if k not in names.values()}
        if options.documents is not None:
            metadata["document"] = document_in(row, options.documents)
        return SentencePair(
            id=number if identifier is None else str(identifier),
            text_a=str(first),
            text_b=str(second),
            score=score,
            low=low,
            high=high,
            metadata=metadata,
        )

    loaded = _collected(table, options, convert)
    if columns or all(names[field] == field for field in FIELDS):
        return loaded
    texts = f"texts in {names['text_a']!r} and {names['text_b']!r}"
    understood = f"{table.path.name}: {len(loaded.items):,} sentence pairs; {texts}, scores in "
    return replace(loaded, understood=f"{understood}{names['score']!r}")


def _collected(table: Table, options: DatasetOptions, convert: Callable[[Row, str], Any]) -> Loaded:
    numbered = ((place, (str(n), row)) for n, (place, row) in enumerate(table.rows, start=1))

    def converted(one: tuple[str, RowOrError]) -> Any:
        return convert(raise_error(one[1]), one[0])

    items, skipped = collect(table.path, numbered, converted, options.on_bad_row)
    return Loaded(items=items, skipped=skipped, source_hash=hash_files(table.path))
