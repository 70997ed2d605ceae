"""Answers that runs share: one file, safe to use from several processes and machines in turn.

An entry is found by the content of its call alone (model identity, call, sample index), so it
depends on no order, batch or machine. Failures are never kept. Every entry carries a digest of
itself; one that does not match is never served, and the call is made again.
"""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from medstress.calls import Answer, ModelIdentity
from medstress.errors import StoreError
from medstress.hashing import digest
from medstress.paths import cache_dir
from medstress.store.codec import decode_answer, encode_answer
from medstress.writing import PlaceTaken, make_folder, take_place

FILE = "answers.sqlite"
FORMAT = 1
DEFAULT = "default"
"""Names the folder `answers` in the user's cache folder."""
_FLUSH = 256
_FLUSH_SECONDS = 2.0
_BUSY_SECONDS = 60.0
_PART = 10_000
_SCHEMA = """
CREATE TABLE answers (
    key BLOB PRIMARY KEY, model TEXT NOT NULL, model_hash TEXT NOT NULL, body TEXT NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL, seconds REAL NOT NULL,
    stored INTEGER NOT NULL, check_value BLOB NOT NULL) WITHOUT ROWID;
"""
_FILES = """
CREATE TABLE IF NOT EXISTS files (
    model_hash TEXT PRIMARY KEY, file TEXT NOT NULL, text_hash TEXT) WITHOUT ROWID;
"""
"""Where functions lie that are known by name and version; caches of before have no such table."""
_ROW = "key, model, model_hash, body, tokens_in, tokens_out, check_value"


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelEntries:
    """What the cache holds of one model."""

    model: str
    """Its name."""
    model_hash: str
    """Its identity."""
    n: int
    """Answers."""
    n_tokens: int
    """Tokens that they took."""
    seconds_per_call: float
    """Mean time that a worker was busy with one."""


