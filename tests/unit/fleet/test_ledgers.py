"""Ledgers that travel: consistent while they are written, whole or refused when they arrive."""

from __future__ import annotations

import io
import sqlite3
import sys
from contextlib import closing

import pytest

from medstress.core.errors import StoreError, UsageError
from medstress.fleet.ledgers import FolderStore, checked, copy_of, digest_of, store_at
from medstress.fleet.messages import read_frame, write_frame


def test_a_copy_holds_what_is_committed_and_nothing_else(tmp_path):
    with closing(sqlite3.connect(tmp_path / "run.sqlite", isolation_level=None)) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("CREATE TABLE answers (id INTEGER)")
        db.execute("INSERT INTO answers VALUES (1)")
        db.execute("BEGIN")
        db.execute("INSERT INTO answers VALUES (2)")
        ledger = copy_of(tmp_path)
        db.execute("COMMIT")
    (tmp_path / "copy.sqlite").write_bytes(ledger)
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as db:
        assert db.execute("SELECT id FROM answers").fetchall() == [(1,)]
    assert not (tmp_path / "ledger.part").exists()


def test_a_folder_that_all_machines_see_is_a_store(tmp_path):
    store = store_at(str(tmp_path / "store"))
    store.put("3/1-a.sqlite", b"ledger")
    assert store.get("3/1-a.sqlite") == b"ledger"
    assert [path.name for path in (tmp_path / "store" / "3").iterdir()] == ["1-a.sqlite"]
    store.remove("3/1-a.sqlite")
    store.remove("3/1-a.sqlite")
    assert list((tmp_path / "store" / "3").iterdir()) == []


def test_so_is_what_fsspec_knows():
    pytest.importorskip("fsspec")
    store = store_at("memory://ledgers/run")
    store.put("3/1-a.sqlite", b"ledger")
    assert store.get("3/1-a.sqlite") == b"ledger"
    store.remove("3/1-a.sqlite")
    store.remove("3/1-a.sqlite")


def test_a_store_nobody_knows_is_refused(said):
    pytest.importorskip("fsspec")
    with pytest.raises(StoreError) as error:
        store_at("nowhere://ledgers")
    said(str(error.value), "nowhere://ledgers")


def test_without_fsspec_the_extra_is_named(monkeypatch, said):
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(UsageError) as error:
        store_at("s3://bucket/run")
    said(str(error.value), "medstress[ray]")


def test_a_ledger_that_was_cut_off_is_refused(tmp_path, said):
    store = FolderStore(tmp_path)
    store.put("a", b"led")
    with pytest.raises(StoreError) as error:
        checked(store.get("a"), digest_of(b"ledger"), "a")
    said(str(error.value), "ledger a")


def test_a_message_cut_off_in_a_pipe_is_none():
    pipe = io.BytesIO()
    write_frame(pipe, b"message")
    whole = pipe.getvalue()
    assert read_frame(io.BytesIO(whole)) == b"message"
    for end in range(len(whole)):
        assert read_frame(io.BytesIO(whole[:end])) is None
