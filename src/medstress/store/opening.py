"""Open a run's database as untrusted input: nothing in it is executed or followed.

The schema, every page and every row are checked before anything is read. Later queries are limited
to the known tables, and their work is bounded by the size of the file.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from medstress.core.errors import StoreError
from medstress.files.writing import DATABASE
from medstress.store.agreement import disagreement
from medstress.store.known_schema import RUN, Schema, check_schema, known_tables
from medstress.store.stored_types import check_types
from medstress.store.unverified import accepted

LONGEST_VALUE = 128 << 20
"""Bytes of one value; the manifest, with the hash of every item, holds two million items in it."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
_PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0")
_IN_MEMORY = 1 << 30
"""Bytes of a file whose temporary tables fit in memory. Those of larger files, which grow with the
number of queries, go to nameless files of SQLite's, so that reading takes no more memory."""
_FUNCTIONS = frozenset(
    {"coalesce", "count", "hex", "json", "json_extract", "json_group_object", "json_patch", "max"}
    | {"row_number", "sum", "total"}
)
_OWN = frozenset({"calls", "queries", "sqlite_master"})
"""Readable beside the known tables: what `RunReader` creates, and the list of tables."""

_STEP = 10_000
_STEPS_AT_LEAST = 2_000
_WORK_A_BYTE = 60
"""Limit of SQLite's operations per byte of the file; `summary` takes about 3."""


_ATTEMPTS = 3


class ChainError(StoreError):
    """A file does not agree with its chain."""


class _ChangedError(StoreError):
    """The file changed while it was checked."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedRun:
    """A run's database, checked and open for reading."""

    db: sqlite3.Connection
    """In a transaction, so that all reads see one state."""
    is_empty: bool
    """Whether it has no tables yet."""
    is_unchanged: Callable[[], bool]
    """True if the file has not changed since; always true for a file with a log, which is read from
    one snapshot."""
    doubt: str | None = None
    """Where it does not agree with its chain, if such files may be read (`unverified`)."""


