"""SQLite in a thread of its own: writers go on at once, readers and commits wait."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TypeVar

from medstress.core.errors import StoreError
from medstress.files.writing import Access, PlaceTaken, create_in_place
from medstress.store.chain import Chained, link

R = TypeVar("R")

SIDES = ("", "-wal", "-shm", "-journal")
"""Suffixes of SQLite's files."""

_ROWS_A_STATEMENT = 64
"""Rows inserted by one statement: this takes two thirds of the time of single inserts and releases
the interpreter once for all. The number of values stays below the 999 that old SQLites accept."""


@contextmanager
def translated(folder: Path) -> Iterator[None]:
    """Translate errors of SQLite and the system, and of values that cannot be stored.

    Raises:
        StoreError: in place of the original error, in one sentence.
    """
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
        elif isinstance(error, FileExistsError | NotADirectoryError):
            hint = "a file is where a folder is needed; choose another folder with --out"
        elif "full" in text or getattr(error, "errno", None) == 28:
            hint = "the disk is full; free some space and run the same command again to resume"
        elif "disk I/O" in text:
            hint = "the disk failed or is full; run the same command again to resume"
        else:
            hint = "what was committed before is safe; run the same command again to resume"
        raise StoreError(f"cannot write the run in {folder}: {text}; {hint}") from error


def nothing(db: sqlite3.Connection) -> Any:
    """Do nothing; what `Database.commit` does besides committing, unless it is given work."""


class Database:
    """One file, read and written by one thread, in the order of submission.

    Everything until `commit` is one transaction. A failure rolls it back: all work since the last
    commit is undone, and the next caller of `run` gets the error.
    """

    def __init__(
        self,
        file: Path,
        prepare: Callable[[sqlite3.Connection], None],
        access: Access | None = None,
        *,
        chained: Chained | None = None,
    ) -> None:
        """Open a file, or create it.

        Args:
            file: the database; errors name its folder.
            prepare: called before the first transaction.
            chained: the tables whose rows every commit adds to the chain.
            access: who may read it; None keeps the permissions, and limits a new file to its owner.

        Raises:
            StoreError: it cannot be opened or written.
        """
        self._folder = file.parent
        self._chained = chained
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="medstress-store")
        self._failure: Exception | None = None
        self._is_open = True
        try:
            with translated(self._folder):
                self._db = self._thread.submit(_open, file, prepare, access).result()
        except BaseException:
            self._thread.shutdown()
            raise

    def run(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run work after everything submitted earlier, and return its result.

        Raises:
            StoreError: the work failed, or earlier work failed and this was not done.
            KeyboardInterrupt: raised once the work is done; if that fails, its error is raised.
        """

        def task() -> R:
            failure, self._failure = self._failure, None
            if failure is not None:
                raise failure
            return self._do(work)

        with translated(self._folder):
            future = self._thread.submit(task)
            try:
                return future.result()
            except KeyboardInterrupt as interrupt:
                # Nobody would learn otherwise that writes were undone.
                if (failure := future.exception()) is not None:
                    raise failure from interrupt
                raise

    def submit(self, work: Callable[[sqlite3.Connection], object]) -> None:
        """Queue work after everything submitted earlier, and do not wait.

        If it fails, later work is skipped until a caller of `run` has got the error.
        """

        def task() -> None:
            if self._failure is None:
                try:
                    self._do(work)
                except Exception as error:  # noqa: BLE001 - raised by the next `run`
                    self._failure = error

        self._thread.submit(task)

    def commit(self, work: Callable[[sqlite3.Connection], R] = nothing) -> R:
        """Run work, then commit it and everything submitted earlier, as one step.

        Raises:
            StoreError: as `run`.
        """

        def task(db: sqlite3.Connection) -> R:
            found = work(db)
            if self._chained is not None:
                link(db, self._chained)
            db.execute("COMMIT")
            return found

        return self.run(task)

    def close(self) -> None:
        """Commit and release the file.

        Raises:
            StoreError: the commit failed, or work submitted before it.
        """
        try:
            if self._is_open:
                self.commit()
        finally:
            self.abandon()

    def abandon(self) -> None:
        """Release the file and undo all work since the last commit."""
        if self._is_open:
            self._is_open = False
            self._thread.submit(self._db.close)
            self._thread.shutdown()

    def _do(self, work: Callable[[sqlite3.Connection], R]) -> R:
        """Run work in the database thread, inside a transaction."""
        try:
            if not self._db.in_transaction:
                self._db.execute("BEGIN")
            return work(self._db)
        except BaseException:
            # After some failures SQLite has rolled back by itself.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
            raise


def insert_rows(
    db: sqlite3.Connection, into: str, rows: Sequence[tuple[Any, ...]], *, or_else: str = ""
) -> None:
    """Insert rows of equal length.

    Args:
        db: the database.
        into: the table, with its columns if some are left out: `exchanges (trial, seq)`.
        rows: the values.
        or_else: what to do if a row exists already: `OR IGNORE`.
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


def _open(
    file: Path, prepare: Callable[[sqlite3.Connection], None], access: Access | None
) -> sqlite3.Connection:
    # SQLite creates its side files with the mode of the database; leftovers of a killed process
    # keep theirs.
    for side in SIDES:
        if not side or Path(f"{file}{side}").exists():
            create_in_place(Path(f"{file}{side}"), access)
    is_new = file.stat().st_size == 0
    db = sqlite3.connect(file, isolation_level=None)
    try:
        if is_new:
            # A process killed while it turns to WAL would leave a journal, which nobody rolls back.
            db.execute("PRAGMA journal_mode = MEMORY")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        prepare(db)
    except BaseException:
        db.close()
        raise
    return db
