"""One thread that writes: work is done in order, as a whole or not at all."""

from __future__ import annotations

import signal
import sqlite3
import threading
import time
from _thread import interrupt_main
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from medstress.core.errors import StoreError
from medstress.store.database import Database, insert_rows

Opened = Callable[[], Database]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    made: list[Database] = []

    def open_file() -> Database:
        create = "CREATE TABLE IF NOT EXISTS numbers (number INTEGER PRIMARY KEY)"
        made.append(Database(tmp_path / "file", lambda db: db.execute(create)))
        return made[-1]

    yield open_file
    for one in made:
        one.abandon()


def add(number: int) -> Callable[[sqlite3.Connection], object]:
    return lambda db: db.execute("INSERT INTO numbers VALUES (?)", (number,))


def numbers(db: sqlite3.Connection) -> list[int]:
    return [number for (number,) in db.execute("SELECT number FROM numbers ORDER BY number")]


def test_submit_returns_at_once_and_run_waits(opened: Opened) -> None:
    db, gate, threads = opened(), threading.Event(), []
    db.submit(lambda _: gate.wait(60))
    db.submit(add(1))
    db.submit(lambda _: threads.append(threading.current_thread()))
    assert not threads
    gate.set()
    assert db.run(numbers) == [1]
    assert threads[0] is not threading.current_thread()


def test_only_what_was_committed_is_there_afterwards(opened: Opened) -> None:
    db = opened()
    db.submit(add(1))
    db.commit()
    db.submit(add(2))
    db.abandon()
    again = opened()
    assert again.run(numbers) == [1]
    again.submit(add(3))
    again.close()
    assert opened().run(numbers) == [1, 3]


def test_a_write_that_failed_undoes_all_work_since_the_last_commit(opened: Opened, said) -> None:
    db = opened()
    db.submit(add(1))
    db.commit()
    for number in (2, 1, 3):  # the second one is there already
        db.submit(add(number))
    with pytest.raises(StoreError) as caught:
        db.run(numbers)
    said(str(caught.value))
    assert db.run(numbers) == [1]
    db.submit(add(4))
    db.commit()
    assert db.run(numbers) == [1, 4]


def test_an_interrupt_comes_after_what_was_asked_and_never_hides_a_failure(
    opened: Opened, request: pytest.FixtureRequest
) -> None:
    # A shell's background job ignores interrupts, and so would the tests in it.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    db = opened()

    def interrupted(db: sqlite3.Connection) -> None:
        interrupt_main()
        time.sleep(0.2)  # the other thread is told meanwhile
        db.execute("INSERT INTO numbers VALUES (1)")

    with pytest.raises(KeyboardInterrupt):
        db.run(interrupted)
    assert db.run(numbers) == [1]
    with pytest.raises(StoreError, match="UNIQUE") as failure:
        db.run(interrupted)
    assert isinstance(failure.value.__cause__.__cause__, KeyboardInterrupt)  # type: ignore[union-attr]
    assert db.run(numbers) == []


def test_whatever_fails_is_an_error_of_the_store(opened: Opened) -> None:
    db = opened()
    db.submit(add(1))

    def fail(_: sqlite3.Connection) -> None:
        raise MemoryError("so it is")

    db.submit(fail)
    with pytest.raises(StoreError, match="so it is"):
        db.commit()
    assert db.run(numbers) == []


@pytest.mark.parametrize("n", [0, 63, 64, 200])
def test_rows_are_inserted_whatever_their_number(tmp_path: Path, n: int) -> None:
    with closing(sqlite3.connect(tmp_path / "file")) as db:
        db.execute("CREATE TABLE pairs (one INTEGER PRIMARY KEY, two TEXT)")
        db.execute("INSERT INTO pairs VALUES (0, 'first')")
        rows = [(i, str(i)) for i in range(n)]
        insert_rows(db, "pairs (one, two)", rows, or_else="OR IGNORE")
        found = db.execute("SELECT * FROM pairs ORDER BY one").fetchall()
    assert found == [(0, "first"), *rows[1:]]


def test_a_new_file_needs_no_journal_on_disk_that_a_kill_would_leave(
    opened: Opened, tmp_path: Path
) -> None:
    """Such a journal beside a file with content is refused: nobody rolls it back."""
    (tmp_path / "file-journal").symlink_to(tmp_path / "nowhere" / "journal")  # cannot be written
    db = opened()
    db.run(add(1))
    db.commit()
    assert db.run(numbers) == [1]
