"""What cannot be cut or merged is refused in one sentence, before anything is asked or written."""

import json
import shutil
import sqlite3
from contextlib import closing

import pytest

from medstress.cli.app import medstress_cli
from medstress.experiment import merging
from medstress.store.chain import RUN_CHAIN, link
from medstress.store.run_store import lock_folder
from medstress.store.shards import cut


@pytest.fixture
def refused(capsys, said, parted):
    """Give a command line, and expect code 2 and the stored sentence with some words."""

    def check(arguments, *words):
        capsys.readouterr()
        assert medstress_cli([*map(str, arguments), "--quiet"]) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1, err
        said(parted(err)[0], *words)

    return check


@pytest.fixture(scope="module")
def made(bench_in, tmp_path_factory):
    """The folder of three finished shards of a run with one attack, made once."""
    with pytest.MonkeyPatch.context() as patch:
        bench = bench_in(tmp_path_factory.mktemp("made"), patch)
        bench.tables["attack"] = bench.tables["attack"][1:]
        for number in (1, 2, 3):
            out = bench.root / str(number)
            assert bench.run("--shard", f"{number}/3", out=out) == 0
    return bench.root


@pytest.fixture
def shards(bench, made):
    """Copies of them in the folders 1, 2 and 3, of the same experiment."""
    bench.tables["attack"] = bench.tables["attack"][1:]
    for number in "123":
        shutil.copytree(made / number, bench.root / number)
    shutil.copy(made / bench.log.name, bench.log)
    return [bench.root / number for number in "123"]


def test_a_folder_of_another_shard_or_of_a_whole_run_is_refused(bench, shards, refused):
    n = len(bench.received())
    refused(bench.arguments("--shard", "2/3", out=shards[0]), "holds shard 1/3")
    refused(bench.arguments("--shard", "1/4", out=shards[0]), "holds shard 1/3")
    refused(bench.arguments(out=shards[0]), "--shard is not given")
    assert len(bench.received()) == n
    assert bench.run() == 0
    n = len(bench.received())
    refused(bench.arguments("--shard", "1/3"), "a whole run")
    assert len(bench.received()) == n


def test_a_tuned_experiment_is_tuned_before_it_is_cut(bench, refused):
    bench.tables["tune"] = {"share": 0.5}
    bench.tables["attack"] = [bench.attack("pdws", n=-5)]
    refused(bench.arguments("--shard", "1/2"), "medstress tune", "tune.json")
    assert not bench.received()


def test_items_that_moved_to_another_shard_are_not_lost(workbench, bench, shards, refused, capsys):
    n = len(bench.received())
    rows = workbench.questions(14)
    bench.write_items([rows[13], *rows[:12]])  # what is new comes first
    given = bench.arguments("--shard", "1/3", out=shards[0])
    refused(given, "belong to other shards", "asks what is new alone")
    # A hint at another folder would buy the whole shard again.
    assert medstress_cli([*map(str, given)]) == 2
    assert "next: medstress merge" in capsys.readouterr().err
    assert len(bench.received()) == n
    merged = bench.root / "merged"
    assert medstress_cli(["merge", *map(str, shards), "--out", str(merged), "--quiet"]) == 0
    assert bench.run(out=merged) == 0
    assert not any("q0" in line for line in map(str, bench.received()[n:]))
    assert n < len(bench.received()) < n + n // 6


def test_missing_doubled_and_foreign_shards_are_refused(workbench, bench, shards, refused):
    to = bench.root / "merged"

    def merge(*folders, words):
        refused(["merge", *folders, "--out", to], *words)
        assert not to.exists()

    one, two, three = shards
    merge(one, three, words=["shard 2 of 3 is missing"])
    merge(two, words=["shards 1, 3 of 3 are missing"])
    merge(one, two, three, one, words=["is given twice"])
    shutil.copytree(one, bench.root / "copy")
    merge(one, two, three, bench.root / "copy", words=["both shard 1/3"])
    merge(one, two, bench.root / "nowhere", words=["nowhere"])
    merge(one, two, bench.write(), words=["is a file"])
    of_four = bench.root / "of_four"
    assert bench.run("--shard", "3/4", out=of_four) == 0
    merge(one, two, of_four, words=["shard 3/4", "shard 1/3"])
    assert bench.run() == 0
    merge(one, two, three, bench.out, words=["a whole run"])
    with lock_folder(two):
        merge(one, two, three, words=["another medstress process is working"])


