"""Open a database of medstress as a stranger's data: checked whole, read-only, in one snapshot.

The file and those next to it are regular files, its schema is the one that medstress makes, SQLite
finds its pages whole and in its indexes its rows, values have the types of their columns, and its
digests agree. So nothing in it is executed or followed. Answers and exchanges are compared with
their digests by `medstress verify` alone. Reading changes nothing in the folder.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from itertools import islice
from pathlib import Path
from struct import Struct, unpack_from
from traceback import extract_tb
from typing import Literal, TypeAlias

from medstress.core.errors import FIRST_COMMAND, DataError, StoreError, did_you_mean, setting
from medstress.core.reading import check_regular, is_locked
from medstress.core.words import command, quoted
from medstress.core.writing import DATABASE
from medstress.store.chain import (
    REVIEW_CHAIN,
    RUN_CHAIN,
    Break,
    Chained,
    compute_root,
    current_root,
    first_break,
    wrong_rows,
)
from medstress.store.database import LOCK, SIDES

Stamps: TypeAlias = tuple[tuple[int, int, int] | None, ...]
"""What a write to a file or its log changes."""
FORMAT = 6
"""The format of runs that is written and read."""
LONGEST_VALUE = 128 << 20
"""Bytes of one value; the manifest, with the hash of every item, holds two million items in it."""
_PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0")
_IN_MEMORY = 256 << 20
"""Bytes of a file whose temporary tables fit in memory; those of others go to nameless files."""
WITHOUT_LOCKS = "vfs=unix-none"
_MAGIC, _VERSION, _PAGE_SIZES = 0x377F0682, 3_007_000, [1 << n for n in range(9, 17)]
"""What the header of a log begins with."""
_STEP = 10_000
_WORK_AT_LEAST = 20_000_000
_WORK_A_BYTE = 60
"""Limits of SQLite's operations after the checks, in all and for each byte of the file; `summary`
takes about 3 a byte. Rows that medstress does not write can make a query quadratic."""
_ATTEMPTS = 3
_sound: dict[tuple[Path, str, str], object] = {}
"""What this process has checked, and the stamps of its files then: a report opens a run often."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Schema:
    """What one kind of file holds."""

    holds: str
    """In words."""
    format: int
    """The format that is written and read."""
    script: str
    """The SQL file that makes it."""
    chained: Chained | None = None
    """What its chain covers, if it has one."""
    references: tuple[str, ...] = ()
    """Tables whose references to others are checked; digests of trials check those of others."""
    large: tuple[str, ...] = ()
    """Tables of which SQLite's checks are enough; what they count is held against the results."""
    elsewhere: str = ""
    """What helps where another file is in its place."""

    @property
    def statements(self) -> tuple[str, ...]:
        """The statements that make an empty file."""
        text = files("medstress.store").joinpath(self.script).read_text("utf-8")
        plain = "\n".join(line for line in text.splitlines() if not line.startswith("--"))
        return (*plain.split(";")[:-1], f"PRAGMA user_version = {self.format}")


RUN = Schema(
    holds="a run",
    format=FORMAT,
    script="run.sql",
    chained=RUN_CHAIN,
    references=("findings", "renewals"),
    large=("exchanges",),
)
REVIEWS = Schema(holds="reviews", format=3, script="reviews.sql", chained=REVIEW_CHAIN)


