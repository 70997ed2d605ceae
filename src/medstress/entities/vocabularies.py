"""Names on disk: shipped tables, users' files, vocabularies, and the lexicon of noise."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from typing import Literal

from medstress.core.errors import UsageError, did_you_mean
from medstress.core.hashing import content_hash
from medstress.core.reading import check_file
from medstress.core.resources import folded as comparable
from medstress.core.sentences import OUTSIDE
from medstress.core.text import tokenise

SHIPPED = ("drugs", "diseases")
"""The shipped tables: columns concept, name, kind, candidate, case (how a text must write the name:
0 anyhow, 1 capitalised, 2 in capitals) and first (its first word as it is compared, where that is
another one); several rows per concept."""
DRUG_NAMES = "drug_names"
"""The shipped table of drug names: columns name, kind, source, ingredients (joined by a bar)."""

_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def _shipped_bytes(table: str) -> bytes:
    return (files("medstress.entities") / "data" / f"{table}.tsv.gz").read_bytes()


def shipped_hash(table: str) -> str:
    """Return the content hash of a shipped table."""
    return content_hash(_shipped_bytes(table).hex())


def _shipped_lines(table: str) -> list[str]:
    return gzip.decompress(_shipped_bytes(table)).decode("utf-8").split("\n")[1:-1]


def shipped_rows(table: str) -> Iterator[list[str]]:
    """Return the rows of a shipped table."""
    return (line.split("\t") for line in _shipped_lines(table))


def lines_by_first_word(table: str) -> dict[str, list[str]]:
    """Return the lines of one of `SHIPPED` by the first word of their names, as it is compared.

    A text has few of these words, so the lines stay unread.
    """
    by_word: dict[str, list[str]] = {}
    for line in _shipped_lines(table):
        first = line[line.rindex("\t") + 1 :] or line.split("\t", 2)[1].partition(" ")[0]
        by_word.setdefault(first, []).append(line)
    return by_word


@cache
def _candidates(table: str) -> Vocabulary:
    rows = (line.split("\t") for line in _shipped_lines(table) if "\t1\t" in line)
    return vocabulary_of(table, [row[1] for row in rows if row[3] == "1"])


@cache
def name_rules() -> Mapping[str, Mapping[str, str]]:
    """Return the lists of `name_rules.tsv`: kind -> text -> value, empty where a kind has none."""
    rules: dict[str, dict[str, str]] = {}
    text = (files("medstress.entities") / "data" / "name_rules.tsv").read_text("utf-8")
    for line in text.splitlines()[1:]:
        kind, entry, value = line.split("\t")
        rules.setdefault(kind, {})[entry] = value
    return rules


def is_delimited(path: Path) -> bool:
    """True for a path that ends in .csv or .tsv, compressed (.gz) or not."""
    return _ending(path) in _DELIMITERS


def existing_file(path: Path, what: str, advice: str) -> None:
    """Refuse a path that is not a file.

    Raises:
        UsageError: the path is not a file; the message has `what`, the path and `advice`.
    """
    if not path.is_file():
        kind = "a folder, not a file" if path.is_dir() else "no such file"
        raise UsageError(f"{what}: {kind} at {path}; {advice}")


_MAX_BYTES = 64 << 20
"""Most bytes of a table, uncompressed: far larger than any shipped one."""


def read_text(path: Path, what: str) -> str:
    """Return a UTF-8 file's text, without a byte order mark; .gz is decompressed.

    Raises:
        UsageError: the file cannot be read as text.
    """
    try:
        if path.exists():
            check_file(path)
        data = path.read_bytes()
        if path.suffix.lower() == ".gz":
            with gzip.GzipFile(fileobj=BytesIO(data)) as stream:
                data = stream.read(_MAX_BYTES + 1)
        if len(data) > _MAX_BYTES:
            raise OSError(f"it holds more than {_MAX_BYTES >> 20} MiB")
        text = data.decode("utf-8-sig")
    except (OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise UsageError(
            f"{what}: expected UTF-8 text in {path}, but it cannot be read ({error}); "
            "save it as UTF-8"
        ) from error
    if "\0" in text:
        raise UsageError(
            f"{what}: expected text in {path}, got a binary file; "
            "save the names as .csv, .tsv, .txt or .parquet"
        )
    return text


def read_rows(path: Path, what: str) -> Iterator[tuple[int, list[str]]]:
    """Yield ``(line number, fields)`` of a CSV or TSV file, blank lines left out.

    Quotes enclose fields in CSV. In TSV they are ordinary characters, as in most published name
    tables (a chemical name may begin with one).

    All rows must be as long as the first one: a name with an unquoted comma would otherwise
    silently lose its end.

    Raises:
        UsageError: a row is longer or shorter than the first, or a quote is never closed.
    """
    stream = io.StringIO(read_text(path, what), newline="")
    delimiter = _DELIMITERS[_ending(path)]
    quoting: Literal[0, 3] = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    reader = csv.reader(stream, delimiter=delimiter, quoting=quoting, strict=True)
    width: int | None = None
    try:
        for row in reader:
            if not any(field.strip() for field in row):
                continue
            width = len(row) if width is None else width
            if len(row) != width:
                fields = "1 field" if width == 1 else f"{width} fields"
                raise UsageError(
                    f"{what}: expected {fields} as in the first line, got {len(row)} in "
                    f"line {reader.line_num} of {path}; quote names that hold the separator"
                )
            yield reader.line_num, row
    except csv.Error as error:
        raise UsageError(
            f"{what}: expected a well-formed table, got {error} in line {reader.line_num} of "
            f"{path}; double the quotes inside a quoted name"
        ) from error


def read_columns(
    path: Path, what: str, names: Sequence[str], advice: str = "rename a column"
) -> list[tuple[str, ...]]:
    """Return the fields of named columns of a CSV or TSV file with a header.

    Args:
        path: the file.
        what: the key and value that name it, for messages.
        names: of the columns, in lower case; the file may write them in any case.
        advice: what to do where one is missing.

    Raises:
        UsageError: see `read_rows`; or a column is missing.
    """
    header, *rows = [row for _, row in read_rows(path, what)] or [[*names]]
    known = [field.strip().casefold() for field in header]
    if missing := [name for name in names if name not in known]:
        raise UsageError(
            f"{what}: expected a column {missing[0]!r}, got "
            f"{', '.join(map(repr, header))} in the first line of {path}; {advice}"
        )
    places = [known.index(name) for name in names]
    return [tuple(row[at] for at in places) for row in rows]


@dataclass(frozen=True, slots=True)
class NamePairs:
    """Pairs of names that a file lists."""

    rows: tuple[tuple[str, str], ...]
    """The pairs, as written."""

    @property
    def hash(self) -> str:
        """Content hash of the pairs."""
        return content_hash([list(row) for row in self.rows])


def read_name_pairs(path: Path, what: str, columns: tuple[str, str]) -> NamePairs:
    """Read two columns of a CSV or TSV file with a header.

    Args:
        path: the file.
        what: the key and value that name it, for messages.
        columns: the names of the two columns, in lower case.

    Raises:
        UsageError: there is no such file, it is no table, or it lacks a column, a name or rows.
    """
    advice = f"give a .csv or .tsv table with the columns {' and '.join(columns)}"
    existing_file(path, what, advice)
    if not is_delimited(path):
        raise UsageError(f"{what}: expected a name in .csv or .tsv, got {path.name!r}; {advice}")
    rows = [(a.strip(), b.strip()) for a, b in read_columns(path, what, columns, advice)]
    for number, row in enumerate(rows, start=2):
        if not all(row):
            raise UsageError(f"{what}: row {number} of {path} lacks a name; {advice}")
    if not any(comparable(first) != comparable(second) for first, second in rows):
        raise UsageError(
            f"{what}: expected at least one pair of different names under the header of {path}"
        )
    return NamePairs(tuple(rows))


def _ending(path: Path) -> str:
    return (path.with_suffix("") if path.suffix.lower() == ".gz" else path).suffix.lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class Vocabulary:
    """An ordered list of distinct names."""

    label: str
    """The user's name for it, a built-in name or a path, for tables and messages."""
    names: tuple[str, ...]
    """Stripped, not blank, distinct ignoring case; in the source's order."""
    hash: str
    """Content hash of `names`."""


