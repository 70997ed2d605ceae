"""A run folder of an earlier format is read as it is, and brought up to date when written to."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing

import pytest

from medstress.core.errors import StoreError
from medstress.core.items import Question
from medstress.store.reader import RunReader
from medstress.store.run_store import FILE, RunStore

# How a medstress of format 1 would have written a run of format 2.
BACK_TO_1 = """
BEGIN;
ALTER TABLE answers RENAME TO new_answers;
ALTER TABLE exchanges RENAME TO new_exchanges;
DROP TABLE dispatched;
CREATE TABLE answers (
    key BLOB PRIMARY KEY, trial INTEGER NOT NULL, body TEXT NOT NULL, seconds REAL NOT NULL,
    tokens_in INTEGER NOT NULL, tokens_out INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE exchanges (
    trial INTEGER NOT NULL, seq INTEGER NOT NULL, role TEXT NOT NULL, purpose TEXT NOT NULL,
    query INTEGER, call INTEGER NOT NULL, key BLOB NOT NULL, edits TEXT, request TEXT, error TEXT,
    PRIMARY KEY (trial, seq)) WITHOUT ROWID;
CREATE TABLE dispatched (key BLOB PRIMARY KEY, trial INTEGER NOT NULL) WITHOUT ROWID;
INSERT INTO answers
    SELECT key, trial, body, seconds, tokens_in, tokens_out FROM new_answers;
INSERT INTO exchanges
    SELECT e.trial, e.seq, e.role, e.purpose, e.query, e.call, COALESCE(a.key, e.key), e.edits,
           e.request, e.error
    FROM new_exchanges e LEFT JOIN new_answers a ON a.id = e.answer;
INSERT INTO dispatched VALUES (X'66', 2);
DROP TABLE new_exchanges;
DROP TABLE new_answers;
PRAGMA user_version = 1;
COMMIT;
"""


def everything(folder):
    reader = RunReader(folder)
    try:
        return {
            "trials": list(reader.trials()),
            "exchanges": list(reader.exchanges()),
            "counts": reader.other_counts(),
            "calls": list(reader.attack_calls()),
            "answered": list(reader.answered_queries([1, 2])),
            "edits": list(reader.attack_edits()),
            "per query": reader.calls_per_query(),
            "totals": reader.totals(),
        }
    finally:
        reader.close()


@pytest.fixture(params=[1, 2])
def old(writer, request, workbench):
    """A run of format 1 or 2, killed in its second trial, and what a reader saw of it before."""
    writer.trial("one")
    writer.trial("two")
    writer.answer("a", "b", "c")
    writer.answer("d", "e", trial=2)
    writer.consume(1, 0, 0, "a", purpose="baseline")
    writer.consume(1, 1, 1, "b")
    writer.consume(1, 2, 2, "x", error="no connection")
    writer.finish(1, 2)
    writer.consume(2, 0, 0, "a", purpose="baseline")
    writer.consume(2, 1, 1, "d")
    writer.close()
    expected = everything(writer.folder)
    workbench.back_to_format_2(writer.folder)
    with closing(sqlite3.connect(writer.folder / FILE)) as db:
        if request.param == 1:
            db.executescript(BACK_TO_1)
        else:
            db.execute("INSERT INTO dispatched VALUES (1, '[[\"66\", 2]]')")
            db.commit()
    return writer.folder, expected


def test_a_run_of_an_earlier_format_reads_the_same_and_stays_as_it_is(old):
    folder, expected = old
    before = (folder / FILE).read_bytes()
    assert everything(folder) == expected
    assert len(expected["exchanges"]) == 7
    assert (folder / FILE).read_bytes() == before


def test_a_run_of_an_earlier_format_is_brought_up_to_date_when_it_goes_on(old):
    folder, expected = old
    with RunStore(folder) as store:
        item = Question(id="q0", stem="Why?", options=("this", "that"), key="A")
        (two,) = store.begin_trials([("two", 1, "cases", item, 0)])
        assert two == (2, False, {0: (b"a", None), 1: (b"d", None)})
        assert set(store.lookup([b"a", b"e", b"x"])) == {b"a", b"e"}
        assert store.computed_totals()[0] == 5
        store.answered([(b"e", 2, None, 0.0)])
    found = everything(folder)
    # The call in flight is reported by the process that opens the folder again.
    (counts,) = found["counts"].values()
    assert counts.pop("interrupted") == 1
    assert found == expected
    with closing(sqlite3.connect(folder / FILE)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (3,)
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        names = {name for (name,) in db.execute("SELECT name FROM sqlite_master")}
        begins = db.execute("SELECT value FROM manifest WHERE key = 'chain_begins'").fetchone()
    assert not {name for name in names if name.startswith(("old_", "answer_of"))}
    assert json.loads(begins[0])["answers"] == 5


def test_the_chain_of_an_earlier_run_begins_with_what_it_holds(old, said):
    folder, _ = old
    RunStore(folder).close()
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("UPDATE verdicts SET verdict = 'flipped'")
        db.commit()
    with pytest.raises(StoreError) as caught:
        RunReader(folder)
    said(str(caught.value), "verdicts")


def test_answers_whose_rows_have_gaps_are_numbered_anew(old):
    folder, expected = old
    with closing(sqlite3.connect(folder / FILE)) as db:
        if db.execute("PRAGMA user_version").fetchone() == (1,):
            pytest.skip("format 1 had no rows of answers")
        db.execute("UPDATE answers SET id = id + 10 WHERE id > 2")
        db.execute("UPDATE exchanges SET answer = answer + 10 WHERE answer > 2")
        db.commit()
    RunStore(folder).close()
    found = everything(folder)
    found["counts"][next(iter(found["counts"]))].pop("interrupted")
    assert found == expected


def test_a_run_of_an_earlier_format_with_an_unknown_table_is_refused_and_left_alone(old, said):
    folder, _ = old
    with closing(sqlite3.connect(folder / FILE)) as db:
        db.execute("CREATE TABLE old_exchanges (x)")  # in the way of the change, half-way
        db.commit()
    before = (folder / FILE).read_bytes()
    with pytest.raises(StoreError) as caught:
        RunStore(folder)
    said(str(caught.value), "'old_exchanges'")
    assert (folder / FILE).read_bytes() == before
