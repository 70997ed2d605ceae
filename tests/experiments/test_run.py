"""`run` from Python: what the parts do together."""

import polars
import pytest

from medstress.api.run import run
from medstress.backends.mock import MockBackend
from medstress.core.errors import BackendError, StoreError, UsageError
from medstress.engine.progress import Watcher
from medstress.experiment.opening import Fingerprint, differences
from medstress.experiment.prepare import prepare
from rows import rows_of


def test_a_dict_runs_like_the_file_of_the_same_shape(bench, monkeypatch):
    path = bench.write()
    from_file = run(path, bench.root / "file")
    monkeypatch.chdir(bench.root)  # relative paths of a dict start here
    from_dict = run(bench.tables, bench.root / "dict")
    assert rows_of(from_dict) == rows_of(from_file)
    assert from_dict.manifest()["fingerprint"] == from_file.manifest()["fingerprint"]
    frame = from_dict.trials()
    assert isinstance(frame, polars.DataFrame)
    assert frame.height == len(rows_of(from_dict))
    assert set(frame["verdict"]) <= {"held", "flipped", "already_wrong", "not_attackable"}


def test_the_fingerprint_leaves_out_paths_batch_sizes_limits_and_order(bench):
    first = run(bench.write(), bench.root / "one").manifest()
    bench.tables["victim"][0]["batch_size"] = 11
    bench.tables["experiment"].update(name="renamed", max_failed=3, max_queries=10_000)
    moved = bench.root / "moved"
    moved.mkdir()
    (bench.root / "items.jsonl").rename(moved / "cases.jsonl")
    bench.tables["dataset"][0]["path"] = "moved/cases.jsonl"
    second = run(bench.write(), bench.root / "two").manifest()
    assert second["fingerprint"] == first["fingerprint"]
    assert not list(differences(Fingerprint.read(first), Fingerprint.read(second)))


def test_trials_are_independent_of_batch_size_and_of_the_order_of_items(bench, workbench):
    def told(folder):
        return {
            row.trial_id: (row.verdict, row.n_asked, row.edits, row.answer_after)
            for row in bench.rows(folder)
        }

    expected = None
    for n, size in enumerate((1, 3, 32)):
        bench.tables["victim"][0]["batch_size"] = size
        rows = workbench.questions()
        bench.write_items(rows[n:] + rows[:n])
        run(bench.write(), bench.root / f"by{size}")
        expected = expected or told(bench.root / f"by{size}")
        assert told(bench.root / f"by{size}") == expected


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
    assert prepared.n_trials() == 12 * 6
    with pytest.raises(UsageError, match="there is no file"):
        run(bench.write(), bench.out)


def test_back_ends_are_closed_whatever_happens(bench, monkeypatch):
    closed = []
    monkeypatch.setattr(MockBackend, "close", lambda self: closed.append(1))
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
    first, second = bench.attack("random"), bench.attack("nearest")
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


# -- batches and limits ---------------------------------------------------------------------------
