"""A run's database from a stranger: refused where it is not what medstress makes."""

from __future__ import annotations

import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import time
from contextlib import closing

import pytest

from medstress.core.errors import StoreError
from medstress.store.chain import RUN_CHAIN, first_break
from medstress.store.database import FILE
from medstress.store.opening import ChainError, NeverBeganError, open_for_reading
from medstress.store.reader import RunReader, read, stored_manifest
from medstress.store.run_store import RunStore
from medstress.store.whole_check import check_whole

RECURSIVE = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT x FROM c"


@pytest.fixture
def folder(writer):
    """A small finished run, closed."""
    writer.store.write_manifest({"complete": True})
    writer.trial("one")
    writer.answer("a")
    writer.consume(1, 0, 1, "a")
    writer.finish(1)
    writer.close()
    return writer.folder


def change(folder, script):
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as db:
        db.executescript(script)


ALTERED = {
    "a view in the place of a table": (
        "ALTER TABLE trials RENAME TO t2; CREATE VIEW trials AS SELECT * FROM t2;",
        "is not as medstress makes it",
    ),
    "a recursive view": (
        f"DROP TABLE interrupted; CREATE VIEW interrupted AS {RECURSIVE};",
        "'interrupted'",
    ),
    "a trigger": (
        "CREATE TRIGGER x AFTER INSERT ON trials BEGIN DELETE FROM manifest; END;",
        "trigger 'x'",
    ),
    "an unknown table": ("CREATE TABLE more (x);", "table 'more'"),
    "a virtual table": ("CREATE VIRTUAL TABLE v USING fts5(x);", "table 'v"),
    "another column": ("ALTER TABLE trials ADD COLUMN more;", "'trials'"),
    "a missing table": ("DROP TABLE interrupted;", "'interrupted'"),
    "a format of later": ("PRAGMA user_version = 99;", "format 99"),
    "a format of earlier": ("PRAGMA user_version = 3;", "a run of format 3"),
    "a text for a number": ("UPDATE trials SET repeat = 'x';", "table trials holds"),
    "a blob for a text": ("UPDATE arms SET spec = zeroblob(9);", "table arms holds"),
    "a number that is not finite": ("UPDATE answers SET seconds = 9e999;", "table answers holds"),
    "a trial of no arm": (
        "PRAGMA foreign_keys = OFF; UPDATE trials SET arm = 7;",
        "not as medstress wrote it: table verdicts, row 1: expected digest",
    ),
}


@pytest.mark.parametrize("name", ALTERED)
@pytest.mark.parametrize("opens", [RunReader, RunStore])
def test_an_altered_run_is_refused_by_name_and_left_as_it_is(folder, name, opens):
    script, said = ALTERED[name]
    change(folder, script)
    before = (folder / FILE).read_bytes()
    with pytest.raises(StoreError, match=said):
        opens(folder)
    assert (folder / FILE).read_bytes() == before


@pytest.mark.parametrize("opens", [RunReader, RunStore])
def test_a_database_of_another_programme_is_refused_and_left_as_it_is(tmp_path, opens):
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.execute("CREATE TABLE contacts (name)")
        db.commit()
    before = (tmp_path / FILE).read_bytes()
    with pytest.raises(StoreError, match="medstress did not make"):
        opens(tmp_path)
    assert (tmp_path / FILE).read_bytes() == before


def test_an_empty_file_is_a_run_that_was_never_started(tmp_path):
    (tmp_path / FILE).touch()
    with pytest.raises(StoreError, match="was never started"):
        RunReader(tmp_path)
    assert stored_manifest(tmp_path) == {}
    RunStore(tmp_path).close()