def vocabulary_of(label: str, names: Iterable[str]) -> Vocabulary:
    """Make a vocabulary: strip names, drop blanks, keep the first of those that differ in case.

    Raises:
        UsageError: no name is left.

    >>> vocabulary_of("mine", ["Aspirin ", "", "aspirin", "ibuprofen"]).names
    ('Aspirin', 'ibuprofen')
    """
    distinct: dict[str, str] = {}
    for name in names:
        if stripped := name.strip():
            distinct.setdefault(stripped.casefold(), stripped)
    kept = tuple(distinct.values())
    if not kept:
        raise UsageError(f"vocabulary {label!r} is empty; expected at least one name")
    return Vocabulary(label=label, names=kept, hash=content_hash(list(kept)))


def load_vocabulary(source: str, base: Path, column: int | None = None) -> Vocabulary:
    """Load a vocabulary.

    Args:
        source: a built-in name, ``drugs`` or ``diseases``, or a path: a table (.csv, .tsv,
            .parquet) with a column ``name``, or a text file with one name per line. Write
            ``./drugs`` for a file with the name of a built-in.
        base: folder that a relative path starts from.
        column: position, from 0, of the names in a .csv or .tsv table *without* a header.

    Raises:
        UsageError: the source is missing, empty, or not laid out as described.
    """
    if source in SHIPPED:
        if column is not None:
            raise UsageError(
                f"vocabulary {source!r}: key 'column' is for a .csv or .tsv table without a "
                "header, not for a built-in vocabulary; remove it"
            )
        return _candidates(source)
    what = f"vocabulary {source!r}"
    path = base / Path(source).expanduser()
    hint = did_you_mean(source, SHIPPED)
    existing_file(path, what, f"give a path or one of {', '.join(SHIPPED)}{hint}")
    if is_delimited(path):
        return vocabulary_of(source, _table(path, what, column))
    if column is not None:
        raise UsageError(
            f"{what}: key 'column' is for a .csv or .tsv table without a header, got {path}; "
            "remove it"
        )
    if path.suffix.lower() == ".parquet":
        return vocabulary_of(source, _parquet(path, what))
    return vocabulary_of(source, read_text(path, what).split("\n"))