class ChainError(StoreError):
    """A file does not agree with its chain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRun:
    """A database, checked and open for reading."""

    db: sqlite3.Connection
    """In a transaction, so that all reads see one state."""
    is_empty: bool
    """Whether it has no tables yet."""
    is_unchanged: Callable[[], bool]
    """True if what was read is one state: no one has written to the file since, or the reads came
    from a snapshot."""


def open_for_reading(
    path: Path,
    schema: Schema = RUN,
    *,
    check: Literal["all", "form"] = "all",
    attempts: int = _ATTEMPTS,
) -> OpenedRun:
    """Open a file that should be a run's database, or another of medstress.

    Args:
        path: the file.
        schema: what it should hold.
        check: `form` leaves out the digests, for a command that says where they disagree.
        attempts: how often it is tried where another process writes it meanwhile.

    Raises:
        StoreError: it is not what medstress writes, it is damaged, or it cannot be opened.
        ChainError: it does not agree with its digests.
    """
    _check_sides(path)
    before = stamps(path)
    try:
        db, is_snapshot = _connected(path, is_busy=attempts < _ATTEMPTS)
    except sqlite3.Error as error:
        raise StoreError(explain(path, error)) from error

    def is_unchanged() -> bool:
        return is_snapshot or stamps(path) == before

    key = path.absolute(), schema.holds, check
    try:
        # One snapshot for all checks and reads, because another process may be writing.
        db.execute("BEGIN")
        is_empty = check_schema(db, path, schema)
        is_sound = is_empty or _sound.get(key) == before
        if not is_sound:
            _check_pages(db, path)
        _bound(db)
        if not is_sound:
            _check_values(db, path, schema)
            if check == "all":
                _check_digests(db, path, schema)
            if stamps(path) == before:
                _sound[key] = before
        return OpenedRun(db=db, is_empty=is_empty, is_unchanged=is_unchanged)
    except BaseException as error:
        db.close()
        if isinstance(error, Exception) and not is_unchanged():
            if attempts > 1:
                return open_for_reading(path, schema, check=check, attempts=attempts - 1)
            raise StoreError(f"{path} is being written; try again") from error
        if isinstance(error, sqlite3.Error):
            raise StoreError(explain(path, error)) from error
        raise


def check_file(path: Path, schema: Schema = RUN) -> None:
    """Check a file that is about to be written, without changing it.

    Raises:
        StoreError: as `open_for_reading`.
    """
    if check_regular(path):
        open_for_reading(path, schema).db.close()


def _check_sides(path: Path) -> None:
    """Refuse files next to a database that SQLite would follow."""
    size = check_regular(path)
    *_, journal = (check_regular(Path(f"{path}{side}")) for side in SIDES[1:])
    if size and journal:
        raise StoreError(
            f"another program left {path} in the middle of a change ({path.name}-journal is there "
            "too); open it with that program, or restore an earlier copy"
        )


def how_to_read(path: Path, *, is_busy: bool = False) -> tuple[str, bool]:
    """Return what a URI adds to read a database without leaving files behind, and whether readers
    see a snapshot.

    Without a log no one has written since the database was closed. A log that no one writes to any
    more is read by an index in this process's memory and without locks, which needs
    `locking_mode = EXCLUSIVE`; the index on disk is for readers next to a writer, whose file it is.
    SQLite would delete a log without any change, and that of an empty file, so it sees neither.
    """
    log = Path(f"{path}-wal")
    if not (check_regular(path) and check_regular(log)):
        return "immutable=1", False
    if is_busy or os.name == "nt" or is_locked(path.with_name(LOCK)):
        return "mode=ro", True
    return f"mode=ro&{WITHOUT_LOCKS}" if _holds_change(log) else "immutable=1", False


def _holds_change(log: Path) -> bool:
    """Return whether SQLite finds a change in a log: a header, then frames up to one that commits,
    all with checksums over what came before (its file format, section 4)."""
    with log.open("rb") as stream:
        header = stream.read(32).ljust(32, b"\0")
        magic, version, size = unpack_from(">3I", header)
        if magic >> 1 != _MAGIC >> 1 or version != _VERSION or size not in _PAGE_SIZES:
            return False
        words = Struct(">2I" if magic & 1 else "<2I")
        sums, stored, commits = _sums(words, header[:24]), unpack_from(">2I", header, 24), 0
        while sums == stored and not commits:
            frame = stream.read(24 + size).ljust(24, b"\0")
            page, commits, *_, one, other = unpack_from(">6I", frame)
            if not page or frame[8:16] != header[16:24] or len(frame) < 24 + size:
                return False
            sums, stored = _sums(words, frame[:8] + frame[24:], *sums), (one, other)
        return sums == stored


def _sums(words: Struct, part: bytes, one: int = 0, other: int = 0) -> tuple[int, int]:
    """Return the checksum of a part of a log that goes on from the one before."""
    for a, b in words.iter_unpack(part):
        one = (one + a + other) & 0xFFFFFFFF
        other = (other + b + one) & 0xFFFFFFFF
    return one, other


def _connected(path: Path, *, is_busy: bool) -> tuple[sqlite3.Connection, bool]:
    how, is_snapshot = how_to_read(path, is_busy=is_busy)
    db = sqlite3.connect(f"{path.absolute().as_uri()}?{how}", uri=True, isolation_level=None)
    try:
        harden(db)
        db.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
        if WITHOUT_LOCKS in how:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        (n_pages,), (size,) = (
            db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "page_size")
        )
        db.execute(f"PRAGMA temp_store = {'MEMORY' if n_pages * size <= _IN_MEMORY else 'FILE'}")
    except BaseException:
        db.close()
        raise
    return db, is_snapshot


def harden(db: sqlite3.Connection) -> None:
    """Let a file that anyone may have written call no function and follow no other file."""
    db.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, LONGEST_VALUE)
    if hasattr(db, "setconfig"):  # from Python 3.12
        db.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # type: ignore[attr-defined]
    for pragma in _PRAGMAS:
        db.execute(f"PRAGMA {pragma}")


def restrict(db: sqlite3.Connection) -> None:
    """From now on, allow only reading: no temporary table can be made any more."""
    db.execute("PRAGMA query_only = ON")


def make_schema(db: sqlite3.Connection, path: Path, schema: Schema = RUN) -> None:
    """Create the tables in an empty file.

    Raises:
        StoreError: as `check_schema`, where the file is not empty.
    """
    db.execute("BEGIN IMMEDIATE")  # another process may be creating the same file
    if check_schema(db, path, schema):
        for statement in schema.statements:
            db.execute(statement)
    db.execute("COMMIT")


def check_schema(db: sqlite3.Connection, path: Path, schema: Schema) -> bool:
    """Return whether a database is empty; else it must hold exactly what medstress makes.

    Raises:
        StoreError: another program made it, it is of another format, or an object is unknown,
            changed or missing.
    """
    (stored,) = db.execute("PRAGMA user_version").fetchone()
    objects, made = _objects(db), _made(schema)[0]
    if stored == 0 and not objects:
        return True
    if stored != schema.format:
        elsewhere = schema.elsewhere or f"choose another folder with {setting('out')}"
        if stored == 0 or not {name for _, name, _ in made} & {name for _, name, _ in objects}:
            raise StoreError(
                f"{path} is a database that medstress did not make; it is not touched: {elsewhere}"
            )
        raise StoreError(
            f"{path.parent} holds {schema.holds} of format {stored}, but this medstress reads "
            f"format {schema.format}; use the medstress that wrote it, or {elsewhere}"
        )
    if differing := sorted(objects ^ made):
        kind, name, _ = differing[0]
        raise StoreError(
            f"{path} is not as medstress makes it (see the {kind} {name!r}); another program made "
            "or changed it, so it is not opened"
        )
    return False


def _objects(db: sqlite3.Connection) -> frozenset[tuple[str, str, str]]:
    """Return (kind, name, SQL without white space) of what a database holds."""
    rows = db.execute("SELECT type, name, sql FROM sqlite_master")
    return frozenset(
        (str(kind), str(name), "".join((sql or "").split())) for kind, name, sql in rows
    )


@cache
def _made(schema: Schema) -> tuple[frozenset[tuple[str, str, str]], tuple[str, ...]]:
    """Return the objects that medstress makes, and queries for values of another type."""
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as db:
        for statement in schema.statements:
            db.execute(statement)
        objects = _objects(db)
        queries = []
        tables = {name for kind, name, _ in objects if kind == "table"}
        for table in sorted(tables.difference(schema.large)):
            columns = db.execute(f"PRAGMA table_info({table})").fetchall()
            tests = [
                _typed(name, kind.lower(), is_filled) for _, name, kind, is_filled, *_ in columns
            ]
            queries.append(
                f"SELECT '{table}' FROM {table} WHERE NOT ({' AND '.join(tests)}) LIMIT 1"
            )
    return objects, tuple(queries)


def _typed(name: str, kind: str, not_null: bool) -> str:
    """Return SQL that is 1 for a value that its column declares."""
    test = f"typeof({name}) = '{kind}'" + (f" AND abs({name}) < 9e999" if kind == "real" else "")
    return f"({test})" if not_null else f"({test} OR {name} IS NULL)"


def _check_pages(db: sqlite3.Connection, path: Path) -> None:
    # Not `quick_check`: readers find rows by indexes, whose content no digest covers.
    (report,) = db.execute("PRAGMA integrity_check(1)").fetchone()
    if report != "ok":
        raise StoreError(_damaged(path, str(report).splitlines()[-1]))


def _bound(db: sqlite3.Connection) -> None:
    """Bound the work of all later queries by the pages in use; free ones may be a file's hole."""
    names = ("page_count", "freelist_count", "page_size")
    pages, free, size = (db.execute(f"PRAGMA {name}").fetchone()[0] for name in names)
    left = (_WORK_AT_LEAST + (pages - free) * size * _WORK_A_BYTE) // _STEP

    def is_over() -> int:
        nonlocal left
        left -= 1
        return int(left < 0)

    db.set_progress_handler(is_over, _STEP)