def open_for_reading(path: Path, schema: Schema = RUN) -> OpenedRun:
    """Open a file that should be a run's database, or another of medstress.

    Args:
        path: the file.
        schema: what it should hold.

    Raises:
        StoreError: it holds that in no known format, it is damaged, it does not agree with its
            chain, or it cannot be opened.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _opened(path, schema)
        except _ChangedError:
            continue  # a writer started: now there is a log, and the next attempt reads with it
    return _opened(path, schema)


def check_file(path: Path, schema: Schema = RUN) -> None:
    """Check a file that is about to be written, without changing it.

    Raises:
        StoreError: as `open_for_reading`, also where files in doubt may be read.
    """
    if path.exists() and path.stat().st_size:
        opened = open_for_reading(path, schema)
        opened.db.close()
        if opened.doubt is not None:
            raise StoreError(f"{opened.doubt}; nothing is added to it")


def restrict(db: sqlite3.Connection) -> None:
    """From now on, allow only reading the known tables; no temporary table can be made."""
    db.execute("PRAGMA query_only = ON")
    tables = _OWN | set(known_tables())

    def allows(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and first in tables:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    db.set_authorizer(allows)


def _opened(path: Path, schema: Schema) -> OpenedRun:
    check_sides(path)
    try:
        db, is_unchanged = _connected(path)
    except sqlite3.Error as error:
        raise StoreError(explain(path, error)) from error
    try:
        is_empty = _is_empty(db, path, schema)
        doubt = None if is_empty else _doubt(db, path, schema)
        return OpenedRun(db=db, is_empty=is_empty, is_unchanged=is_unchanged, doubt=doubt)
    except BaseException as error:
        db.close()
        if not is_unchanged():
            raise _ChangedError(f"{path} is being written; try again") from error
        if isinstance(error, sqlite3.Error):
            raise StoreError(explain(path, error)) from error
        raise


def _is_empty(db: sqlite3.Connection, path: Path, schema: Schema) -> bool:
    """Check a database, and return whether it holds nothing yet."""
    # One snapshot for all checks and reads, because another process may be writing.
    db.execute("BEGIN")
    if check_schema(db, path, schema) == 0:
        return True
    (report,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if report != "ok":
        raise StoreError(_damaged(path, str(report).splitlines()[-1]))
    check_types(db, path, known_tables(schema))
    return False


def _doubt(db: sqlite3.Connection, path: Path, schema: Schema) -> str | None:
    """Return that a file does not agree with its chain, if it may be read all the same."""
    try:
        where = disagreement(db, schema)
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        where = f"its digests cannot be checked ({type(error).__name__}: {error})"
    if where is None:
        return None
    told = f"{path} is not as medstress wrote it: {where}"
    if not accepted(told):
        raise ChainError(f"{told}; `medstress verify {path.parent}` says more")
    return told


def check_sides(path: Path) -> None:
    """Refuse side files that SQLite would follow, or that would make it change the database.

    Raises:
        StoreError: one of them is no regular file, or another program left it.
    """
    for ending in ("-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + ending)
        if beside.is_symlink() or (beside.exists() and not beside.is_file()):
            raise StoreError(
                f"{beside} is not a regular file, so medstress did not make it; remove it"
            )
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists() and journal.stat().st_size and path.exists() and path.stat().st_size:
        raise StoreError(
            f"another program left {path} in the middle of a change ({journal.name} is beside "
            "it); open it with that program, or restore an earlier copy"
        )


def _connected(path: Path) -> tuple[sqlite3.Connection, Callable[[], bool]]:
    """Open without leaving files behind, and include what a log beside the file holds."""
    log = path.resolve().with_name(f"{path.resolve().name}-wal")
    if not _holds_anything(log):
        # Nobody has written since the database was closed. `is_unchanged` notices one who starts
        # later. An empty log is what readers leave who came while the writer closed.
        before = _stamp(path)
        return (
            _connection(path, "immutable=1"),
            lambda: _stamp(path) == before and not _holds_anything(log),
        )
    try:
        return _connection(path), lambda: True
    except sqlite3.OperationalError:
        if log.with_name(f"{path.resolve().name}-shm").exists():
            raise
    # On read-only media SQLite cannot create the shared index that reading a log takes. Nobody can
    # be writing there, so this process builds its own in memory, without locks.
    db = _connection(path, "vfs=unix-none", "PRAGMA locking_mode = EXCLUSIVE")
    return db, lambda: True


def _connection(path: Path, how: str = "", first: str | None = None) -> sqlite3.Connection:
    uri = f"{path.resolve().as_uri()}?mode=ro&{how}".rstrip("&")
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    try:
        for limit, value in _LIMITS.items():
            db.setlimit(limit, value)
        if hasattr(db, "setconfig"):  # from Python 3.12
            db.setconfig(sqlite3.SQLITE_DBCONFIG_DEFENSIVE, True)  # type: ignore[attr-defined]
        for pragma in _PRAGMAS:
            db.execute(f"PRAGMA {pragma}")
        is_small = path.stat().st_size <= _IN_MEMORY
        db.execute(f"PRAGMA temp_store = {'MEMORY' if is_small else 'FILE'}")
        if first is not None:
            db.execute(first)
        db.set_progress_handler(_bound(path), _STEP)
        db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _bound(path: Path) -> Callable[[], int]:
    """Return a handler, called every `_STEP` operations, that ends a query after too many."""
    left = max(_STEPS_AT_LEAST, path.stat().st_size * _WORK_A_BYTE // _STEP)

    def is_over() -> int:
        nonlocal left
        left -= 1
        return left < 0

    return is_over


def _holds_anything(log: Path) -> bool:
    try:
        return log.stat().st_size > 0
    except FileNotFoundError:
        return False


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


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
        "experiment again in another folder with --out"
    )
