"""SQLite in a thread of its own: writers go on at once, readers and commits wait."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from shutil import copyfile
from typing import Any, TypeVar

from medstress.core.errors import StoreError, setting
from medstress.core.writing import (
    DATABASE,
    PlaceTaken,
    atomic_path,
    create_in_place,
    unfinished_parts,
)
from medstress.store.chain import Chained, link

R = TypeVar("R")

FILE = DATABASE
LOCK = "run.lock"
SUMMARY = "summary.json"
"""The summary of a complete run, with the root that it belongs to."""
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
        text, other = str(error), f"choose another with {setting('out')}"
        if "readonly" in text or isinstance(error, PermissionError):
            hint = f"the folder or its files are read-only; {other}"
        elif isinstance(error, FileExistsError | NotADirectoryError):
            hint = f"a file is where a folder is needed; {other}"
        else:
            is_full = "full" in text or getattr(error, "errno", None) == errno.ENOSPC
            why = "the disk is full" if is_full else "what was committed before is safe"
            hint = f"{why}; run the same command again to resume"
        raise StoreError(f"cannot write the run in {folder}: {text}; {hint}") from error


class TakenOverError(StoreError):
    """Another process has put a copy in the place of the file that this one writes."""


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
        *,
        chained: Chained | None = None,
        alone: bool = False,
    ) -> None:
        """Open a file, or create it.

        Args:
            file: the database; errors name its folder.
            prepare: called before the first transaction.
            chained: the tables whose rows every commit adds to the chain.
            alone: no one else may open it, so that its log needs no memory that processes share;
                and every commit checks that it is still the file of its name (`take_over`).

        Raises:
            StoreError: it cannot be opened or written.
        """
        self._file, self._folder = file, file.parent
        self._chained = chained
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="medstress-store")
        self._failure: Exception | None = None
        self._is_open = True
        try:
            with translated(self._folder):
                self._db = self._thread.submit(_open, file, prepare, alone).result()
        except BaseException:
            self._thread.shutdown()
            raise
        self._identity = _identity(file) if alone else None

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
                # Otherwise no one would learn that writes were undone.
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
            result = work(db)
            if self._chained is not None:
                link(db, self._chained)
            if self.is_taken_over():
                raise TakenOverError(
                    f"another process has taken {self._folder} over while this one had stopped or "
                    "was cut off; it goes on there, and nothing more is written here"
                )
            db.execute("COMMIT")
            return result

        return self.run(task)

    def is_taken_over(self) -> bool:
        """Return whether another file has the name of the one that is written."""
        return self._identity is not None and _identity(self._file) != self._identity

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


def _identity(file: Path) -> tuple[int, int] | None:
    """Return what tells a file from others of its name, earlier and later ones.

    The file is not opened: closing it again would release the locks that SQLite has on it.
    """
    try:
        status = file.stat()
    except FileNotFoundError:
        return None
    return status.st_dev, status.st_ino


def take_over(file: Path, check: Callable[[Path], None]) -> None:
    """Put a copy in the place of a file that a process, which has lost its lock, may still write.

    Where many machines share a disk, a lock can be lost by a process that is only stopped or cut
    off. When it goes on, all that it writes goes to the file that it has open, which has no name
    any more: it can neither mix its rows with those of its successor nor bring back old pages, and
    its next commit is refused.

    Args:
        file: the database; its log is made part of the copy.
        check: refuses a file that is no database of ours.

    Raises:
        StoreError: it is no database of ours, or the copy cannot be written.
    """
    if not file.exists():
        return
    log = Path(f"{file}-wal")
    for left in unfinished_parts(file.parent):  # of a process that was killed in here
        left.unlink()
    with translated(file.parent), atomic_path(file) as part:
        copy_of_log = Path(f"{part}-wal")
        try:
            copyfile(file, part)
            if log.exists():
                copyfile(log, copy_of_log)
            try:
                check(part)
            except StoreError as error:
                error.args = (str(error).replace(str(part), str(file)),)
                raise
            db = sqlite3.connect(part, isolation_level=None)
            try:
                db.execute("PRAGMA locking_mode = EXCLUSIVE")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
            finally:
                db.close()
        finally:
            copy_of_log.unlink(missing_ok=True)
    # A process that is killed here leaves a log whose pages are in the copy already.
    log.unlink(missing_ok=True)


def _open(
    file: Path, prepare: Callable[[sqlite3.Connection], None], alone: bool
) -> sqlite3.Connection:
    # SQLite creates its side files with the mode of the database; leftovers of a killed process
    # keep theirs.
    for side in SIDES:
        if not side or Path(f"{file}{side}").exists():
            create_in_place(Path(f"{file}{side}"))
    is_new = file.stat().st_size == 0
    db = sqlite3.connect(file, isolation_level=None)
    try:
        if alone:
            db.execute("PRAGMA locking_mode = EXCLUSIVE")
        if is_new:
            # A process killed while it turns to WAL would leave a journal, which no one rolls back.
            db.execute("PRAGMA journal_mode = MEMORY")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        prepare(db)
    except BaseException:
        db.close()
        raise
    return db


INQUIRIES = "('asked', 'unanswered')"
"""Verdicts of inquiries and studies; a trial has another one, or none while it runs."""
MAY_END_OTHERWISE = (
    "(verdict IN ('failed', 'unanswered', 'cut_short') "
    "OR json_extract(result, '$.overtime') NOT NULL)"
)
"""Of how a trial ended: whether it may begin again. Of a success, time may have ended the check."""
SIMILARITY = "prompt_similarity"
"""What is found about a trial after it has ended, by its name in the result."""

_CALLS = """
CREATE TEMP VIEW calls AS
SELECT e.trial, e.seq, e.role, e.purpose, e.query, e.call, COALESCE(s.key, e.key) AS key, e.edits,
       e.flags, e.request, e.error, s.trial AS answered_for, s.body, s.seconds, s.tokens_in,
       s.tokens_out
