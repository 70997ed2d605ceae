"""Opening a run's database as a stranger's: nothing in it is executed, followed or believed.

A file is compared with the known schema and checked page by page and row by row before anything is
read from it. What is asked afterwards is limited to the known tables, and bounded by the file's
size.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from medstress.errors import StoreError
from medstress.store.known_schema import FORMAT, check_schema, known_tables
from medstress.store.stored_types import check_types

LONGEST_VALUE = 128 << 20
"""Bytes of one value: the manifest names every item by its hash, two million in as many bytes."""
_LIMITS = {
    sqlite3.SQLITE_LIMIT_LENGTH: LONGEST_VALUE,
    sqlite3.SQLITE_LIMIT_SQL_LENGTH: 100_000,
    sqlite3.SQLITE_LIMIT_COLUMN: 100,
    sqlite3.SQLITE_LIMIT_EXPR_DEPTH: 100,
    sqlite3.SQLITE_LIMIT_COMPOUND_SELECT: 10,
    sqlite3.SQLITE_LIMIT_ATTACHED: 0,
    sqlite3.SQLITE_LIMIT_TRIGGER_DEPTH: 1,
}
_PRAGMAS = ("trusted_schema = OFF", "cell_size_check = ON", "mmap_size = 0", "temp_store = MEMORY")
_FUNCTIONS = frozenset({"coalesce", "count", "json_extract", "max", "row_number", "sum", "total"})
_OWN = frozenset({"calls", "queries", "sqlite_master"})
"""Read beside the known tables: what `RunReader` makes for itself, and the list of tables."""

_STEP = 10_000
_STEPS_AT_LEAST = 2_000
_WORK_A_BYTE = 60
"""A bound of SQLite's own operations: `summary` takes some 3 for each byte of a file."""


_ATTEMPTS = 3


class _ChangedError(StoreError):
    """A file changed while it was looked at."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opened:
    """A run's database, checked and open for reading."""

    db: sqlite3.Connection
    """In a transaction that shows one moment."""
    format: int
    """The format of the run; 0 where nothing is in it."""
    is_same: Callable[[], bool]
    """Whether the file is still the one that was opened; a file with a log may always change."""


def open_for_reading(path: Path) -> Opened:
    """Open a run's database, which need not be one.

    Args:
        path: the file.

    Raises:
        StoreError: it is not a run of a known format, it is damaged, or it cannot be opened.
    """
    for _ in range(_ATTEMPTS - 1):
        try:
            return _opened(path)
        except _ChangedError:
            continue  # somebody began to write it: there is a log now, and nothing is in the way
    return _opened(path)


def check_run(path: Path) -> None:
    """Check a file that is about to be written to, and leave it as it is.

    Raises:
        StoreError: as `open_for_reading`.
    """
    if path.exists() and path.stat().st_size:
        open_for_reading(path).db.close()


def restrict(db: sqlite3.Connection, format_: int) -> None:
    """Allow nothing from now on but reading the known tables; no temporary table can be made."""
    db.execute("PRAGMA query_only = ON")
    tables = _OWN | set(known_tables(format_ or FORMAT))

    def allows(action: int, first: str | None, second: str | None, *_: str | None) -> int:
        if action == sqlite3.SQLITE_SELECT:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_READ and first in tables:
            return sqlite3.SQLITE_OK
        if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() in _FUNCTIONS:
            return sqlite3.SQLITE_OK
        return sqlite3.SQLITE_DENY

    db.set_authorizer(allows)


def _opened(path: Path) -> Opened:
    _check_files(path)
    try:
        db, is_same = _connected(path)
    except sqlite3.Error as error:
        raise StoreError(told(path, error)) from error
    try:
        return Opened(db=db, format=_checked(db, path), is_same=is_same)
    except BaseException as error:
        db.close()
        if not is_same():
            raise _ChangedError(f"{path} is being written; try again") from error
        if isinstance(error, sqlite3.Error):
            raise StoreError(told(path, error)) from error
        raise


def _checked(db: sqlite3.Connection, path: Path) -> int:
    # One snapshot for all that is checked and read, while another process may be writing.
    db.execute("BEGIN")
    format_ = check_schema(db, path)
    if format_ == 0:
        return 0
    (said,) = db.execute("PRAGMA quick_check(1)").fetchone()
    if said != "ok":
        raise StoreError(_damaged(path, str(said).splitlines()[-1]))
    check_types(db, path, known_tables(format_))
    return format_


def _check_files(path: Path) -> None:
    """Refuse what SQLite would open beside the file, and what it would change to open it."""
    for ending in ("-wal", "-shm", "-journal"):
        beside = path.with_name(path.name + ending)
        if beside.is_symlink() or (beside.exists() and not beside.is_file()):
            raise StoreError(f"{beside} is not a plain file; medstress did not make it: remove it")
    journal = path.with_name(f"{path.name}-journal")
    if journal.exists() and journal.stat().st_size and path.stat().st_size:
        raise StoreError(
            f"{path} was left in the middle of a change by another programme ({journal.name} is "
            "beside it); open it with that programme, or take a copy from before"
        )


def _connected(path: Path) -> tuple[sqlite3.Connection, Callable[[], bool]]:
    """Open without leaving anything behind, and with what a log beside the file holds."""
    log = path.resolve().with_name(f"{path.resolve().name}-wal")
    if not log.exists():
        # Nobody writes: a writer has a log from its first moment. Should one begin, it is seen.
        before = _stamp(path)
        return _connection(path, "immutable=1"), lambda: _stamp(path) == before and not log.exists()
    try:
        return _connection(path), lambda: True
    except sqlite3.OperationalError:
        if log.with_name(f"{path.resolve().name}-shm").exists():
            raise
    # On read-only media SQLite cannot make the index that processes share to read a log. Nobody
    # can be writing there, so this process makes one of its own, in memory, without locks.
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
        if first is not None:
            db.execute(first)
        db.set_progress_handler(_bound(path), _STEP)
        db.execute("SELECT COUNT(*) FROM sqlite_master").fetchone()
    except BaseException:
        db.close()
        raise
    return db


def _bound(path: Path) -> Callable[[], int]:
    """Called every `_STEP` operations; what it returns ends a query that takes too many."""
    left = max(_STEPS_AT_LEAST, path.stat().st_size * _WORK_A_BYTE // _STEP)

    def is_over() -> int:
        nonlocal left
        left -= 1
        return left < 0

    return is_over


def _stamp(path: Path) -> tuple[int, int, int]:
    found = path.stat()
    return found.st_ino, found.st_size, found.st_mtime_ns


def told(path: Path, error: sqlite3.Error) -> str:
    """One sentence for whatever SQLite says of a file."""
    text = " ".join(str(error).split())
    if "interrupted" in text:
        return (
            f"{path} asks for more work than a run of its size can need; it was stopped, and is "
            "no file that medstress wrote"
        )
    if "unable to open" in text:
        return f"{path} cannot be opened ({text}); look at the permissions of it and its folder"
    if "locked" in text or "busy" in text:
        return f"{path} is locked by another programme; wait for it, or close it"
    return _damaged(path, text)


def _damaged(path: Path, what: str) -> str:
    return (
        f"{path} is not a readable run: {what}; if it was one, take it from a copy, or run the "
        "experiment again in another folder with --out"
    )