def test_a_truncated_or_overwritten_file_is_named(folder, said):
    whole = (folder / FILE).read_bytes()
    for data in (whole[: len(whole) // 2], whole[:8192] + b"\xff" * 4096 + whole[12288:]):
        (folder / FILE).write_bytes(data)
        with pytest.raises(StoreError) as caught:
            RunReader(folder)
        said(str(caught.value))


def make_index(folder, name, sql):
    """Give an index other rows than those of its table, under the statement that it had."""
    rename = "UPDATE sqlite_master SET sql = ? WHERE name = ?"
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as db:
        (own,) = db.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
        db.execute("PRAGMA writable_schema = ON")
        db.execute(rename, (sql, name))
    with closing(sqlite3.connect(folder / FILE, isolation_level=None)) as db:
        db.execute(f"REINDEX {name}")
        db.execute("PRAGMA writable_schema = ON")
        db.execute(rename, (own, name))


INDEXES = {
    "without a row": "CREATE INDEX ended ON verdicts (trial) WHERE trial > 1",
    "with a row under another trial": "CREATE INDEX ended ON verdicts (trial + 1)",
}


@pytest.mark.parametrize("name", INDEXES)
@pytest.mark.parametrize("opens", [RunReader, RunStore])
def test_an_index_that_is_not_of_its_table_is_refused(folder, name, opens):
    """No digest covers it, and readers find the verdicts of trials by it."""
    make_index(folder, "ended", INDEXES[name])
    with closing(sqlite3.connect(folder / FILE)) as db:
        assert db.execute("PRAGMA quick_check").fetchone() == ("ok",)
    with pytest.raises(StoreError, match=r"is not a readable run: .* ended"):
        opens(folder)


def test_the_chain_counts_the_rows_of_tables_not_those_of_indexes(folder):
    make_index(folder, "ended", INDEXES["without a row"])
    with closing(sqlite3.connect(folder / FILE)) as db:
        assert first_break(db, RUN_CHAIN, whole=True) is None


def state(folder):
    """Everything of a folder that reading could change."""
    return {
        path.name: (path.lstat().st_mtime_ns, path.lstat().st_ino, path.read_bytes())
        for path in folder.iterdir()
    } | {".": folder.stat().st_mtime_ns}


@pytest.mark.parametrize("sides", [("-wal", "-shm"), ("-wal",)], ids=str)
def test_reading_what_a_killed_process_left_changes_nothing(writer, tmp_path, sides):
    writer.trial("one")
    writer.finish(1)
    copy = tmp_path / "copy"
    copy.mkdir()
    for ending in ("", *sides):
        shutil.copy(writer.folder / f"{FILE}{ending}", copy)
    before = state(copy)
    assert read(copy, RunReader.n_trials) == 1
    assert state(copy) == before


def test_a_log_without_a_change_is_left_as_it_is(writer, tmp_path):
    """Planted: SQLite, which locks nothing here, deletes each of these when it is closed."""
    writer.trial("one")
    writer.finish(1)
    genuine = (writer.folder / f"{FILE}-wal").read_bytes()
    assert int.from_bytes(genuine[36:40]) == 0, "the first frame is not that of a whole commit"
    writer.close()
    for name, log in {
        "zeros": bytes(100_000),
        "another magic number": b"0" + genuine[1:],
        "a header": genuine[:32],
        "a header that was changed": genuine[:12] + b"0" + genuine[13:],
        "a header and zeros": genuine[:32] + bytes(100_000),
        "a frame": genuine[: 32 + 24 + 4096],
        "a frame and no page": genuine[:32] + bytes(8) + genuine[40:],
    }.items():
        (writer.folder / f"{FILE}-wal").write_bytes(log)
        before = state(writer.folder)
        assert read(writer.folder, RunReader.n_trials) == 1, name
        assert state(writer.folder) == before, name
    (writer.folder / FILE).write_bytes(b"")
    (writer.folder / f"{FILE}-wal").write_bytes(genuine)
    before = state(writer.folder)
    with pytest.raises(NeverBeganError):
        RunReader(writer.folder)
    assert state(writer.folder) == before


def test_a_giant_log_costs_nothing(folder):
    log = folder / f"{FILE}-wal"
    log.touch()
    os.truncate(log, 3 << 30)
    started = time.process_time()
    assert read(folder, RunReader.n_trials) == 1
    assert time.process_time() - started < 2
    assert log.stat().st_size == 3 << 30


ODD = {
    "link": lambda path, outside: path.symlink_to(outside),
    "pipe": lambda path, outside: os.mkfifo(path),
    "device": lambda path, outside: os.mknod(path, stat.S_IFCHR | 0o600, os.makedev(1, 5)),
    "folder": lambda path, outside: path.mkdir(),
}


@pytest.mark.parametrize("what", ODD)
@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
def test_what_is_no_file_is_neither_followed_nor_opened(folder, tmp_path, what, ending):
    outside = tmp_path / "outside"
    shutil.copy(folder / FILE, outside)
    place = folder / f"{FILE}{ending}"
    place.unlink(missing_ok=True)
    try:
        ODD[what](place, outside)
    except PermissionError:
        pytest.skip("only root makes devices")
    with pytest.raises(StoreError, match="a link" if what == "link" else "not a regular file"):
        RunReader(folder)


def test_a_folder_that_is_a_link_is_refused(folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    with pytest.raises(StoreError, match="is a link"):
        RunReader(tmp_path / "link")


def test_a_folder_without_a_run_is_named_as_a_shell_reads_it(tmp_path):
    odd = tmp_path / "a b$(touch c)"
    with pytest.raises(StoreError) as refused:
        RunReader(odd)
    assert str(refused.value).startswith(f"there is no run in '{odd}' (no run.sqlite)")


def test_a_sparse_giant_is_read_at_the_price_of_what_it_holds(folder):
    os.truncate(folder / FILE, 1 << 40)
    started = time.process_time()
    assert read(folder, RunReader.n_trials) == 1  # its header says where it ends
    assert time.process_time() - started < 2


@pytest.mark.parametrize(
    "query", ["SELECT load_extension('x')", "ATTACH 'x' AS y", "DELETE FROM trials"]
)
def test_a_reader_writes_nothing_and_opens_no_other_file(folder, query):
    with closing(RunReader(folder)) as reader, pytest.raises(sqlite3.Error):
        reader.db.execute(query).fetchone()


def test_a_file_that_was_checked_and_changed_is_checked_again(folder):
    assert read(folder, RunReader.n_trials) == 1
    change(folder, "UPDATE verdicts SET verdict = 'flipped'")
    with pytest.raises(ChainError):
        RunReader(folder)


def test_criteria_that_came_after_answers_are_named(writer):
    writer.store.write_manifest({"name": "x"})
    writer.trial("one")
    writer.answer("a")
    writer.store.write_manifest({"require": {"hash": "h"}})
    writer.close()
    expected = "criteria before the first answer, found 1 answers before them"
    assert str(check_whole(writer.folder).broken).endswith(expected)


def test_a_query_without_an_end_is_stopped(folder, monkeypatch):
    monkeypatch.setattr("medstress.store.opening._WORK_AT_LEAST", 500_000)
    opened = open_for_reading(folder / FILE)
    with closing(opened.db) as db, pytest.raises(sqlite3.OperationalError, match="interrupted"):
        db.execute(f"SELECT COUNT(*) FROM ({RECURSIVE})").fetchone()


COUNT = (
    "import sys; from pathlib import Path; from medstress.store.reader import RunReader; "
    "r = RunReader(Path(sys.argv[1])); print(r.n_trials()); r.close()"
)


@pytest.mark.parametrize("with_index", [False, True])
def test_what_a_log_holds_is_read_on_read_only_media(writer, tmp_path, with_index):
    writer.trial("one")
    writer.finish(1)
    copy = tmp_path / "copy"
    copy.mkdir()
    for ending in ("", "-wal", "-shm") if with_index else ("", "-wal"):
        shutil.copy(writer.folder / f"{FILE}{ending}", copy)
    bound = f"mount --bind '{copy}' '{copy}' && mount -o remount,ro,bind '{copy}'"
    tried = ["unshare", "-rm", "sh", "-c", f"{bound} && ! touch '{copy}/x' 2>/dev/null"]
    if shutil.which("unshare") is None or subprocess.run(tried, check=False).returncode:
        pytest.skip("needs a mount that is read-only: no namespaces of mounts here")
    ask = ["unshare", "-rm", "sh", "-c", f'{bound} && exec "$0" -c "$1" "$2"']
    told = subprocess.run(
        [*ask, sys.executable, COUNT, str(copy)], capture_output=True, text=True, check=False
    )
    assert (told.stdout, told.returncode) == ("1\n", 0), told.stderr
