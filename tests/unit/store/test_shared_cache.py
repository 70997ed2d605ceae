"""Answers that runs share: kept, found, shared by processes, and never served when damaged."""

from __future__ import annotations

import sqlite3
import struct
import threading
from contextlib import closing

import pytest

from medstress.core.calls import Chosen, Generated, ModelIdentity, Scored
from medstress.core.errors import StoreError
from medstress.core.reading import check_regular
from medstress.store.shared_cache import FILE, SharedCache, _check_value, cache_folder, open_shared

ONE = ModelIdentity(name="one", hash="h1")
TWO = ModelIdentity(name="two", hash="h2")
A, B, C = (letter * 16 for letter in (b"a", b"b", b"c"))
TEXT = Generated(text="yes", tokens_in=7, tokens_out=2)
SCORES = Scored(log_probs=(-0.5, float("-inf")), n_tokens=(1, 1), tokens_in=9)


def damage(folder, column="body", value='["g","no"]'):
    with closing(sqlite3.connect(folder / FILE)) as db, db:
        db.execute(f"UPDATE answers SET {column} = ? WHERE key = ?", (value, A))


def filled(folder):
    cache = SharedCache(folder)
    cache.keep(ONE, {A: TEXT, B: SCORES}, 0.5)
    cache.keep(TWO, {C: Chosen(answer="B")}, 0.25)
    cache.flush()
    return cache


def test_what_is_kept_is_found_by_another_process_without_loss(tmp_path):
    filled(tmp_path).close()
    with closing(SharedCache(tmp_path)) as cache:
        assert cache.lookup([A, B, C, b"d" * 16]) == {A: TEXT, B: SCORES, C: Chosen(answer="B")}
        assert [(m.model, m.n, m.n_tokens, m.seconds_per_call) for m in cache.models()] == [
            ("one", 2, 18, 0.5),
            ("two", 1, 0, 0.25),
        ]


@pytest.mark.parametrize(
    ("column", "value"),
    [("body", '["g","no"]'), ("tokens_in", 1), ("model", "x"), ("check_value", b"0")],
)
def test_a_damaged_entry_is_never_served_and_mended_by_the_next_answer(tmp_path, column, value):
    cache = filled(tmp_path)
    damage(tmp_path, column, value)
    assert cache.lookup([A, B]) == {B: SCORES}
    assert cache.damaged() == [A]
    cache.keep(ONE, {A: TEXT}, 0.5)
    cache.flush()
    assert cache.lookup([A]) == {A: TEXT}
    assert cache.damaged() == []
    cache.close()


def test_an_entry_under_another_key_is_damaged(tmp_path):
    cache = filled(tmp_path)
    damage(tmp_path, "key", b"z" * 16)
    assert cache.lookup([b"z" * 16]) == {}
    cache.close()


def test_entries_are_removed(tmp_path):
    cache = filled(tmp_path)
    cache.remove([A, C])
    assert cache.lookup([A, B, C]) == {B: SCORES}
    cache.close()


def test_processes_may_write_at_the_same_time(tmp_path):
    """Connections of their own, as processes have, that come and go beside each other."""

    def work(number):
        for i in range(20):
            with closing(SharedCache(tmp_path)) as cache:
                cache.keep(ONE, {bytes([number, i]) * 8: TEXT}, 0.1)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with closing(SharedCache(tmp_path)) as cache:
        assert [m.n for m in cache.models()] == [80]
        assert cache.damaged() == []


@pytest.mark.parametrize("left", [None, b"", b"x"])
def test_a_journal_that_another_process_just_ended_is_no_fault(tmp_path, monkeypatch, left):
    filled(tmp_path).close()
    journal = tmp_path / f"{FILE}-journal"

    def seen_before(path):
        is_journal = path == journal
        if is_journal and left is not None:
            journal.write_bytes(left)
        return 4096 if is_journal else check_regular(path)

    monkeypatch.setattr("medstress.store.shared_cache.check_regular", seen_before)
    with closing(SharedCache(tmp_path)) as cache:
        assert cache.lookup([A])


def test_what_is_no_cache_is_told_in_one_sentence(tmp_path, said):
    with pytest.raises(StoreError) as caught:
        SharedCache(tmp_path, create=False)
    said(str(caught.value))
    (tmp_path / FILE).write_bytes(b"this is no database at all" * 200)
    with pytest.raises(StoreError) as caught:
        SharedCache(tmp_path)
    said(str(caught.value), "not a database; the file is damaged")


def test_a_cache_that_holds_more_than_answers_is_refused(tmp_path):
    filled(tmp_path).close()
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        db.executescript("CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM answers; END")
    with pytest.raises(StoreError, match="is not as medstress makes it"):
        SharedCache(tmp_path)


@pytest.mark.parametrize("ending", ["", "-journal", "-wal"])
def test_no_link_is_followed(tmp_path, ending):
    filled(tmp_path).close()
    (tmp_path / FILE).rename(tmp_path / "elsewhere")
    if ending:
        (tmp_path / "elsewhere").rename(tmp_path / FILE)
        (tmp_path / "elsewhere").write_bytes(b"mine")
    (tmp_path / f"{FILE}{ending}").symlink_to(tmp_path / "elsewhere")
    before = (tmp_path / "elsewhere").read_bytes()
    with pytest.raises(StoreError, match="link"):
        SharedCache(tmp_path)
    assert (tmp_path / "elsewhere").read_bytes() == before


def test_a_journal_that_names_another_file_is_refused_and_that_file_stays(tmp_path):
    filled(tmp_path).close()
    mine = tmp_path / "mine"
    mine.write_bytes(b"x")
    magic = bytes.fromhex("d9d505f920a163d7")
    header = magic + struct.pack(">IIIII", 0, 1, 1, 512, 4096)
    name = str(mine).encode()
    parts = (1 << 30) // 4096 + 1, name, len(name), sum(name), magic
    tail = struct.pack(">I", parts[0]) + name + struct.pack(">II", *parts[2:4]) + magic
    (tmp_path / f"{FILE}-journal").write_bytes(header.ljust(512, b"\0") + tail)
    with pytest.raises(StoreError, match="names another file"):
        SharedCache(tmp_path)
    assert mine.exists()


@pytest.mark.parametrize("body", ['["g"]', '["g",5]', '["z","x"]', "[", '["s",["x"],[1]]', "5"])
def test_an_entry_that_holds_no_answer_is_never_served_though_its_digest_fits(tmp_path, body):
    cache = filled(tmp_path)
    entry = (A, "one", "h1", body, 7, 2)
    damage(tmp_path, "body", body)
    damage(tmp_path, "check_value", _check_value(*entry))
    assert cache.lookup([A]) == {}
    cache.close()


def test_the_folder_is_a_path_from_the_file_or_the_user_s_own(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_CACHE", str(tmp_path / "mine"))
    assert cache_folder("here", tmp_path) == tmp_path / "here"
    assert cache_folder("default", tmp_path) == tmp_path / "mine" / "answers"
    with open_shared(None, tmp_path) as none:
        assert none is None
