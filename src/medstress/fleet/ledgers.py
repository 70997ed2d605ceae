"""Ledgers on their way: a consistent copy of a run's file, and the stores that copies travel to.

A ledger is put under a name that was never used before, and only then made a shard's newest by a
commit of its lease. A store therefore needs no locks, and a ledger that was cut off is never read.
"""

from __future__ import annotations

import hashlib
import sqlite3
from contextlib import closing
from importlib import import_module
from pathlib import Path
from secrets import token_hex
from typing import Any, Protocol

from medstress.core.errors import StoreError, reason
from medstress.files.extras import importing
from medstress.files.writing import DATABASE, Access, make_folder, write_bytes

_COPY = "ledger.part"


def copy_of(folder: Path) -> bytes:
    """Return the file of a run as it was at its last commit, while it may be written.

    SQLite's own backup reads it in one transaction; the copy stands in the folder for a moment.
    """
    copy = folder / _COPY
    copy.unlink(missing_ok=True)
    try:
        with (
            closing(sqlite3.connect(f"{(folder / DATABASE).as_uri()}?mode=ro", uri=True)) as db,
            closing(sqlite3.connect(copy)) as into,
        ):
            db.backup(into)
        return copy.read_bytes()
    finally:
        copy.unlink(missing_ok=True)


def digest_of(ledger: bytes) -> str:
    """Return the digest of a ledger, in hex."""
    return hashlib.blake2b(ledger, digest_size=16).hexdigest()


def checked(ledger: bytes, digest: str, name: str) -> bytes:
    """Return a ledger that came from a store.

    Raises:
        StoreError: it is another than was put there.
    """
    if digest_of(ledger) != digest:
        raise StoreError(
            f"the ledger {name} is not what was stored under that name; restore it, or begin "
            "again in another folder with --out"
        )
    return ledger


class Store(Protocol):
    """Where ledgers are kept."""

    def put(self, name: str, ledger: bytes) -> None:
        """Keep a ledger under a new name."""

    def get(self, name: str) -> bytes:
        """Return the ledger of that name."""

    def remove(self, name: str) -> None:
        """Forget a ledger, if it is there."""


class FolderStore:
    """A folder of this machine, or one that several machines share."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, name: str, ledger: bytes) -> None:
        """See `Store`; a temporary file is synced and renamed."""
        file = self._folder / name
        make_folder(file.parent, Access.OWNER)
        write_bytes(file, ledger, Access.OWNER)

    def get(self, name: str) -> bytes:
        """See `Store`."""
        return (self._folder / name).read_bytes()

    def remove(self, name: str) -> None:
        """See `Store`."""
        (self._folder / name).unlink(missing_ok=True)


class RemoteStore:
    """A place that fsspec knows: `s3://bucket/run`, `gs://...`, `sftp://...`, `memory://...`."""

    def __init__(self, url: str) -> None:
        with importing(f"--store {url}: the package fsspec", "ray"):
            url_to_fs: Any = import_module("fsspec").core.url_to_fs
        try:
            self._files, self._root = url_to_fs(url)
        except (ValueError, ImportError, OSError) as error:
            raise StoreError(f"--store {url}: it cannot be opened: {reason(error)}") from error

    def put(self, name: str, ledger: bytes) -> None:
        """See `Store`."""
        path = f"{self._root}/{name}"
        self._files.makedirs(path.rpartition("/")[0], exist_ok=True)
        self._files.pipe_file(path, ledger)

    def get(self, name: str) -> bytes:
        """See `Store`."""
        found: bytes = self._files.cat_file(f"{self._root}/{name}")
        return found

    def remove(self, name: str) -> None:
        """See `Store`."""
        try:
            self._files.rm_file(f"{self._root}/{name}")
        except FileNotFoundError:
            return


def check_store(place: str) -> None:
    """Put a few bytes into a store, and take them out again.

    Raises:
        StoreError: it cannot be done.
    """
    store, name = store_at(place), f"check-{token_hex(6)}"
    try:
        store.put(name, b"medstress")
        store.remove(name)
    except Exception as error:
        told = f"--store {place}: no ledger can be written there: {reason(error)}"
        raise StoreError(told) from error


def store_at(place: str) -> Store:
    """Return the store at a URL, or in a folder that all machines see."""
    return RemoteStore(place) if "://" in place else FolderStore(Path(place))
