"""However a run is cut, killed and extended in shards, the merged run is the run at once."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from goldens import GOLDENS, medstress, n_asked, written_to
from medstress.api.run import Run, merge
from medstress.cli.app import medstress_cli
from medstress.experiment.verify import verify_folder
from rows import rows_of


def test_shards_say_what_the_run_at_once_says(bench, sharded, same):
    assert bench.run() == 0
    at_once = len(bench.received())
    merged = sharded(3)
    same(bench.out, merged, reports=True)
    assert len(bench.received()) == 2 * at_once
    assert Run(merged).manifest()["shards"]["bought_twice"] == 0
    assert verify_folder(merged).holds


def test_entities_of_a_sentence_are_units_of_one_item(bench, sharded, same):
    words = (("Aspirin", "relieves", "pain"), ("Warfarin", "and", "morphine"), ("Nothing", "came"))
    drugs = ("Aspirin", "Warfarin", "morphine")
    (bench.root / "texts.iob").write_text(
        "\n".join(
            "".join(f"{word}\t{'B-Chemical' if word in drugs else 'O'}\n" for word in sentence)
            for sentence in words
        )
    )
    (bench.root / "victim.py").write_text(
        "def tag(sentences):\n    known = ('aspirin', 'warfarin', 'morphine')\n    return "
        "[['B-Chemical' if w.lower() in known else 'O' for w in s] for s in sentences]\n"
    )
    bench.tables = {
        "experiment": {"name": "tagged", "seeds": [0, 1]},
        "dataset": [{"name": "iob", "path": "texts.iob"}],
        "victim": [{"backend": "python", "target": "victim.py:tag"}],
        "attack": [{"name": "swap_noise", "search": "greedy", "budget": 4}],
    }
    assert bench.run() == 0
    merged = sharded(2)
    same(bench.out, merged)
    assert len({row.unit for row in rows_of(Run(merged))}) > 1


def test_a_call_that_two_shards_bought_is_counted_and_paid_once_in_the_ledger(bench, sharded, same):
    # Two questions that differ only in their key have one prompt; each is in a shard of its own.
    rows = [json.loads(line) for line in (bench.root / "items.jsonl").read_text().splitlines()]
    twin = {**rows[0], "id": "twin", "answer_idx": "B"}
    bench.write_items([rows[0], twin, *rows[1:6]])
    assert bench.run() == 0
    merged = sharded(2)
    same(bench.out, merged)
    twice = Run(merged).manifest()["shards"]["bought_twice"]
    assert twice > 0
    assert Run(merged).manifest()["shards"]["answered_otherwise"] == 0
    with closing(sqlite3.connect(merged / "run.sqlite")) as db:
        n, distinct = db.execute("SELECT COUNT(key), COUNT(DISTINCT key) FROM answers").fetchone()
    assert n - distinct == twice
    assert verify_folder(merged).holds


def test_answers_that_two_shards_got_differently_are_counted_and_kept(bench, sharded, monkeypatch):
    (bench.root / "victim.py").write_text(
        "import os\n\n\ndef answer(prompts):\n"
        "    return [{'scores': {'A': 0.5 + float(os.environ['BATCH']) * 1e-9, 'B': 0.2, "
        "'C': 0.2, 'D': 0.1}} for _ in prompts]\n"
    )
    rows = [json.loads(line) for line in (bench.root / "items.jsonl").read_text().splitlines()]
    bench.write_items([rows[0], {**rows[0], "id": "twin", "answer_idx": "B"}])
    folders = [bench.root / str(number) for number in (1, 2)]
    for number, folder in enumerate(folders, 1):
        monkeypatch.setenv("BATCH", str(number))
        assert bench.run("--shard", f"{number}/2", out=folder) == 0
    merged = bench.root / "merged"
    assert medstress_cli(["merge", *map(str, folders), "--out", str(merged), "--quiet"]) == 0
    assert bench.run(out=merged) == 0
    found = Run(merged)
    assert found.manifest()["shards"]["answered_otherwise"] > 0
    assert "answered_otherwise" in {each["rule"] for each in found.summary()["warnings"]}
    assert verify_folder(merged).holds


def test_a_shared_cache_is_shared_by_shards(bench, sharded, same):
    bench.tables["experiment"]["cache"] = "answers"
    rows = [json.loads(line) for line in (bench.root / "items.jsonl").read_text().splitlines()]
    bench.write_items([rows[0], {**rows[0], "id": "twin", "answer_idx": "B"}, *rows[1:6]])
    assert bench.run() == 0
    at_once = len(bench.received())
    (bench.root / "answers").rename(bench.root / "answers of the run at once")
    merged = sharded(2)
    assert len(bench.received()) == 2 * at_once  # the second shard took what the first bought
    assert Run(merged).manifest()["shards"]["bought_twice"] == 0
    assert Run(merged).summary()["performance"]["calls_from_cache"] == 0
    same(bench.out, merged)
    assert verify_folder(merged).holds


_CUT = ("medfuzz",)
"""Cut in every test run; the other kinds before a release."""
_KINDS = [
    pytest.param(name, marks=() if name in _CUT else pytest.mark.release)
    for name in GOLDENS
    if name not in ("killed", "shards")
]


@pytest.mark.parametrize("name", _KINDS)
def test_a_kind_of_experiment_is_cut_and_merged(tmp_path, same, name):
    with written_to(tmp_path, GOLDENS[name]):
        text = Path("e.toml").read_text("utf-8")
        Path("e.toml").write_text(text.replace("max_calls = 400", "max_calls = 130"), "utf-8")
        run = ("run", "e.toml", "--out", "run", "--quiet")
        unsharded = medstress(*run)
        n = n_asked(tmp_path)
        (tmp_path / "run").rename("unsharded")
        for number in (1, 2, 3):
            shard = ("run", "e.toml", "--shard", f"{number}/3", "--out", f"{number}", "--quiet")
            assert medstress(*shard)[0] == 0
        assert medstress("merge", "3", "1", "2", "--out", "run", "--quiet")[0] == 0
        assert medstress(*run)[0] == unsharded[0]
        assert n_asked(tmp_path) == 2 * n
        same(tmp_path / "unsharded", tmp_path / "run", reports=True)
        assert verify_folder(tmp_path / "run").holds


# -- kills, limits and more items ------------------------------------------------------------------


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


def test_a_shard_at_its_cap_names_it_and_is_merged_as_the_run_at_once_would_end(
    bench, capsys, monkeypatch
):
    bench.tables["experiment"]["max_queries"] = 60
    folders = [bench.root / "s" / str(number) for number in (1, 2)]
    began = ["medstress", *bench.arguments("--shard", "2/2", out=folders[1])]
    monkeypatch.setattr("sys.argv", began)
    for number, folder in enumerate(folders, 1):
        assert bench.run("--shard", f"{number}/2", out=folder) == 0
    told = capsys.readouterr().out
    assert "stopped by its part (1/2) of max_queries = 60\n" in told
    assert "--shard 2/2 --set experiment.max_queries=120" in told

    merged = bench.root / "merged"
    assert medstress_cli(["merge", *map(str, folders), "--out", str(merged), "--quiet"]) == 0
    assert "stopped by max_queries" in capsys.readouterr().out
    assert bench.run(out=merged) == 0
    assert len(bench.received()) <= 60
    bench.tables["experiment"]["max_queries"] = 10_000
    for number, folder in enumerate(folders, 1):
        assert bench.run("--shard", f"{number}/2", out=folder) == 0
    assert "merge it with the others" in capsys.readouterr().out