FROM exchanges e LEFT JOIN answers s ON s.id = e.answer
"""
# What counts of an append-only run: views that hide the tables of these names.
_MANIFEST = """
CREATE TEMP VIEW manifest AS SELECT key, value FROM main.manifest
WHERE id IN (SELECT MAX(id) FROM main.manifest GROUP BY key)
"""
_TRIALS = """
CREATE TEMP VIEW trials AS
SELECT t.id, t.trial_id, t.arm, t.item, t.repeat, v.verdict, {result} AS result
FROM main.trials t LEFT JOIN main.verdicts v
ON v.id = (SELECT MAX(id) FROM main.verdicts WHERE trial = t.id)
"""
# The last finding of each name joins the result.
_WITH_FINDINGS = """
CASE WHEN v.verdict IS NULL OR NOT EXISTS (SELECT 1 FROM main.findings WHERE trial = t.id)
THEN v.result ELSE json_patch(v.result, (
    SELECT json_group_object(name, json(value)) FROM main.findings WHERE id IN (
        SELECT MAX(id) FROM main.findings WHERE trial = t.id GROUP BY name)))
END
"""
_EXCHANGES = """
CREATE TEMP VIEW exchanges AS
SELECT e.trial, e.attempt, e.seq, e.role, e.purpose, e.query, e.call, e.answer, e.key, e.edits,
       e.flags, e.request, e.error
FROM main.exchanges e WHERE e.attempt = (
    SELECT COUNT(*) FROM main.verdicts v WHERE v.trial = e.trial AND v.verdict IS NULL)
"""
# Joined, not looked up item by item: `renewals` has no index.
_ITEMS = """
CREATE TEMP VIEW items AS
SELECT i.id, i.dataset, i.item_id, i.hash, COALESCE(r.body, i.body) AS body FROM main.items i
LEFT JOIN (SELECT item, MAX(id) AS id FROM main.renewals GROUP BY item) last ON last.item = i.id
LEFT JOIN main.renewals r ON r.id = last.id
"""
VIEWS = ("calls", "manifest", "trials", "exchanges", "items")
"""The views that `make_views` may make."""


def make_views(db: sqlite3.Connection) -> None:
    """Create the temporary views that readers query, or make them again.

    `calls` are exchanges with their keys and answers; `manifest`, `trials`, `exchanges` and `items`
    show what counts.
    """
    for name in VIEWS:
        db.execute(f"DROP VIEW IF EXISTS temp.{name}")
    db.execute(_MANIFEST)
    # What most runs do not have costs nothing there.
    (has_findings, has_begun_again, has_renewals) = db.execute(
        "SELECT EXISTS (SELECT 1 FROM main.findings), "
        "EXISTS (SELECT 1 FROM main.verdicts WHERE verdict IS NULL), "
        "EXISTS (SELECT 1 FROM main.renewals)"
    ).fetchone()
    db.execute(_TRIALS.format(result=_WITH_FINDINGS if has_findings else "v.result"))
    if has_begun_again:
        db.execute(_EXCHANGES)
    if has_renewals:
        db.execute(_ITEMS)
    db.execute(_CALLS)
