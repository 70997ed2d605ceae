"""Answers that runs share: one file, usable from several processes, and from machines in turn.

The file is a stranger's data, as a run's database is: it and its journal are regular files, its
schema is ours, and no text of it is executed. Whoever can write it can answer for any model.

The key of an entry is the content of its call (model identity, call, sample index), so it depends
on no order, batch or machine. Failures are never kept. Every entry carries a digest of itself; an
entry whose digest does not match is never served, and the call is made again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from os import SEEK_END
from pathlib import Path
from typing import Any

from medstress.core.calls import Answer, ModelIdentity
from medstress.core.errors import StoreError
from medstress.core.hashing import digest
from medstress.core.reading import check_regular
from medstress.core.writing import PlaceTaken, cache_dir, create_in_place, make_folder
from medstress.store.codec import decode_answer, encode_answer
from medstress.store.database import SIDES
from medstress.store.opening import Schema, harden, make_schema

FILE = "answers.sqlite"
DEFAULT = "default"
"""Name of the folder `answers` in the user's cache folder."""
_FLUSH = 256
_FLUSH_SECONDS = 2.0
_BUSY_SECONDS = 60.0
_PART = 10_000
CACHE = Schema(
    holds="a cache of answers",
    format=2,
    script="cache.sql",
    elsewhere="choose another folder in `cache`",
)
_NAMES_ANOTHER = bytes.fromhex("d9d505f920a163d7")
"""The end of a journal that names another file, which SQLite would remove; ours name none."""
_ROW = "key, model, model_hash, body, tokens_in, tokens_out, check_value"


@dataclass(frozen=True, slots=True)
class ModelEntries:
    """What the cache holds for one model."""

    model: str
    """Its name."""
    model_hash: str
    """Its identity."""
    n: int
    """Answers."""
    n_tokens: int
    """Tokens of these answers, read and written."""
    seconds_per_call: float
    """Mean time that a worker spent on one."""


