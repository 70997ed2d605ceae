"""A reader beside a process that is writing."""

from __future__ import annotations

import threading

from medstress.core.calls import Chosen
from medstress.core.items import Question
from medstress.store.reader import RunReader, opened
from medstress.store.run_store import RunStore


def test_a_reader_sees_what_was_committed_and_nothing_else(writer):
    writer.store.write_manifest({"complete": False})
    writer.store.commit()
    writer.trial("one")
    writer.consume(1, 0, 1, "a")
    writer.store.finish_trial(1, "held", {"n_asked": 1})
    assert writer.read(RunReader.n_trials) == 0
    assert writer.read(lambda reader: list(reader.trials())) == []
    writer.store.commit()
    assert writer.read(RunReader.n_trials) == 1
    assert writer.read(lambda reader: reader.manifest) == {"complete": False}


def test_a_reader_that_stays_open_shows_one_moment(writer):
    writer.trial("one")
    writer.store.commit()
    reader = RunReader(writer.folder)
    assert reader.n_trials() == 0
    writer.answer("a")
    writer.consume(1, 0, 1, "a")
    writer.finish(1)
    found = list(reader.trials())
    n = reader.n_trials()
    reader.close()
    # Either moment would do, but not the trial of now with the ledger of before.
    assert n == len(found)
    for trial in found:
        assert trial.result["n_asked"] == trial.n_paid + trial.n_cached + trial.n_failed


def test_readers_beside_a_busy_writer_never_fail_nor_make_it_wait(tmp_path):
    folder = tmp_path / "run"
    store = RunStore(folder)
    stop = threading.Event()
    seen: list[int] = []
    errors: list[Exception] = []

    def look() -> None:
        try:
            while not stop.is_set():
                reader = RunReader(folder)
                seen.append(reader.n_trials())
                list(reader.trials())
                list(reader.exchanges())
                reader.other_counts()
                reader.close()
        except Exception as error:  # noqa: BLE001 - told by the other thread
            errors.append(error)

    thread = threading.Thread(target=look)
    thread.start()
    try:
        arm = store.arm_id("d", "g", "v", "a", {}, 0)
        item = Question(id="q", stem="Why?", options=("this", "that"), key="A")
        for n in range(1, 201):
            key = str(n).encode()
            ((row, *_),) = store.begin_trials([(str(n), arm, "d", item, 0, n)])
            store.dispatching([(key, row)])
            store.answered([(key, row, Chosen(answer="A"), 0.0)])
            store.commit()
            store.consumed([(row, 0, "victim", "attack", 1, 0, key, None, None, None, None)])
            store.finish_trial(row, "held", {"n_asked": 1})
            store.commit()
    finally:
        stop.set()
        thread.join()
        store.close()
    assert errors == []
    assert seen == sorted(seen)
    with opened(folder) as reader:
        assert reader.n_trials() == 200
