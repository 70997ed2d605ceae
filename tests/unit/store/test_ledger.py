"""Who paid, what failed, what was computed ahead, what was interrupted."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from itertools import permutations

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from medstress.core.calls import Chosen
from medstress.core.errors import StoreError
from medstress.core.items import Question
from medstress.store.database import FILE
from medstress.store.reader import RunReader, opened
from medstress.store.run_store import RunStore

ARM = ("cases", "drugs", "careful", "random", 0)


def counts(writer):
    return {
        t.trial_id: (t.n_paid, t.n_cached, t.n_failed)
        for t in writer.read(lambda reader: list(reader.trials()))
    }


def others(writer):
    return writer.read(RunReader.other_counts).get(ARM, {})


EXCHANGES = (
    # (trial, seq, query, key): `b` and `c` are asked by two trials, `a` by all three.
    (1, 0, 1, "a"),
    (1, 1, 2, "b"),
    (2, 0, 1, "b"),
    (2, 1, 2, "c"),
    (3, 0, 1, "a"),
    (3, 1, 2, "c"),
    (3, 2, 3, "d"),
)


@pytest.mark.parametrize("order", range(0, 5040, 840))
def test_who_paid_does_not_depend_on_the_order_of_writing(writer, order):
    permutation = list(permutations(EXCHANGES))[order]
    for name in ("one", "two", "three"):
        writer.trial(name)
    for trial, seq, query, key in permutation:
        writer.answer(key, trial=trial)
        writer.consume(trial, seq, query, key)
    for trial, n in ((3, 3), (1, 2), (2, 2)):
        writer.finish(trial, n)
    assert counts(writer) == {"one": (2, 0, 0), "two": (1, 1, 0), "three": (1, 2, 0)}


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_asked_is_paid_plus_cached_plus_failed_for_any_exchanges(tmp_path_factory, data):
    queries = data.draw(
        st.lists(  # of every trial: queries, of one or two calls each
            st.lists(
                st.lists(
                    st.tuples(st.sampled_from("abcdef"), st.booleans()), min_size=1, max_size=2
                ),
                max_size=4,
            ),
            min_size=1,
            max_size=4,
        )
    )
    rows = []
    for trial, asked in enumerate(queries, 1):
        seq = 0
        for number, calls in enumerate(asked, 1):
            for call, (key, failed) in enumerate(calls):
                error = "no" if failed else None
                rows.append(
                    (trial, seq, "victim", "attack", number, call, key.encode(), *[None] * 3, error)
                )
                seq += 1
    shuffled = data.draw(st.permutations(rows))
    folder = tmp_path_factory.mktemp("run")
    with RunStore(folder) as store:
        item = Question(id="q", stem="s", options=("x", "y"), key="A")
        arm = store.arm_id("d", "g", "v", "a", {}, None)
        planned = [(str(trial), arm, "d", item, 0, trial) for trial, _ in enumerate(queries, 1)]
        begun = store.begin_trials(planned)
        assert begun == [(trial, False, {}) for trial, _ in enumerate(queries, 1)]
        store.consumed(shuffled)
        for trial, asked in enumerate(queries, 1):
            store.finish_trial(trial, "held", {"n_asked": len(asked)})
    with opened(folder) as reader:
        found = list(reader.trials())
    answered = {row[6] for row in rows if row[-1] is None}
    for trial, asked in zip(found, queries, strict=True):
        assert trial.n_paid + trial.n_cached + trial.n_failed == len(asked)
        assert trial.n_failed == sum(any(failed for _, failed in calls) for calls in asked)
    # No call is paid twice, and with one call a query every answered call is paid once.
    assert sum(t.n_paid for t in found) <= len(answered)
    if all(len(calls) == 1 for asked in queries for calls in asked):
        assert sum(t.n_paid for t in found) == len(answered)


def test_a_query_of_several_calls_is_paid_where_one_of_them_was(writer):
    writer.trial("one")
    writer.trial("two")
    writer.consume(1, 0, 1, "a", call=0)
    writer.consume(1, 1, 1, "b", call=1)
    writer.consume(2, 0, 1, "a", call=0)
    writer.consume(2, 1, 1, "c", call=1)
    writer.consume(2, 2, 2, "a", call=0)
    writer.consume(2, 3, 2, "b", call=1)
    writer.finish(1)
    writer.finish(2, 2)
    assert counts(writer) == {"one": (1, 0, 0), "two": (1, 1, 0)}


def test_the_baseline_pays_for_its_own_call_and_is_no_query_of_the_attack(writer):
    writer.trial("one")
    writer.consume(1, 0, 0, "a", purpose="baseline")
    writer.consume(1, 1, 1, "a")
    writer.consume(1, 2, 1, "a again", purpose="flip_check")
    writer.finish(1)
    assert counts(writer) == {"one": (0, 1, 0)}
    assert others(writer) == {"baseline": 1, "other": 1}


def test_a_failed_call_pays_nothing_where_another_trial_got_the_answer(writer):
    writer.trial("one")
    writer.trial("two")
    writer.consume(1, 0, 1, "a", error="no connection")
    writer.finish(1, verdict="failed")
    writer.answer("a", trial=2)
    writer.consume(2, 0, 1, "a")
    writer.finish(2)
    assert counts(writer) == {"one": (0, 0, 1), "two": (1, 0, 0)}
    cached = writer.read(lambda reader: {e.trial_id: e.cached for e in reader.exchanges()})
    assert cached["two"] is False


def test_calls_of_other_roles_are_no_queries(writer):
    writer.trial("one")
    writer.consume(1, 0, 1, "a", role="attacker")
    writer.consume(1, 1, 1, "b")
    writer.finish(1)
    assert counts(writer) == {"one": (1, 0, 0)}


def test_what_was_computed_and_never_consumed_counts_as_ahead(writer):
    writer.trial("one")
    writer.answer("a", "b", "c")
    writer.consume(1, 0, 1, "a")
    writer.finish(1)
    assert others(writer) == {"ahead": 2}
    ahead = writer.read(lambda r: [e for e in r.exchanges() if e.purpose == "ahead"])
    assert [e.key for e in ahead] == [b"b", b"c"]
    assert {(e.query, e.call, e.cached) for e in ahead} == {(None, None, False)}
    (spent,) = writer.read(RunReader.spending)
    assert (spent.n_calls, spent.tokens_in, spent.tokens_out) == (3, 15, 6)


@pytest.mark.parametrize("junk", ["rubbish", '[["no hex", 1]]', '[["00", "one"]]', "7"])
def test_what_was_in_flight_and_cannot_be_read_is_refused_in_a_sentence(writer, junk):
    """No digest covers it."""
    writer.close()
    with closing(sqlite3.connect(writer.folder / FILE)) as db, db:
        db.execute("INSERT INTO dispatched VALUES (1, ?)", (junk,))
    with pytest.raises(StoreError, match="holds a value that cannot be interpreted"):
        writer.open_again()
    with closing(sqlite3.connect(writer.folder / FILE)) as db:
        assert db.execute("SELECT calls FROM dispatched").fetchone() == (junk,)


def test_calls_in_flight_count_as_interrupted_once_the_next_process_opens_the_folder(writer):
    writer.trial("one")
    writer.dispatch("a", "b", "c")
    writer.answer("a")
    assert "interrupted" not in others(writer)  # still in flight
    for n in (2, 4):
        writer.open_again()
        assert others(writer)["interrupted"] == n
        assert dict(writer.store.lookup([b"a", b"b"])) == {
            b"a": Chosen(answer="A", tokens_in=5, tokens_out=2)
        }
        writer.dispatch("b", "c")
    writer.answer("b", "c")
    writer.open_again()
    assert others(writer)["interrupted"] == 4


def test_forgetting_failed_trials_keeps_their_answers_and_drops_what_they_consumed(writer):
    for name in ("one", "two"):
        writer.trial(name)
    writer.answer("a", "b")
    writer.consume(1, 0, 1, "a")
    writer.consume(1, 1, 2, "x", error="no")
    writer.finish(1, 2, verdict="failed")
    writer.consume(2, 0, 1, "b")
    writer.finish(2)
    assert writer.store.forget_failed() == 1
    writer.store.commit()
    assert counts(writer) == {"two": (1, 0, 0)}
    assert set(writer.store.lookup([b"a", b"b", b"x"])) == {b"a", b"b"}
    assert writer.begin("one") == (1, False, {})
    assert writer.begin("two") == (2, True, {})


def test_an_answer_is_stored_once_whoever_brings_it_again(writer):
    writer.trial("one")
    writer.dispatch("a", "b")
    writer.answer("a")
    writer.store.answered([(b"a", 1, Chosen(answer="B"), 0.5), (b"b", 1, Chosen(answer="C"), 0.5)])
    writer.store.answered([(b"b", 1, Chosen(answer="D"), 0.5)])
    assert {key: answer.answer for key, answer in writer.store.lookup([b"a", b"b"]).items()} == {
        b"a": "A",
        b"b": "C",
    }
    writer.open_again()
    assert writer.store.computed_totals()[0] == 2
    assert writer.store.lookup([b"b"])[b"b"].answer == "C"
    assert "interrupted" not in others(writer)


def test_answers_that_were_rolled_back_are_not_known(writer):
    writer.trial("one")
    writer.answer("a")
    writer.store.answered([(b"b", 1, Chosen(answer="B"), 0.5)])
    fail(writer.store)
    with pytest.raises(StoreError, match="database or disk is full"):
        writer.store.commit()
    assert set(writer.store.lookup([b"a", b"b"])) == {b"a"}
    writer.store.answered([(b"b", 1, Chosen(answer="C"), 0.5)])
    writer.store.commit()
    assert writer.store.lookup([b"b"])[b"b"].answer == "C"


def test_after_a_write_that_failed_none_that_follows_from_it_is_done(writer, said):
    writer.trial("one")
    writer.answer("a")
    writer.dispatch("b")
    fail(writer.store)  # instead of the exchanges
    writer.store.finish_trial(1, "held", {"n_asked": 1})
    with pytest.raises(StoreError) as caught:
        writer.store.commit()
    said(str(caught.value))
    writer.open_again()
    assert writer.begin("one") == (1, False, {})
    assert set(writer.store.lookup([b"a"])) == {b"a"}
    assert others(writer)["interrupted"] == 1


def test_a_write_that_failed_is_told_when_the_store_is_closed(writer):
    fail(writer.store)
    with pytest.raises(StoreError, match="disk is full"):
        writer.close()
    with RunStore(writer.folder):  # the folder is released all the same
        pass
    writer.closed = True


def test_a_value_that_cannot_be_stored_is_an_error_of_the_store(writer, said):
    writer.trial("one")
    writer.finish(1, n_asked=1)
    with pytest.raises(StoreError) as caught:
        writer.begin("two \ud800")
    said(str(caught.value))
    assert writer.begin("one") == (1, True, {})


def fail(store: RunStore) -> None:
    """Let what is told now fail as where the disk is full."""

    def full(_):
        raise sqlite3.OperationalError("database or disk is full")

    store._db.submit(full)
