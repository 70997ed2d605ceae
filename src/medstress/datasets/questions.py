"""Questions from any file of rows: the sources `csv`, `tsv`, `xlsx`, `jsonl` and `parquet`.

A file in the documented format (`medstress.datasets.rows`) is read as it is. Any other is looked at
as a whole (`medstress.datasets.forms`), and what was understood is said in one line. A file is in
the documented format if half of its rows are; the others are then bad rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from medstress.core.errors import DataError, UsageError
from medstress.core.items import Question
from medstress.datasets.forms.documented import check_documented, documented_told
from medstress.datasets.forms.headers import check_header
from medstress.datasets.forms.kinds import source_of
from medstress.datasets.forms.layout import Layout, Rows, content_id, understand
from medstress.datasets.forms.naming import columns_of, filled_columns, is_nothing, renaming
from medstress.datasets.forms.nesting import unnested
from medstress.datasets.passages import clean_passages
from medstress.datasets.rows import question_from_row
from medstress.datasets.source import (
    DatasetOptions,
    Loaded,
    check_keys,
    collect,
    hash_files,
    required_file,
)
from medstress.datasets.tables.columnar import with_names
from medstress.datasets.tables.reading import TEXT, read_table
from medstress.datasets.tables.table import Row, RowOrError, Table, raise_error

Finish = Callable[[Row, Question], Question]
"""Gets a row and its question, returns what becomes of it; raises `DataError` about the row."""

_ENDINGS = {
    "csv": (".csv",),
    "tsv": (".tsv",),
    "xlsx": (".xlsx",),
    "jsonl": (".jsonl", ".json"),
    "parquet": (".parquet",),
}


def load_csv(options: DatasetOptions) -> Loaded:
    """Read questions from a CSV file; see `load`."""
    return load("csv", options)


def load_tsv(options: DatasetOptions) -> Loaded:
    """Read questions from a TSV file; see `load`."""
    return load("tsv", options)


def load_xlsx(options: DatasetOptions) -> Loaded:
    """Read questions from an Excel file; see `load`."""
    return load("xlsx", options)


def load_jsonl(options: DatasetOptions) -> Loaded:
    """Read questions from a file with one JSON object a line, or a JSON list; see `load`."""
    return load("jsonl", options)


def load_parquet(options: DatasetOptions) -> Loaded:
    """Read questions from a parquet file; see `load`."""
    return load("parquet", options)


def load(source: str, options: DatasetOptions) -> Loaded:
    """Read questions from a file.

    Args:
        source: the name of the data set in the experiment file, which tells the format.
        options: its keys.

    Raises:
        UsageError: no path, a missing file, or a key that does not apply.
        DataError: an empty file, rows that fit no form or two, or a bad row, if `on_bad_row` is
            ``error``.
    """
    endings = _ENDINGS[source]
    special = {"xlsx": ("sheet",), "parquet": ()}.get(source, ("encoding",))
    check_keys(source, options, "path", "columns", "answer_base", *special)
    path = required_file(source, "path", options.path)
    ending = path.suffix.lower()
    other = next((name for name, known in _ENDINGS.items() if ending in known), source)
    if other != source:
        raise UsageError(
            f"dataset {source!r}: expected a file {' or '.join(endings)}, got {path}; give "
            f'name = "{other}"'
        )
    table = read_table(
        path,
        encoding=options.encoding,
        sheet=options.sheet,
        ending=ending if ending in endings else endings[0],
    )
    return read_questions(source, table, options)


def read_questions(
    source: str, table: Table, options: DatasetOptions, finish: Finish | None = None
) -> Loaded:
    """Turn the rows of a file into questions; see `load`.

    Args:
        source: the data set's name, for messages.
        table: the rows.
        options: the keys `columns`, `answer_base` and `on_bad_row`.
        finish: changes the questions.
    """
    rows = _prepared(source, table, options)
    readable: Rows = [(place, row) for place, row in rows if isinstance(row, dict)]
    check_header(table)
    layout = _layout(table, readable, options)
    if layout is not None:
        places = iter(_named(readable, table.names))
        rows = [next(places) if isinstance(row, dict) else (place, row) for place, row in rows]
    seen: dict[str, int] = {}
    common = filled_columns([row for _, row in readable], above=len(readable) / 2 - 1 / 2)

    def convert(given: RowOrError) -> Question:
        row = raise_error(given)
        try:
            translated = row if layout is None else layout.row(row)
            if layout is not None and layout.identifier is None:
                translated["id"] = _unrepeated(content_id(translated), seen)
            item = question_from_row(translated)
        except DataError as error:
            raise _of_another_shape(row, common) or error from error
        return finish(row, item) if finish else item

    questions, skipped = collect(table.path, rows, convert, options.on_bad_row)
    questions, notes = clean_passages(questions)
    if repeated := sum(n > 1 for n in seen.values()):
        notes = (
            *notes,
            f"{table.path.name}: questions that stand in more than one row: {repeated}; each row "
            "is an item of its own",
        )
    how = documented_told(readable) if layout is None else layout.told(options.columns)
    return Loaded(
        questions=questions,
        skipped=skipped,
        source_hash=hash_files(table.path),
        notes=notes,
        understood=told(table, len(questions), how) if how else "",
    )


def told(table: Table, n: int, layout: str) -> str:
    """Return what was understood of a file, in one line."""
    how = f" ({table.told})" if table.told else ""
    return f"{table.path.name}{how}: {n:,} question{'s' * (n != 1)}; {layout}"


def _prepared(source: str, table: Table, options: DatasetOptions) -> list[tuple[str, RowOrError]]:
    """Return the rows with their fields named by `columns` and without nesting."""
    renamed = renaming(source, options.columns)
    dropped = table.path.suffix.lower() not in TEXT
    rows: list[tuple[str, RowOrError]] = []
    for place, row in unnested(table.rows):
        try:
            given = renamed(raise_error(row))
            rows.append((place, _without_nulls(given) if dropped else given))
        except DataError as error:
            rows.append((place, error))
    return rows


def _without_nulls(row: Row) -> Row:
    """Drop the nulls of a struct of options: the columns of a struct are those of all rows."""
    options = row.get("options")
    if not isinstance(options, dict):
        return row
    return {**row, "options": {name: text for name, text in options.items() if text is not None}}


def _layout(table: Table, rows: Rows, options: DatasetOptions) -> Layout | None:
    """Return how the file holds questions; None: in the documented format.

    Raises:
        DataError: it holds none, or is ambiguous.
    """
    special = options.answer_base is not None or any(
        not isinstance(own, str) or name == "answer_text" for name, own in options.columns.items()
    )
    n = 0 if special else sum(_fits(question_from_row, row) for _, row in rows)
    if not rows or (not special and n >= len(rows) / 2):
        check_documented(table.path, rows)
        return None
    named = _named(rows, table.names)
    try:
        layout = understand(table.path, named, options)
    except DataError as error:
        if n:
            return None
        raise _of_another_source(table.path, rows) or error from error
    # A few good rows among many bad ones: the bad ones are named as such, unless most of the file
    # is in another form.
    return (
        None if n and sum(_fits(layout.row, row) for _, row in named) <= len(rows) / 2 else layout
    )


def _of_another_source(path: Path, rows: Rows) -> DataError | None:
    """Return the error about rows that another source reads, as their columns say."""
    source = source_of(columns_of(row for _, row in rows))
    if source == "questions":
        return None
    return DataError(
        f"{path}: expected questions with options, got rows for another source; give "
        f'name = "{source}"'
    )


def _of_another_shape(row: Row, common: Sequence[str]) -> DataError | None:
    """Return the error about a row that lacks most of the columns that the others have."""
    filled = {name for name, value in row.items() if not is_nothing(value)}
    if len(filled & set(common)) >= len(common) / 2:
        return None
    return DataError(
        f"expected the fields of the other rows ({', '.join(common)}), got "
        f"{', '.join(name for name in row if name in filled) or 'none'}; fix the row, or leave "
        'such rows out with on_bad_row = "skip"'
    )


def _fits(read: Callable[[Row], object], row: Row) -> bool:
    try:
        read(row)
    except DataError:
        return False
    return True


def _named(rows: Rows, names: Mapping[str, Sequence[str]]) -> Rows:
    """Return rows in which the numbers of columns with names are those names."""
    if not names:
        return rows
    named = with_names([row for _, row in rows], names)
    return [(place, row) for (place, _), row in zip(rows, named, strict=True)]


def _unrepeated(identifier: str, seen: dict[str, int]) -> str:
    """Return the id, with a number behind it from its second time on."""
    seen[identifier] = n = seen.get(identifier, 0) + 1
    return identifier if n == 1 else f"{identifier}-{n}"