def _check_values(db: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Check the types of all values, and that rows name rows that are there."""
    for query in _made(schema)[1]:
        if wrong := db.execute(query).fetchone():
            raise StoreError(_damaged(path, f"table {wrong[0]} holds a value of another type"))
    for checked in schema.references:
        for table, row, other, _ in db.execute(f"PRAGMA foreign_key_check({checked})"):
            raise StoreError(
                _damaged(path, f"row {row} of table {table} names a row that {other} lacks")
            )


def _check_digests(db: sqlite3.Connection, path: Path, schema: Schema) -> None:
    """Compare all but answers and exchanges with the digests."""
    assert schema.chained is not None
    try:
        # Trials first, because they name the row.
        broken = next(wrong_rows(db), None) if schema is RUN else None
        where: Break | str | None = broken or first_break(db, schema.chained, whole=False)
        kept = current_root(db) if schema is RUN and where is None else None
        if kept is not None and (root := compute_root(db)) != kept.root:
            where = Break("manifest", kept.row, f"root {kept.root}", f"root {root}")
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        where = f"its digests cannot be computed ({type(error).__name__}: {error})"
    if where is not None:
        more = command("verify", path.parent)
        raise ChainError(f"{path} is not as medstress wrote it: {where}; `{more}` says more")


def stamps(path: Path) -> Stamps:
    """Return the stamps of a file and its log."""

    def stamp(file: Path) -> tuple[int, int, int] | None:
        try:
            status = file.stat()
        except FileNotFoundError:
            return None
        return status.st_ino, status.st_size, status.st_mtime_ns

    return stamp(path), stamp(Path(f"{path}-wal"))


_MALFORMED = (
    ValueError,  # not JSON, not a number, not in an enumeration, or refused by pydantic
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    AssertionError,
    RecursionError,
    MemoryError,
)
"""Errors that rows raise if medstress did not write them."""
_MOST_SHOWN = 200
_OURS = f"{os.sep}medstress{os.sep}"


@contextmanager
def interpreting(path: Path) -> Iterator[None]:
    """Guard code that reads a run's rows and computes with them.

    Args:
        path: the run's file.

    Raises:
        StoreError: the rows are not as medstress writes them.
    """
    try:
        yield
    except sqlite3.Error as error:
        raise StoreError(explain(path, error)) from error
    except DataError as error:
        raise StoreError(f"{path} holds an invalid item: {error}") from error
    except _MALFORMED as error:
        # The innermost frame of medstress: where the row is read, or where the bug is.
        *_, where = (at for at in extract_tb(error.__traceback__) if _OURS in at.filename)
        detail = " ".join(str(error).split())[:_MOST_SHOWN]
        raise StoreError(
            f"{path} holds a value that cannot be interpreted ({type(error).__name__}: {detail}; "
            f"{Path(where.filename).name}, line {where.lineno}). The file was damaged or changed: "
            "restore it from a copy. If medstress wrote it like this, please report this message"
        ) from error


@contextmanager
def reading(
    path: Path, schema: Schema = RUN, *, check: Literal["all", "form"] = "all"
) -> Iterator[sqlite3.Connection | None]:
    """Open a file for some reading, as `open_for_reading`; give None if it has no tables yet.

    Raises:
        StoreError: it is not as medstress writes it, or was written while it was read.
    """
    with interpreting(path):
        opened = open_for_reading(path, schema, check=check)
        with closing(opened.db) as db:
            yield None if opened.is_empty else db
        if not opened.is_unchanged():
            raise StoreError(f"{path} was written while it was read; try again")


def explain(path: Path, error: sqlite3.Error) -> str:
    """Return one sentence for an error of SQLite about a file."""
    text = " ".join(str(error).split())
    if "interrupted" in text:
        return (
            f"reading {path} took more work than a run of its size can need and was stopped; "
            "medstress did not write this file"
        )
    if "unable to open" in text:
        return f"{path} cannot be opened ({text}); check its permissions and those of its folder"
    if "locked" in text or "busy" in text:
        return f"{path} is locked by another program; wait for it, or close it"
    return _damaged(path, text)


def _damaged(path: Path, what: str) -> str:
    if path.name != DATABASE:
        return f"{path} is not readable: {what}; restore it from a copy"
    return (
        f"{path} is not a readable run: {what}; if it was one, restore it from a copy, or run the "
        f"experiment again in another folder with {setting('out')}"
    )


_RUNS = Path("runs")
"""Where runs are by default."""
_MOST = 1_000
"""Folders that are looked at."""


def no_run(folder: Path) -> StoreError:
    """Return the error for a folder without a run, with the runs near it and the next command."""
    if folder.is_file():
        error = StoreError(f"{quoted(folder)} is a file; expected the folder of a run")
        is_experiment = folder.suffix == ".toml"
        return error.with_command(command("run", folder) if is_experiment else FIRST_COMMAND)
    if inside := sorted(_runs_in(folder)):
        names = ", ".join(path.name for path in inside[:5])
        runs = f"run{'s' * (len(inside) > 1)}"
        error = StoreError(
            f"there is no run in {quoted(folder)}; it is the parent of the {runs} {names}"
        )
        # Of several the user means one, and what lies in a folder such as /tmp may be anybody's.
        one = inside[0] if len(inside) == 1 else folder / "NAME"
        return error.with_command(command("summary", one))
    near = did_you_mean(str(folder), map(str, [*_runs_in(folder.parent), *_runs_in(_RUNS)]))
    error = StoreError(f"there is no run in {quoted(folder)} (no {DATABASE}){near}")
    return error.with_command(FIRST_COMMAND)


class NeverBeganError(StoreError):
    """The run in a folder holds nothing yet."""

    def __init__(self, folder: Path) -> None:
        super().__init__(f"the run in {quoted(folder)} was never started")
        self.with_command(command("run", "EXPERIMENT.toml", "--out", folder))


def _runs_in(folder: Path) -> Iterator[Path]:
    """Yield the folders of runs directly below a folder."""
    try:
        for path in islice(folder.iterdir(), _MOST):
            if (path / DATABASE).is_file():
                yield path
    except OSError:
        return
