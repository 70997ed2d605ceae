"""SQLite in a thread of its own: who only writes goes on at once, who reads or commits waits."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from medstress.errors import StoreError
from medstress.writing import Access, PlaceTaken, take_place

R = TypeVar("R")

SIDES = ("", "-wal", "-shm", "-journal")
"""Endings of the names of SQLite's files."""

_ROWS_A_STATEMENT = 64
"""Rows inserted by one statement: two thirds of the time of one each, and another thread is let
in once for all of them. Their values stay below the 999 that older SQLites take."""


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Turn SQLite's and the system's errors, and values that cannot be stored, into one
    sentence."""
    try:
        yield
    except StoreError:
        raise
    except PlaceTaken as error:
        raise StoreError(f"cannot write {error.filename}: {error.strerror}") from error
    except Exception as error:
        text = str(error)
        if "readonly" in text or isinstance(error, PermissionError):
            hint = "the folder or its files are read-only; choose another with --out"
        elif "full" in text or getattr(error, "errno", None) == 28:
            hint = "the disk is full; free some space and run the same command again to resume"
        elif "disk I/O" in text:
            hint = "the disk failed or is full; run the same command again to resume"
        else:
            hint = "what was committed before is safe; run the same command again to resume"
        raise StoreError(f"cannot write the run in {folder}: {text}; {hint}") from error


class Database:
    """One file, read and written by one thread, in the order in which it is told to.

    All that is done until `commit` is one transaction. Whatever fails rolls it back: what was told
    since the last commit is undone as a whole, and the next to wait is told why.
    """

    def __init__(
        self,
        file: Path,
        prepare: Callable[[sqlite3.Connection], None],
        access: Access | None = None,
    ) -> None:
        """Open a file, or begin one.

        Args:
            file: in the folder that errors name.
            prepare: called before the first transaction.
            access: who may read it; None: who may already, and the owner alone where it is new.

        Raises:
            StoreError: it cannot be opened, or written to.
        """
        self._folder = file.parent
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="medstress-store")
        self._failure: Exception | None = None
        self._is_open = True
        try:
            with translated(self._folder):
                self._db = self._thread.submit(_opened, file, prepare, access).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def ask(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Do something after all that was told before, and wait for what it returns.

        Raises:
            StoreError: it failed, or something told before did, and it was not done.
            KeyboardInterrupt: it was done; where it failed, that is told instead.
        """

        def run() -> R:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            return self._do(work)

        with translated(self._folder):
            future = self._thread.submit(run)
            try:
                return future.result()
            except KeyboardInterrupt as interrupt:
                # Nobody would learn otherwise that writes were undone.
                if (failure := future.exception()) is not None:
                    raise failure from interrupt
                raise

    def tell(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Do something after all that was told before, and do not wait.

        Where it fails, nothing told later is done before somebody who waits was told.
        """

        def run() -> None:
            if self._failure is None:
                try:
                    self._do(work)
                except Exception as error:  # noqa: BLE001 - raised by the next `ask`
                    self._failure = error

        self._thread.submit(run)

    def close(self) -> None:
        """Commit, and release the file.

        Raises:
            StoreError: the commit failed, or something told before it.
        """
        try:
            if self._is_open:
                self.ask(commit)
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the file and undo what was told since the last commit."""
        if self._is_open:
            self._is_open = False
            self._thread.submit(self._db.close)
            self._thread.shutdown()

    def _do(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Called in the thread."""
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            return work(self._db)
        except BaseException:
            # SQLite has rolled back some failures by itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def insert_rows(
    db: sqlite3.Connection, into: str, rows: Sequence[tuple[Any, ...]], *, or_else: str = ""
) -> None:
    """Insert rows of one width.

    Args:
        db: where.
        into: table and, where some are left out, its columns: `exchanges (trial, seq)`.
        rows: the values.
        or_else: what to do where a row is there already: `OR IGNORE`.
    """
    if not rows:
        return
    start = f"INSERT {or_else} INTO {into} VALUES "
    row = f"({', '.join('?' * len(rows[0]))})"
    several = start + ", ".join([row] * _ROWS_A_STATEMENT)
    n_last = len(rows) % _ROWS_A_STATEMENT
    for i in range(0, len(rows) - n_last, _ROWS_A_STATEMENT):
        db.execute(several, tuple(chain.from_iterable(rows[i : i + _ROWS_A_STATEMENT])))
    db.executemany(start + row, rows[len(rows) - n_last :])


def _opened(
    file: Path, prepare: Callable[[sqlite3.Connection], None], access: Access | None
) -> sqlite3.Connection:
    # SQLite gives the files beside it its own mode; those that a killed process left have theirs.
    for side in SIDES:
        if not side or Path(f"{file}{side}").exists():
            take_place(Path(f"{file}{side}"), access)
    db = sqlite3.connect(file, isolation_level=None)
    try:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        prepare(db)
    except BaseException:
        db.close()
        raise
    return db


def commit(db: sqlite3.Connection) -> None:
    """Make all that was done survive the process; asked of a `Database`."""
    db.execute("COMMIT")