class SharedCache:
    """A folder of answers; new ones are written in batches and on closing."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        """Open the folder's cache, or create one.

        Raises:
            StoreError: it cannot be opened, or is not a cache.
        """
        self.folder = folder
        self._path = folder / FILE
        self._waiting: list[tuple[object, ...]] = []
        self._flushed = time.monotonic()
        if not create and check_regular(self._path) is None:
            raise StoreError(f"there is no answer cache in {folder} (no {FILE})")
        with self._translated():
            _check_sides(self._path)
            make_folder(folder)
            create_in_place(self._path)
            # It may be closed by another thread; only one thread at a time uses it.
            self._db = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            # No write-ahead log: it needs shared memory, which network disks lack, and SQLite
            # refuses a process that opens or closes it while others do, instead of waiting.
            with self._translated():
                harden(self._db)
                make_schema(self._db, self._path, CACHE)
        except BaseException:
            self._db.close()
            raise

    def close(self) -> None:
        """Write waiting answers and close the file."""
        try:
            self.flush()
        finally:
            self._db.close()

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the kept answers to these keys; damaged ones are left out."""
        marks = ",".join("?" * len(keys))
        query = f"SELECT {_ROW} FROM answers WHERE key IN ({marks})"
        with self._translated():
            rows = self._db.execute(query, list(keys)).fetchall()
        return {row[0]: answer for row in rows if (answer := _answer_of(row)) is not None}

    def keep(self, model: ModelIdentity, answers: Mapping[bytes, Answer], seconds: float) -> None:
        """Keep computed answers of a model for writing; `seconds` is the time per answer."""
        now = int(time.time())
        for key, answer in answers.items():
            tokens = (answer.tokens_in, answer.tokens_out)
            entry = (key, model.name, model.hash, encode_answer(answer), *tokens)
            self._waiting.append((*entry, seconds, now, _check_value(*entry)))
        late = time.monotonic() - self._flushed > _FLUSH_SECONDS
        if len(self._waiting) >= _FLUSH or late:
            self.flush()

    def file_of(self, model_hash: str) -> tuple[Path, str | None] | None:
        """Return the last known file of the function with this identity, and the file's hash."""
        query = "SELECT file, text_hash FROM files WHERE model_hash = ?"
        with self._translated():
            row = self._db.execute(query, (model_hash,)).fetchone()
        return None if row is None else (Path(row[0]), row[1])

    def keep_file(self, model_hash: str, file: Path, text_hash: str | None) -> None:
        """Store the file of the function with this identity, and the file's hash."""
        with self._translated():
            query = "INSERT OR REPLACE INTO files VALUES (?, ?, ?)"
            self._db.execute(query, (model_hash, str(file), text_hash))

    def flush(self) -> None:
        """Write waiting answers; they replace entries of the same calls, damaged or sound."""
        with self._translated():
            if self._waiting:
                self._db.execute("BEGIN IMMEDIATE")
                self._db.executemany(
                    "INSERT OR REPLACE INTO answers VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    self._waiting,
                )
                self._db.execute("COMMIT")
        self._waiting.clear()
        self._flushed = time.monotonic()

    # -- looking after it --------------------------------------------------------------------
    def models(self) -> list[ModelEntries]:
        """Return the entries by model, the largest number first."""
        with self._translated():
            rows = self._db.execute(
                "SELECT model, model_hash, COUNT(*), TOTAL(tokens_in + tokens_out), AVG(seconds) "
                "FROM answers GROUP BY model, model_hash ORDER BY COUNT(*) DESC, model"
            ).fetchall()
        return [
            ModelEntries(model, name, n, int(tokens), mean) for model, name, n, tokens, mean in rows
        ]

    def n_bytes(self) -> int:
        """Return the size of its files."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{FILE}*"))

    def damaged(self) -> list[bytes]:
        """Return the keys of all entries whose digest does not match."""
        bad: list[bytes] = []
        last = b""
        # Page by page, so that other processes can write in between.
        part = f"SELECT {_ROW} FROM answers WHERE key > ? ORDER BY key LIMIT {_PART}"
        while True:
            with self._translated():
                rows = self._db.execute(part, (last,)).fetchall()
            if not rows:
                return bad
            bad += [row[0] for row in rows if _answer_of(row) is None]
            last = rows[-1][0]

    def remove(self, keys: Sequence[bytes]) -> None:
        """Remove entries and free their space."""
        with self._translated():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in keys])
            self._db.execute("COMMIT")
            self._db.execute("VACUUM")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Translate errors of SQLite and the system into a `StoreError` of one sentence."""
        try:
            yield
        except PlaceTaken as error:
            raise StoreError(f"the answer cache {error.filename}: {error.strerror}") from error
        except (sqlite3.Error, OSError) as error:
            if "locked" in str(error):
                hint = "another process holds it; run the same command again"
            elif isinstance(error, sqlite3.OperationalError | OSError):
                hint = "is the folder writable, and the disk not full?"
            else:
                hint = f"the file is damaged: remove {self._path}; it holds only copies of answers"
            raise StoreError(f"the answer cache in {self.folder}: {error}; {hint}") from error


def cache_folder(place: str, base: Path) -> Path:
    """Return the folder that `cache = ...` names: `default`, or a path relative to `base`."""
    return cache_dir("answers") if place == DEFAULT else base / Path(place).expanduser()


@contextmanager
def open_shared(place: str | None, base: Path) -> Iterator[SharedCache | None]:
    """Open the cache that `cache = ...` names; yield None if none is named."""
    if place is None:
        yield None
        return
    with closing(SharedCache(cache_folder(place, base))) as cache:
        yield cache


def _check_value(*parts: object) -> bytes:
    return digest([part.hex() if isinstance(part, bytes) else part for part in parts])


def _answer_of(row: Sequence[Any]) -> Answer | None:
    """Return the answer of an entry; None if its digest does not match or it holds no answer."""
    if _check_value(*row[:-1]) != row[-1]:
        return None
    try:
        return decode_answer(row[3], int(row[4]), int(row[5]))
    except (ValueError, TypeError, LookupError, StoreError):
        return None


def _check_sides(path: Path) -> None:
    """Refuse what SQLite would follow next to the file, and a journal that names another one.

    Raises:
        StoreError: a link, a pipe, a device, or such a journal.
    """
    check_regular(path)
    sizes = {side: check_regular(Path(f"{path}{side}")) for side in SIDES[1:]}
    if sizes["-journal"]:
        journal = Path(f"{path}-journal")
        # Another process may end its change, and remove it, at any moment.
        with suppress(FileNotFoundError), journal.open("rb") as stream:
            stream.seek(max(stream.seek(0, SEEK_END) - len(_NAMES_ANOTHER), 0))
            if stream.read() == _NAMES_ANOTHER:
                raise StoreError(f"{journal} names another file, so medstress did not make it")
