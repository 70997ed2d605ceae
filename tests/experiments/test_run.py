"""`run` from Python: what the parts do together."""

import polars
import pytest

from medstress.api.run import run
from medstress.backends.mock import MockBackend
from medstress.core.errors import BackendError, StoreError, UsageError
from medstress.engine.progress import Watcher
from medstress.experiment.manifest import Fingerprint, differences
from medstress.experiment.prepare import prepare
from rows import rows_of


@pytest.fixture
def bench(bench):
    """Two attacks, one of which draws."""
    bench.tables["attack"] = [bench.attack("random"), bench.attack("nearest")]
    return bench


def told(rows):
    return {row.trial_id: (row.verdict, row.n_asked, row.edits, row.answer_after) for row in rows}


def test_neither_the_form_nor_paths_batches_limits_or_the_order_of_items_changes_a_run(
    bench, workbench, monkeypatch
):
    bench.tables["victim"][0]["batch_size"] = 1
    from_file = run(bench.write(), bench.root / "file")
    monkeypatch.chdir(bench.root)  # relative paths of a dict start here
    from_dict = run(bench.tables, bench.root / "dict")
    first = from_file.manifest()
    assert rows_of(from_dict) == rows_of(from_file)
    assert from_dict.manifest()["fingerprint"] == first["fingerprint"]
    frame = from_dict.trials()
    assert isinstance(frame, polars.DataFrame)
    assert frame.height == len(rows_of(from_dict))
    assert set(frame["verdict"]) <= {"held", "flipped", "already_wrong", "not_attackable"}
    rows = workbench.questions()
    bench.write_items(rows[5:] + rows[:5])
    bench.tables["victim"][0]["batch_size"] = 32
    bench.tables["experiment"].update(name="renamed", max_failed=3, max_queries=10_000)
    (bench.root / "moved").mkdir()
    (bench.root / "items.jsonl").rename(bench.root / "moved" / "cases.jsonl")
    bench.tables["dataset"][0]["path"] = "moved/cases.jsonl"
    second = run(bench.write(), bench.root / "other")
    assert told(rows_of(second)) == told(rows_of(from_file))
    assert second.manifest()["fingerprint"] == first["fingerprint"]
    assert not list(differences(Fingerprint.read(first), Fingerprint.read(second.manifest())))


def test_the_watcher_is_told_of_every_finished_trial(bench):
    notes, counts = [], []

    def progress(now):
        counts.append((now.n_done, now.n_planned, now.n_computed))

    run(bench.write(), bench.out, watcher=Watcher(note=notes.append, progress=progress))
    n = len(bench.rows())
    assert counts[-1] == (n, n, len(bench.received()))
    assert counts == sorted(counts)
    assert any("careful" in note for note in notes)
    said, resumed = [], []
    run(bench.write(), bench.out, watcher=Watcher(announce=said.append, progress=resumed.append))
    assert said[0].startswith("Nothing was asked: this run was measured from ")
    assert not resumed


def test_preparing_loads_no_victim_and_counts_the_trials(bench):
    bench.tables["victim"][0]["target"] = "nowhere.py:answer"
    prepared = prepare(bench.write())
    assert prepared.victims == []
    assert prepared.n_trials() == 12 * 3
    with pytest.raises(UsageError, match="there is no file"):
        run(bench.write(), bench.out)


def test_back_ends_are_closed_whatever_happens(bench, workbench, monkeypatch):
    closed = []
    monkeypatch.setattr(MockBackend, "close", lambda self: closed.append(1))
    bench.write_items(workbench.questions(6))
    bench.tables["victim"] = [{"name": "m", "backend": "mock"}]
    run(bench.write(), bench.out)
    assert closed == [1]
    bench.tables["attack"][0]["budget"] = 6
    with pytest.raises(StoreError, match="attack 'random' changed"):
        run(bench.write(), bench.out)
    assert closed == [1, 1]

    def fail(self, calls):
        raise BackendError("away")

    monkeypatch.setattr(MockBackend, "answer", fail)
    bench.tables["victim"][0]["batch_size"] = 2
    with pytest.raises(BackendError, match="answered nothing and failed 3 times in a row"):
        run(bench.write(), bench.root / "other")
    assert closed == [1, 1, 1]


def test_a_second_attack_without_labels_extends_the_run(bench):
    """A default label grows when another attack joins; the folder's label is kept."""
    first, second = bench.tables["attack"]
    del first["label"], second["label"]
    bench.tables["attack"] = [first]
    run(bench.write(), bench.out)
    bench.tables["attack"] = [first, second]
    rows = rows_of(run(bench.write(), bench.out))
    assert len(rows) == 12 * 3
    assert {row.attack for row in rows} == {
        "entity_substitution",
        "entity_substitution sampler=nearest",
    }
