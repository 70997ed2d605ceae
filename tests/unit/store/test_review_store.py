"""The file of reviews: what is in it counts once, and a file of somebody else is refused."""

import json
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


CASE = {
    **{"id": "c", "trials": ["t-c"], "dataset": "a", "item": "q", "unit": "item", "hidden": []},
    "edits": [["A", 0, 1, "x"]],
}
BODY = {
    **{"mode": "judge", "seed": 0, "sample": 2, "drawn": 1, "population": 1, "complete": True},
    "arms": [{**dict.fromkeys(("dataset", "group", "victim", "attack"), "x"), "n": 1}],
    **{"planted": {"unchanged": 1}, "time": "2026-01-01T00:00:00+00:00", "cases": [CASE]},
}


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
        first = store.add_room("r", BODY)
        assert store.add_room("r", {**BODY, "drawn": 2}) == first
    with ReviewStore(tmp_path) as store:
        assert store.key() == key
        assert len(key) == 32
    assert stored_rooms(tmp_path) == {"r": BODY}
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
        """UPDATE verdicts SET answers = '{"key_right": "perhaps"}'""",
        """UPDATE verdicts SET answers = '{"answer": "A", "shown": "clean", "right": "maybe"}'""",
        """UPDATE verdicts SET answers = '{"answer": "A"}'""",
        "UPDATE verdicts SET answers = '[1]'",
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
        store.add_room("r", BODY)
        assert reviews_digests(tmp_path) == []  # a sample that nobody has judged changes no root
        store.add([review()])
    before = reviews_digests(tmp_path)[-1]
    assert reviews_commits(tmp_path) == [(before, 1, 1)]
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("""UPDATE rooms SET body = json_set(body, '$.cases', json('[]'))""")
    with pytest.raises(ChainError):
        stored_rooms(tmp_path)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("DELETE FROM commits")
        link(db, REVIEW_CHAIN)
    assert stored_rooms(tmp_path) == {"r": {**BODY, "cases": []}}
    assert reviews_digests(tmp_path)[-1] != before


ODD_ROOMS = [
    *({**BODY, name: odd} for name in BODY for odd in (None, 1.5, [None], {"x": None}, "x")),
    *(
        {**BODY, "cases": [{**CASE, name: odd}]}
        for name in (*CASE, "control", "at", "shown", "pair", "more")
        for odd in (7, [None], {"x": None})
    ),
    *({**BODY, "cases": [{**CASE, "edits": [odd]}]} for odd in (["A", 0, 1], ["A", 0, "1", "x"])),
    *({**BODY, "arms": [{**BODY["arms"][0], "n": odd}]} for odd in (None, True, "1")),
    *({key: value for key, value in BODY.items() if key != name} for name in BODY),
    *(None, [], 1),
]


@pytest.mark.parametrize("body", ODD_ROOMS, ids=str)
def test_a_room_that_holds_anything_of_another_type_is_refused(tmp_path, body):
    with ReviewStore(tmp_path) as store:
        store.add_room("r", BODY)
    with closing(sqlite3.connect(tmp_path / FILE)) as db, db:
        db.execute("UPDATE rooms SET body = ?", (json.dumps(body),))
        db.execute("DELETE FROM commits")
        link(db, REVIEW_CHAIN)
    if body in ({**BODY, "sample": None}, {**BODY, "time": "x"}):
        assert stored_rooms(tmp_path) == {"r": body}
        return
    with pytest.raises(
        StoreError, match=r"reviews.sqlite holds a value .* of a room is missing or of another kind"
    ):
        stored_rooms(tmp_path)
