"""The file of reviews: what is in it counts once, and a file of somebody else is refused."""

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from medstress.core.errors import StoreError
from medstress.store.chain import REVIEW_CHAIN, link
from medstress.store.opening import ChainError
from medstress.store.reviews import (
    FILE,
    Review,
    ReviewStore,
    reviews_commits,
    reviews_digests,
    stored_reviews,
    stored_rooms,
)


def review(case="c", rater="A", word="yes", time="2026-01-01T00:00:00+00:00", **more):
    return Review(
        trial_id=f"t-{case}", case_id=case, reviewer=rater, answers={"key_right": word}, time=time
    )


def test_the_latest_of_each_rater_counts_and_the_same_one_is_stored_once(tmp_path):
    with ReviewStore(tmp_path) as store:
        assert len(store.add([review(), review(rater="B", word="no")])) == 2
        later = review(word="no", time="2026-01-02T00:00:00+00:00")
        assert store.add([review(), later]) == [later]
        older = review(rater="a", word="cannot say", time="2025-01-01T00:00")
        assert store.add([older]) == [older]
    found = {one.reviewer: one.answers["key_right"] for one in stored_reviews(tmp_path)}
    assert found == {"A": "no", "B": "no"}
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        assert db.execute("SELECT COUNT(*) FROM verdicts").fetchone() == (4,)


def test_the_key_and_the_numbers_of_raters_are_drawn_once(tmp_path):
    with ReviewStore(tmp_path) as store:
        key = store.key()
        assert [store.number_of("r", who) for who in ("A", "B", "a", "C")] == [0, 1, 0, 2]
        assert store.number_of("other", "C") == 0
        first = store.add_room("r", {"n": 1})
        assert store.add_room("r", {"n": 2}) == first
    with ReviewStore(tmp_path) as store:
        assert store.key() == key
        assert len(key) == 32
    assert stored_rooms(tmp_path) == {"r": {"n": 1}}
    assert (tmp_path / FILE).stat().st_mode & 0o077 == 0


def test_many_threads_lose_nothing(tmp_path):
    with ReviewStore(tmp_path) as store:
        with ThreadPoolExecutor(8) as pool:
            told = pool.map(lambda i: store.add([review(case=str(i))]), range(100))
            assert sum(map(len, told)) == 100
        assert len(store.reviews()) == 100


@pytest.mark.parametrize(
    "change",
    [
        "CREATE VIEW more AS SELECT 1",
        "PRAGMA user_version = 9",
        "UPDATE verdicts SET answers = '{'",
        """UPDATE verdicts SET answers = '{"key_right": 1}'""",
        "UPDATE verdicts SET reviewer = x'00'",
    ],
)
def test_a_changed_file_is_refused_in_one_sentence(tmp_path, change):
    with ReviewStore(tmp_path) as store:
        store.add([review()])
    with closing(sqlite3.connect(tmp_path / FILE)) as db:
        try:
            db.executescript(change)
        except sqlite3.IntegrityError:
            return  # the schema forbids it
    with pytest.raises(StoreError) as error:
        stored_reviews(tmp_path)
    assert FILE in str(error.value) or "format" in str(error.value)


def test_a_file_that_is_no_database_is_left_alone(tmp_path):
    (tmp_path / FILE).write_bytes(b"mine" * 500)
    with pytest.raises(StoreError):
        ReviewStore(tmp_path)
    assert (tmp_path / FILE).read_bytes() == b"mine" * 500


def test_a_case_taken_out_of_the_sample_shows_and_a_new_chain_gives_another_root(tmp_path):
    with ReviewStore(tmp_path) as store:
        store.add_room("r", {"cases": ["a", "b"]})
        assert reviews_digests(tmp_path) == []  # a sample that nobody has judged changes no root
        store.add([review()])
    before = reviews_digests(tmp_path)[-1]
    assert reviews_commits(tmp_path) == [(before, 1, 1)]
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("""UPDATE rooms SET body = '{"cases": ["a"]}'""")
    with pytest.raises(ChainError):
        stored_rooms(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("DELETE FROM commits")
        link(db, REVIEW_CHAIN)
    assert stored_rooms(tmp_path) == {"r": {"cases": ["a"]}}
    assert reviews_digests(tmp_path)[-1] != before
