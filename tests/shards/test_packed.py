"""Exchanges of a merged run in Parquet files: whatever is read stays the same."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run, merge
from medstress.audit.verify import verify_folder
from medstress.cli.app import medstress_cli
from medstress.core.errors import StoreError, UsageError
from medstress.store import packed
from medstress.store.packed_tables import FOLDER
from medstress.store.reader import RunReader


@pytest.fixture
def cut(bench):
    """Run the experiment in n shards: `cut(n)` -> their folders."""

    def make(n: int = 3) -> list[Path]:
        folders = [bench.root / "shards" / str(number) for number in range(1, n + 1)]
        for number, folder in enumerate(folders, 1):
            assert bench.run("--shard", f"{number}/{n}", out=folder) == 0
        return folders

    return make


@pytest.fixture
def both(bench, cut, monkeypatch):
    """Merge the same shards twice: exchanges in the ledger, and in Parquet files."""
    monkeypatch.setattr(packed, "GROUP", 7)  # so that trials lie across the parts that are read

    def make(folders: list[Path]) -> tuple[Path, Path]:
        to = bench.root / "in ledger", bench.root / "in files"
        for folder, exchanges in zip(to, ("sqlite", "parquet"), strict=True):
            merge(folders, folder, exchanges=exchanges)
        return to

    return make


def _read(folder: Path) -> dict[str, Any]:
    """All that a reader says of a run."""
    reader = RunReader(folder)
    try:
        trials = list(reader.trials())
        numbers = [trial.trial for trial in trials]
        victims = reader.manifest["victims"]
        return {
            "trials": trials,
            "exchanges": list(reader.exchanges()),
            "edits": list(reader.attack_edits()),
            "calls": list(reader.attack_calls()),
            "answered": list(reader.answered_queries(numbers)),
            "baseline": list(reader.answered_queries(numbers, "baseline")),
            "consumed": [reader.consumed(number) for number in numbers],
            "requests": [reader.requests(number, "attack", 0) for number in numbers],
            "other": reader.other_counts(),
            "roles": reader.role_counts(),
            "per query": reader.calls_per_query(),
            "totals": (reader.totals(), reader.n_from_cache()),
            "spending": [
                (each.role, each.victim, each.n_calls, each.tokens_in, each.tokens_out)
                for each in reader.spending()
            ],
            "replies": [reader.clean_replies(victim, n) for victim in victims for n in (1, 5)],
        }
    finally:
        reader.close()


def _same_reading(one: Path, other: Path, *, timed: bool = True) -> None:
    expected, found = _read(one), _read(other)
    if not timed:
        for each in (expected, found):
            each["exchanges"] = [replace(row, seconds=0.0) for row in each["exchanges"]]
    for name, value in expected.items():
        assert found[name] == value, name


def test_a_reader_says_the_same_of_both_forms_and_after_an_extension(bench, cut, both, same):
    rows = [json.loads(line) for line in (bench.root / "items.jsonl").read_text().splitlines()]
    # Two shards buy the same calls.
    bench.write_items([rows[0], {**rows[0], "id": "twin", "answer_idx": "B"}, *rows[1:5]])
    one, other = both(cut(2))
    assert {path.name for path in (other / FOLDER).iterdir()} == {"1.parquet", "2.parquet"}
    _same_reading(one, other)
    n = len(bench.received())
    bench.tables["analysis"] = {"transfer": True, "universality": [1, 4]}
    bench.tables["experiment"]["seeds"] = [0, 1, 2]
    asked = []
    for folder in (one, other):
        assert bench.run(out=folder) == 0
        asked.append(len(bench.received()) - n)
        n = len(bench.received())
    # What is packed is found by its key and not asked again.
    assert asked[0] == asked[1] > 0
    same(one, other)
    _same_reading(one, other, timed=False)
    assert verify_folder(other).holds
    n = len(bench.received())
    assert bench.run(out=other) == 0
    assert len(bench.received()) == n


def test_attempts_of_trials_that_failed_are_packed_too(bench, both):
    (bench.root / "victim.py").write_text(
        "import os\n\n\ndef answer(prompts):\n"
        "    if os.path.exists('broken') and any('case 6?' in prompt for prompt in prompts):\n"
        "        raise RuntimeError('down')\n    return ['A' for _ in prompts]\n"
    )
    bench.tables["victim"] = [{**bench.tables["victim"][0], "version": "1"}]
    folders = [bench.root / str(number) for number in (1, 2)]
    (bench.root / "broken").touch()
    codes = {bench.run("--shard", f"{number}/2", out=at) for number, at in enumerate(folders, 1)}
    assert codes == {0, 1}
    with pytest.raises(UsageError, match="trials failed"):
        merge(folders, bench.root / "refused", exchanges="parquet")
    assert not (bench.root / "refused").exists()
    (bench.root / "broken").unlink()
    for number, folder in enumerate(folders, 1):
        assert bench.run("--shard", f"{number}/2", "--retry-failed", out=folder) == 0
    one, other = both(folders)
    _same_reading(one, other)
    for folder in (one, other):
        assert bench.run(out=folder) == 0
        assert verify_folder(folder).holds
    assert Run(one).summary()["root"] == Run(other).summary()["root"]


def test_a_changed_or_missing_file_is_noticed_by_every_reader(bench, cut, capsys):
    merged = bench.root / "merged"
    merge(cut(2), merged, exchanges="parquet")
    assert bench.run(out=merged) == 0
    path = merged / FOLDER / "2.parquet"
    whole = path.read_bytes()
    path.write_bytes(whole[:-9] + bytes([whole[-9] ^ 1]) + whole[-8:])
    broken = verify_folder(merged).broken
    assert broken is not None
    assert broken.table == "exchanges/2.parquet"
    for command in ("report", "run"):
        given = [str(bench.write()), "--out", str(merged)] if command == "run" else [str(merged)]
        capsys.readouterr()
        assert medstress_cli([command, *given]) == 2
        assert "exchanges/2.parquet: expected digest" in capsys.readouterr().err
    path.unlink()
    for command in ("report", "verify"):
        assert medstress_cli([command, str(merged)]) == 2
        assert "2.parquet is missing" in capsys.readouterr().err
    path.write_bytes(whole)
    assert verify_folder(merged).holds


def test_a_packed_run_is_the_run_at_once_and_begins_anew(bench, cut, same):
    merged = bench.root / "merged"
    bench.tables["attack"] = bench.tables["attack"][:1]
    merge(cut(2), merged, exchanges="parquet")
    assert bench.run(out=merged) == 0
    assert bench.run() == 0
    same(bench.out, merged, reports=True)
    n = len(bench.received())
    assert bench.run("--fresh", out=merged) == 0
    assert len(bench.received()) > n
    assert not (merged / FOLDER).exists()
    assert verify_folder(merged).holds


def test_a_merge_that_was_killed_leaves_files_that_are_no_run(bench, cut, monkeypatch):
    folders, merged = cut(1), bench.root / "merged"

    def killed(*_):
        (merged / FOLDER).rename(bench.root / "left")
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("medstress.store.merging.link", killed)
        with pytest.raises(KeyboardInterrupt):
            merge(folders, merged, exchanges="parquet")
    assert not merged.exists()
    merged.mkdir()
    (bench.root / "left").rename(merged / FOLDER)
    (merged / FOLDER / ".medstress-0123.part").touch()
    with pytest.raises(StoreError, match="there is no run"):
        Run(merged).summary()
    merge(folders, merged, exchanges="sqlite")
    assert sorted(path.name for path in merged.iterdir()) == ["run.lock", "run.sqlite"]


def test_the_number_of_answers_chooses(bench, cut, monkeypatch, capsys):
    folders = cut(2)
    monkeypatch.setattr("medstress.running.merging.MOST_IN_LEDGER", 20)
    merge(folders, bench.root / "many")
    assert (bench.root / "many" / FOLDER).is_dir()
    # What is left may begin again, so it stays in the ledger.
    given = ["merge", str(folders[0]), "--out", str(bench.root / "part"), "--partial"]
    assert medstress_cli(given) == 0
    assert "all exchanges stay in run.sqlite: shard 2 of 2" in capsys.readouterr().out
    assert not (bench.root / "part" / FOLDER).exists()
    with pytest.raises(UsageError, match="shard 2 of 2 is missing, so trials may begin again"):
        merge(folders[:1], bench.root / "none", partial=True, exchanges="parquet")
