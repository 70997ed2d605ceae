"""Shards that are killed, extended or merged half-finished lose nothing and pay nothing twice."""

import pytest

from medstress.api.run import Run, merge
from medstress.experiment.verify import verify_folder


@pytest.mark.kills
def test_calls_in_flight_of_a_shard_that_died_are_interrupted_in_the_merged_run(
    workbench, bench, monkeypatch
):
    bench.tables["victim"] = bench.tables["victim"][:1]
    folder, log = bench.root / "1", bench.root / "killed.jsonl"
    process = bench.start("--shard", "1/1", out=folder, log=log, most_lines=20)
    try:
        workbench.wait_until(lambda: len(bench.received(log)) >= 20, process)
    finally:
        process.kill()
        workbench.stop(process)
    # As if its last process had ended at a limit, and a later one had died.
    monkeypatch.setattr("medstress.store.shards.StoredShard.stopped_by", ("max_queries",))
    merged = bench.root / "merged"
    merge([folder], merged)
    held = workbench.snapshot(merged, bench.root / "scratch")
    assert held.interrupted
    assert not held.dispatched
    assert not set(held.interrupted) & held.answered
    assert bench.run(out=merged) == 0
    assert workbench.ledger(Run(merged).summary())["interrupted"] == len(held.interrupted)
    assert verify_folder(merged).holds


def test_shards_are_extended_by_seeds_and_items_as_a_run_is(workbench, bench, same):
    folders = [bench.root / str(number) for number in (1, 2, 3)]
    bench.tables["experiment"]["seeds"] = [0]
    bench.write_items(workbench.questions(8))
    assert bench.run() == 0
    for number, folder in enumerate(folders, 1):
        assert bench.run("--shard", f"{number}/3", out=folder) == 0
    n = len(bench.received())
    bench.tables["experiment"]["seeds"] = [0, 1]
    bench.write_items(workbench.questions(12))
    for number, folder in enumerate(folders, 1):
        assert bench.run("--shard", f"{number}/3", out=folder) == 0
    in_shards = len(bench.received())
    merged = bench.root / "merged"
    merge(folders, merged)
    assert bench.run(out=merged) == 0
    assert n < len(bench.received()) == in_shards
    assert bench.run() == 0
    assert len(bench.received()) == 2 * in_shards - n
    same(bench.out, merged)


def test_a_shard_is_read_like_any_run_and_says_what_it_is(bench):
    folder = bench.root / "2"
    assert bench.run("--shard", "2/3", out=folder) == 0
    assert verify_folder(folder).broken is None
    n = len(bench.received())
    assert bench.run("--shard", "2/3", out=folder) == 0
    assert len(bench.received()) == n
    found = Run(folder).summary()
    assert found["experiment"]["complete"] is False
    assert "shard" in {each["rule"] for each in found["warnings"]}


def test_a_shard_without_items_is_finished_at_once(workbench, bench):
    bench.write_items(workbench.questions(1))
    folders = [bench.root / str(number) for number in (1, 2)]
    for number, folder in enumerate(folders, 1):
        assert bench.run("--shard", f"{number}/2", out=folder) == 0
    merged = merge(folders, bench.root / "merged")
    assert bench.run(out=merged.folder) == 0
    assert merged.summary()["experiment"]["complete"] is True
