"""However a run is cut into shards, the merged run is the run at once."""

import json
import sqlite3
from contextlib import closing

from medstress.api.run import Run
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