class SharedCache:
    """A folder of answers; what is kept is written now and then, and when it is closed."""

    def __init__(self, folder: Path, *, create: bool = True) -> None:
        """Open the folder's cache, or begin one.

        Raises:
            StoreError: it cannot be opened, or is no cache.
        """
        self.folder = folder
        self._path = folder / FILE
        self._waiting: list[tuple[object, ...]] = []
        self._flushed = time.monotonic()
        self.n_bad = 0
        if not create and not self._path.is_file():
            raise StoreError(f"there is no answer cache in {folder} (no {FILE})")
        with self._translated():
            make_folder(folder)
            take_place(self._path, None)
            # Closed by whoever waits for the threads' answers: one thread at a time uses it.
            self._db = sqlite3.connect(self._path, timeout=_BUSY_SECONDS, isolation_level=None)
        try:
            with self._translated():
                self._prepare()
        except BaseException:
            self._db.close()
            raise

    def _prepare(self) -> None:
        # No write-ahead log: its files need memory that processes share, which network disks do
        # not give, and whoever opens or closes it beside others is refused without waiting.
        # Another process may be about to begin the same file.
        self._db.execute("BEGIN IMMEDIATE")
        known = self._db.execute("PRAGMA user_version").fetchone()[0]
        if known == 0:
            self._db.execute(_SCHEMA)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")
        if known in (0, FORMAT):
            self._db.execute(_FILES)
        self._db.execute("COMMIT")
        if known not in (0, FORMAT):
            raise StoreError(
                f"{self._path} is a cache of format {known}, this medstress reads {FORMAT}"
            )

    def close(self) -> None:
        """Write what waits and close the file."""
        try:
            self.flush()
        finally:
            self._db.close()

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Kept answers of those keys that have one; damaged ones are counted and left out."""
        marks = ",".join("?" * len(keys))
        found: dict[bytes, Answer] = {}
        with self._translated():
            rows = self._db.execute(
                f"SELECT {_ROW} FROM answers WHERE key IN ({marks})", list(keys)
            ).fetchall()
        for row in rows:
            if _is_sound(row):
                found[row[0]] = decode_answer(row[3], row[4], row[5])
            else:
                self.n_bad += 1
        return found

    def missing(self, keys: Sequence[bytes]) -> list[bytes]:
        """Those keys that have no entry."""
        marks = ",".join("?" * len(keys))
        with self._translated():
            rows = self._db.execute(f"SELECT key FROM answers WHERE key IN ({marks})", list(keys))
            known = {key for (key,) in rows}
        return [key for key in keys if key not in known]

    def keep(self, model: ModelIdentity, answers: Mapping[bytes, Answer], seconds: float) -> None:
        """Keep computed answers of a model, each of which took so long; written soon."""
        now = int(time.time())
        for key, answer in answers.items():
            told = (model.name, model.hash, encode_answer(answer))
            tokens = (answer.tokens_in, answer.tokens_out)
            value = _check_value(key, *told, *tokens)
            self._waiting.append((key, *told, *tokens, seconds, now, value))
        late = time.monotonic() - self._flushed > _FLUSH_SECONDS
        if len(self._waiting) >= _FLUSH or late:
            self.flush()

    def file_of(self, model_hash: str) -> tuple[Path, str | None] | None:
        """The file of the function that an identity stands for, and its hash, as last used."""
        query = "SELECT file, text_hash FROM files WHERE model_hash = ?"
        with self._translated():
            row = self._db.execute(query, (model_hash,)).fetchone()
        return None if row is None else (Path(row[0]), row[1])

    def keep_file(self, model_hash: str, file: Path, text_hash: str | None) -> None:
        """Note where the function lies that an identity stands for, and what it is."""
        with self._translated():
            query = "INSERT OR REPLACE INTO files VALUES (?, ?, ?)"
            self._db.execute(query, (model_hash, str(file), text_hash))

    def flush(self) -> None:
        """Write what waits; a damaged entry is replaced, a sound one of another process too,
        by an answer to the same call."""
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
        """What is held, by model; the most first."""
        with self._translated():
            rows = self._db.execute(
                "SELECT model, model_hash, COUNT(*), TOTAL(tokens_in + tokens_out), AVG(seconds) "
                "FROM answers GROUP BY model, model_hash ORDER BY COUNT(*) DESC, model"
            ).fetchall()
        return [
            ModelEntries(
                model=model, model_hash=known, n=n, n_tokens=int(tokens), seconds_per_call=mean
            )
            for model, known, n, tokens, mean in rows
        ]

    def n_bytes(self) -> int:
        """Size of its files."""
        return sum(path.stat().st_size for path in self.folder.glob(f"{FILE}*"))

    def damaged(self) -> list[bytes]:
        """Keys of all entries whose digest does not match."""
        bad: list[bytes] = []
        last = b""
        # In parts, between which other processes may write.
        part = f"SELECT {_ROW} FROM answers WHERE key > ? ORDER BY key LIMIT {_PART}"
        while True:
            with self._translated():
                rows = self._db.execute(part, (last,)).fetchall()
            if not rows:
                return bad
            bad += [row[0] for row in rows if not _is_sound(row)]
            last = rows[-1][0]

    def chosen(self, *, older_than_days: float | None, model: str | None) -> list[bytes]:
        """Keys of the entries that are older and of the model (name or hash), where given."""
        wanted, values = ["1"], list[object]()
        if older_than_days is not None:
            wanted.append("stored < ?")
            values.append(time.time() - older_than_days * 86_400)
        if model is not None:
            wanted.append("? IN (model, model_hash)")
            values.append(model)
        with self._translated():
            rows = self._db.execute(f"SELECT key FROM answers WHERE {' AND '.join(wanted)}", values)
            return [key for (key,) in rows]

    def remove(self, keys: Sequence[bytes]) -> None:
        """Remove entries and give their space back."""
        with self._translated():
            self._db.execute("BEGIN IMMEDIATE")
            self._db.executemany("DELETE FROM answers WHERE key = ?", [(key,) for key in keys])
            self._db.execute("COMMIT")
            self._db.execute("VACUUM")

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Turn SQLite's and the system's errors into one sentence."""
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
                hint = f"the file is damaged: remove {self._path}, its answers are only copies"
            raise StoreError(f"the answer cache in {self.folder}: {error}; {hint}") from error


def cache_folder(given: str, base: Path) -> Path:
    """The folder that `cache = ...` means: `default`, or a path that starts from `base`."""
    return cache_dir("answers") if given == DEFAULT else base / Path(given).expanduser()


@contextmanager
def open_shared(given: str | None, base: Path) -> Iterator[SharedCache | None]:
    """The cache that `cache = ...` names, open; None where nothing is named."""
    if given is None:
        yield None
        return
    with closing(SharedCache(cache_folder(given, base))) as cache:
        yield cache


def _check_value(*parts: object) -> bytes:
    return digest([part.hex() if isinstance(part, bytes) else part for part in parts])


def _is_sound(row: Sequence[object]) -> bool:
    return _check_value(*row[:-1]) == row[-1]
