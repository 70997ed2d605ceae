"""How a shard ends is said in full: what failed, which limit stopped it."""

from medstress.cli.app import medstress_cli


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
