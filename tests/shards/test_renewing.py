"""Shards that were extended are merged anew; nothing that the merged run holds alone is lost."""

from __future__ import annotations

import pytest

import medstress as ms
from medstress.api.run import Run
from medstress.cli.app import medstress_cli


@pytest.fixture
def folders(bench):
    """Two shards of a small plan, to be extended."""
    bench.tables["victim"] = bench.tables["victim"][:1]
    bench.tables["attack"] = bench.tables["attack"][:1]
    bench.tables["experiment"]["seeds"] = [0]
    return [bench.root / "s" / "1", bench.root / "s" / "2"]


@pytest.fixture
def cycle(bench, folders):
    """Run the shards, merge them anew and complete the run, as the scripts of a cluster do."""

    def go(*flags: str, completes: bool = True) -> int:
        for number, folder in enumerate(folders, 1):
            assert bench.run("--shard", f"{number}/2", *flags, out=folder) == 0
        to = str(bench.root / "merged")
        code = medstress_cli(["merge", *map(str, folders), "--out", to, "--renew", "--quiet"])
        return bench.run(*flags, out=bench.root / "merged") if completes and not code else code

    return go


@pytest.mark.release
def test_an_extension_is_bought_once_and_merged_anew(bench, cycle, folders, capsys):
    assert cycle() == 0
    n = len(bench.received())
    merged = bench.root / "merged"
    kept = (merged / "run.sqlite").stat().st_ino
    (merged / "notes.txt").write_text("mine")
    capsys.readouterr()
    assert cycle() == 0
    assert "holds all that its shards do, and stays" in capsys.readouterr().out
    assert (merged / "run.sqlite").stat().st_ino == kept
    assert len(bench.received()) == n
    bench.tables["experiment"]["seeds"] = [0, 1]
    assert cycle(completes=False) == 0
    bought = len(bench.received())
    assert bought > n
    assert bench.run(out=merged) == 0
    assert len(bench.received()) == bought
    ms.merge(folders, merged, renew=True)
    assert (merged / "notes.txt").read_text() == "mine"
    assert bench.run() == 0
    assert Run(merged).summary()["root"] == Run(bench.out).summary()["root"] is not None


@pytest.mark.parametrize("own", ["calls", "reviews", "foreign", "whole"])
def test_what_only_the_merged_run_holds_is_never_removed(bench, cycle, capsys, said, parted, own):
    merged = bench.root / "merged"
    if own == "whole":
        assert bench.run(out=merged) == 0
    else:
        assert cycle() == 0
    bench.tables["experiment"]["seeds"] = [0, 1]
    if own == "calls":
        assert bench.run(out=merged) == 0
    if own == "reviews":
        (merged / "reviews.sqlite").touch()
    if own == "foreign":
        bench.tables["attack"][0]["budget"] = 2
        for each in (bench.root / "s").iterdir():
            (each / "run.sqlite").unlink()
    before = (merged / "run.sqlite").read_bytes()
    capsys.readouterr()
    assert cycle(completes=False) == 2
    said(parted(capsys.readouterr().err)[0], "is not merged anew")
    assert (merged / "run.sqlite").read_bytes() == before


def test_a_merge_anew_that_was_killed_is_begun_again(bench, cycle, monkeypatch):
    assert cycle() == 0
    bench.tables["experiment"]["seeds"] = [0, 1]

    def killed(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("medstress.store.merging.link", killed)
        assert cycle(completes=False) == 130
    assert cycle() == 0
    assert Run(bench.root / "merged").summary()["experiment"]["complete"] is True
