"""Shards that are killed, extended or merged half-finished lose nothing and pay nothing twice."""

import pytest

from medstress.api.run import Run, merge
from medstress.experiment.audit.verify import verify_folder
from medstress.store.shards import read_shard


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


def test_failed_trials_are_run_again_in_their_shard(bench, same):
    (bench.root / "victim.py").write_text(
        "import os\n\n\ndef answer(prompts):\n"
        "    if os.path.exists('broken') and any('case 6?' in prompt for prompt in prompts):\n"
        "        raise RuntimeError('down')\n    return ['A' for _ in prompts]\n"
    )
    bench.tables["victim"] = [{**bench.tables["victim"][0], "version": "1"}]
    assert bench.run() == 0
    folders = [bench.root / str(number) for number in (1, 2)]
    (bench.root / "broken").touch()
    assert bench.run("--shard", "1/2", out=folders[0]) == 1
    (bench.root / "broken").unlink()
    assert read_shard(folders[0]).n_failed > 0
    assert bench.run("--shard", "1/2", "--retry-failed", out=folders[0]) == 0
    assert bench.run("--shard", "2/2", out=folders[1]) == 0
    merged = bench.root / "merged"
    merge(folders, merged)
    assert bench.run(out=merged) == 0
    assert verify_folder(merged).holds
    assert Run(merged).summary()["root"] == Run(bench.out).summary()["root"]


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