def _table(path: Path, what: str, column: int | None) -> list[str]:
    if column is None:
        advice = "rename a column or, without a header, give the place of the names: column = 0"
        return [name for (name,) in read_columns(path, what, ["name"], advice)]
    rows = [row for _, row in read_rows(path, what)]
    width = len(rows[0]) if rows else column + 1
    if not 0 <= column < width:
        raise UsageError(
            f"{what}: expected column = 0 to {width - 1} (counted from 0), got {column} for {path}"
        )
    return [row[column] for row in rows]


def _parquet(path: Path, what: str) -> list[str]:
    import polars as pl

    try:
        columns = pl.read_parquet(path).to_dict()
    except (pl.exceptions.PolarsError, OSError) as error:
        raise UsageError(
            f"{what}: expected a parquet file at {path}, but it cannot be read ({error})"
        ) from error
    names = next((c for name, c in columns.items() if name.strip().casefold() == "name"), None)
    if names is None or names.dtype not in (pl.String, pl.Categorical, pl.Enum, pl.Null):
        raise UsageError(f"{what}: expected texts in a column 'name' of {path}; rename a column")
    return [str(name) for name in names.drop_nulls()]


ONE_IN = 2280
"""A word that is in no entity or vocabulary counts if at least one in this many sentences has it;
a share, so that the strength of noise does not depend on the size of the corpus. Fitted by
`data/build/fit_noise_lexicon.py`: two of the 4,560 sentences of the train split of BC5CDR-chemical,
where swap noise then changes the share of O tokens nearest to the published 31 %."""


def noise_lexicon(
    sentences: Iterable[tuple[Sequence[str], Sequence[str]]], one_in: float = ONE_IN
) -> frozenset[str]:
    """Return the lexicon of a corpus, in lower case: medical words, which noise may perturb.

    The published lexicon holds the mentions that a scispaCy pipeline finds in the corpus (METHODS
    4.2). This one needs no model. It holds the words of gold entities, of the drug and disease
    vocabularies, and all words that occur in enough sentences, without a list of general words.

    Args:
        sentences: (tokens, IOB2 labels) of the whole corpus.
        one_in: a word of no entity or vocabulary must be in at least one of so many sentences.
    """
    counts: Counter[str] = Counter()
    gold: set[str] = set()
    n = 0
    for tokens, labels in sentences:
        n += 1
        lowered = [token.lower() for token in tokens]
        counts.update(set(lowered))
        gold.update(token for token, label in zip(lowered, labels, strict=True) if label != OUTSIDE)
    frequent = (word for word, count in counts.items() if count >= n / one_in)
    known = gold.union(_vocabulary_words(), frequent) - stop_words()
    return frozenset(word for word in known if any(map(str.isalpha, word)))


@cache
def stop_words() -> frozenset[str]:
    """Return general English words and the common words of scientific abstracts."""
    text = (files("medstress.entities") / "data" / "stop_words.txt").read_text("utf-8")
    return frozenset(text.split())


@cache
def _vocabulary_words() -> frozenset[str]:
    """Return the words of the names in the built-in vocabularies."""
    names = "\n".join(name for table in SHIPPED for name in load_vocabulary(table, Path()).names)
    return frozenset(token.lower() for token in set(tokenise(names)))
