"""A run's database from a stranger: refused where it is not what medstress makes."""

from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest

from medstress.core.errors import StoreError
from medstress.store import opening
from medstress.store.opening import open_for_reading
from medstress.store.reader import RunReader
from medstress.store.run_store import FILE, RunStore

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
        "'t2'|'trials'",
    ),
    "only a view": (
        "DROP TABLE interrupted; CREATE VIEW interrupted AS SELECT x'00' AS key, 1 AS trial;",
        "'interrupted' is a view, expected a table",
    ),
    "a recursive view": (
        f"DROP TABLE interrupted; CREATE VIEW interrupted AS {RECURSIVE};",
        "'interrupted' is a view",
    ),
    "a trigger": (
        "CREATE TRIGGER x AFTER INSERT ON trials BEGIN DELETE FROM manifest; END;",
        "unknown trigger 'x'",
    ),
    "an unknown table": ("CREATE TABLE more (x);", "unknown table 'more'"),
    "a virtual table": ("CREATE VIRTUAL TABLE v USING fts5(x);", "unknown (virtual )?table"),
    "another column": ("ALTER TABLE trials ADD COLUMN more;", "'trials' has other columns"),
    "a missing table": ("DROP TABLE interrupted;", "'interrupted' is missing"),
    "a format of later": ("PRAGMA user_version = 99;", "format 99"),
    "a format of earlier": ("PRAGMA user_version = 2;", "a run of format 2"),
    "a text for a number": ("UPDATE trials SET repeat = 'x';", "table trials, row 1: .*repeat"),
    "a blob for a text": ("UPDATE arms SET spec = zeroblob(9);", "table arms, row 1: .*spec"),
    "a number that is not finite": ("UPDATE answers SET seconds = 9e999;", "seconds"),
    "a trial of no arm": (
        "PRAGMA foreign_keys = OFF; UPDATE trials SET arm = 7;",
        "table trials, row 1: expected a row of arms that it refers to, found none",
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
    RunStore(tmp_path).close()


def test_a_truncated_or_overwritten_file_is_named(folder, said):
    whole = (folder / FILE).read_bytes()
    for data in (whole[: len(whole) // 2], whole[:8192] + b"\xff" * 4096 + whole[12288:]):
        (folder / FILE).write_bytes(data)
        with pytest.raises(StoreError) as caught:
            RunReader(folder)
        said(str(caught.value))


def test_reading_leaves_no_file_behind(folder):
    before = sorted(path.name for path in folder.iterdir())
    RunReader(folder).close()
    assert sorted(path.name for path in folder.iterdir()) == before


def test_temporary_tables_of_a_large_run_are_no_memory(folder, monkeypatch):
    def read():
        opened = open_for_reading(folder / FILE)
        with closing(opened.db) as db:
            kept = db.execute("PRAGMA temp_store").fetchone()
        reader = RunReader(folder)
        try:
            return kept, list(reader.trials())
        finally:
            reader.close()

    small = read()
    monkeypatch.setattr(opening, "_IN_MEMORY", 0)
    large = read()
    assert (small[0], large[0]) == ((2,), (1,))
    assert small[1] == large[1]


def test_a_link_in_the_place_of_the_log_is_refused(folder, tmp_path):
    (folder / f"{FILE}-wal").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="is not a regular file"):
        RunReader(folder)
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    "query",
    [RECURSIVE, "SELECT load_extension('x')", "ATTACH 'x' AS y", "PRAGMA query_only = OFF",
     "SELECT * FROM sqlite_temp_master", "DELETE FROM trials", "CREATE TEMP TABLE z (x)"],
)  # fmt: skip
def test_a_reader_can_ask_nothing_but_the_known_tables(folder, query):
    reader = RunReader(folder)
    try:
        with pytest.raises(sqlite3.Error):
            reader._db.execute(query).fetchone()
    finally:
        reader.close()


def test_a_query_without_an_end_is_stopped(folder):
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
