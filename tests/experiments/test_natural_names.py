"""A run whose attacks leave out names that make their option unnatural."""

from __future__ import annotations

import json

from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.core.outcomes import Verdict

ODD = ("abistatin (oral), NOS", "belastatin, oral, NOS")
SHORT = "q11"
"""Its wrong options are so short that every name is too long for them."""


def prepare(bench, *attacks):
    names = bench.root / "names.txt"
    names.write_text("\n".join([*ODD, names.read_text("utf-8")]), "utf-8")
    rows = [
        json.loads(line) for line in (bench.root / "items.jsonl").read_text("utf-8").splitlines()
    ]
    (row,) = (row for row in rows if row["id"] == SHORT)
    row["options"] = list("wxyz")
    row["mentions"] = [{**each, "end": 1} for each in row["mentions"]]
    bench.write_items(rows)
    bench.tables["experiment"] |= {"seeds": [0], "controls": ["same_type"]}
    bench.tables["attack"] = list(attacks)


def test_odd_names_are_never_asked_but_counted_and_the_run_verifies(bench):
    prepare(bench, bench.attack("farthest", naturalness=True, budget=40))
    assert bench.run() == 0
    rows = bench.rows()
    short = [row for row in rows if row.item_id == SHORT]
    assert {row.verdict for row in short} == {Verdict.NOT_ATTACKABLE}
    counts = [json.loads(row.n_excluded) for row in rows if row.n_excluded is not None]
    assert counts
    assert all(count["form"] == len(ODD) for count in counts)
    prompts = [prompt for _, prompt in bench.received()]
    assert any("olol" in prompt for prompt in prompts)
    assert not any("NOS" in prompt for prompt in prompts)
    assert medstress_cli(["verify", str(bench.out)]) == 0


def test_limits_stand_in_the_spec_and_are_exported(bench, tmp_path):
    filtered = bench.attack("pdws", n=-5, naturalness={"form": 0.9})
    prepare(bench, bench.attack("farthest", naturalness=True), filtered, bench.attack("nearest"))
    bench.tables["experiment"]["controls"] = False
    assert bench.run() == 0
    specs = {row.attack: json.loads(row.attack_spec) for row in bench.rows()}
    assert specs["farthest"]["naturalness"] == {"grammar": 0.4, "form": 0.95}
    assert specs["pdws"]["naturalness"] == {"form": 0.9}
    assert "naturalness" not in specs["nearest"]
    for name in ("rows.csv", "rows.parquet", "rows.jsonl"):
        arguments = ["export", str(bench.out), "--table", "trials", "--to", str(tmp_path / name)]
        assert medstress_cli(arguments) == 0
    assert Run(bench.out).trials().height == len(bench.rows())
    assert medstress_cli(bench.arguments("--dry-run")) == 0