def test_a_half_finished_shard_is_refused_by_default(bench, shards, refused, monkeypatch):
    # Else it would count as ended by its limit.
    monkeypatch.setattr("medstress.experiment.run.reached", lambda *_: [])
    cut_short = bench.root / "cut short"
    flags = ("--shard", "3/3", "--set", "experiment.max_queries=9")
    assert bench.run(*flags, out=cut_short) == 0
    refused(
        ["merge", *shards[:2], cut_short, "--out", bench.root / "merged"],
        "shard 3/3",
        "is not finished",
    )
    assert not (bench.root / "merged").exists()


def test_shards_that_were_cut_otherwise_are_refused(bench, shards, refused, monkeypatch):
    def otherwise(datasets, n):
        return [[number % n + 1 for number in numbers] for numbers in cut(datasets, n)]

    monkeypatch.setattr("medstress.experiment.plan.cut", otherwise)
    other = bench.root / "other"
    assert bench.run("--shard", "2/3", out=other) == 0  # the items of shard 1
    given = [shards[0], other, shards[2]]
    refused(["merge", *given, "--out", bench.root / "merged"], "cut the plan of one of them")
    assert not (bench.root / "merged").exists()


def test_a_shard_that_is_run_while_it_is_merged_is_refused(bench, shards, refused, monkeypatch):
    write = merging._write

    def later(*arguments):
        assert bench.run("--shard", "2/3", out=shards[1]) == 0
        return write(*arguments)

    monkeypatch.setattr(merging, "_write", later)
    refused(["merge", *shards, "--out", bench.root / "merged"], "run while it was merged")
    assert not (bench.root / "merged").exists()


def test_nothing_is_merged_into_a_folder_that_holds_something(bench, shards, refused):
    for name in ("run", "notes"):
        to = bench.root / name
        to.mkdir()
        (to / ("run.sqlite" if name == "run" else "notes.txt")).write_text("mine")
        refused(["merge", *shards, "--out", to], "it exists already")
        assert [path.read_text() for path in to.iterdir()] == ["mine"]
    refused(["merge", *shards, "--out", bench.write()], "it exists already")
    refused(["merge", *shards, "--out", ""], "empty")


def test_a_shard_with_an_odd_value_never_ends_in_a_bug(bench, shards, capsys):
    whole = shards[1] / "run.sqlite"
    kept = whole.read_bytes()
    for key, value in (("shard", None), ("shard", {"a": None}), ("parts", [[]]), ("parts", 10**40)):
        whole.write_bytes(kept)
        with closing(sqlite3.connect(whole, isolation_level=None)) as db:
            db.execute("BEGIN")
            db.execute("INSERT INTO manifest (key, value) VALUES (?, ?)", (key, json.dumps(value)))
            link(db, RUN_CHAIN)
            db.execute("COMMIT")
            db.execute("PRAGMA journal_mode = DELETE")
        to = bench.root / "merged"
        code = medstress_cli(["merge", *map(str, shards), "--out", str(to), "--quiet"])
        err = capsys.readouterr().err
        assert code in (0, 2), (value, err)
        assert to.exists() == (code == 0)
        shutil.rmtree(to, ignore_errors=True)


def test_a_shard_whose_calls_were_changed_is_named_and_not_merged(bench, shards, capsys):
    change = "UPDATE exchanges SET query = query + 1 WHERE trial = 1 AND seq = 0"
    with closing(sqlite3.connect(shards[1] / "run.sqlite", isolation_level=None)) as db:
        assert db.execute(change).rowcount == 1
        db.execute("PRAGMA journal_mode = DELETE")
    to = bench.root / "merged"
    assert medstress_cli(["merge", *map(str, shards), "--out", str(to), "--quiet"]) == 2
    # Its digests are others each time, so it is no stored sentence.
    assert f"{shards[1] / 'run.sqlite'} is not as medstress wrote it" in capsys.readouterr().err
    assert not (bench.root / "merged").exists()
