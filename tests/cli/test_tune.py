"""`medstress tune`: what it prints, writes, resumes and refuses."""

import json
import shutil

import pytest

from forged import rebuild
from medstress.api.run import Run
from medstress.experiment.verify import verify_folder
from rows import rows_of

N = 40


@pytest.fixture
def tune(ran, bench, workbench, medstress):
    """Questions, two groups of values of n, a folder with another run; takes more arguments."""
    bench.write_items(workbench.questions(N))
    bench.tables["experiment"]["seeds"] = [0, 1]
    bench.tables["attack"] = [{"name": "entity_substitution", "budget": 4}]
    bench.tables["tune"] = {"grid": [-30, -5, 5, 30]}

    def call(*extra):
        return medstress("tune", bench.write(), "--out", bench.out, "--quiet", *extra)

    return call


def items_of(folder):
    return {row.item_id for row in rows_of(folder)}


def test_n_is_chosen_on_some_items_and_the_same_command_again_asks_nothing(bench, tune):
    n_calls = len(bench.received())
    told = tune()
    assert told.code == 2
    assert f"{bench.out} holds a run that was not tuned. Choose another folder" in told.err
    assert len(bench.received()) == n_calls
    told = tune("--fresh")
    assert (told.code, told.err) == (0, "")
    split = bench.out / "tuning"
    assert items_of(split) | items_of(bench.out) == {f"q{i}" for i in range(N)}
    assert not items_of(split) & items_of(bench.out)
    assert {row.attack.rpartition(" ")[2] for row in rows_of(split)} == {
        *("n=-30", "n=-5", "n=5", "n=30")
    }
    result = json.loads((bench.out / "tune.json").read_text("utf-8"))
    chosen = {choice["n"] for choice in result["choices"]}
    labels = {row.attack for row in rows_of(bench.out)}
    assert labels == {
        "entity_substitution sampler=random",
        *(f"entity_substitution sampler=pdws n={n:g}" for n in chosen),
    }
    by_n = {point["n"]: point["estimate"]["value"] for point in result["grids"][0]["points"]}
    for choice in result["choices"]:
        rivals = [by_n[n] for n in by_n if (n < 0) == (choice["n"] < 0)]
        assert choice["tuned_on"]["estimate"]["value"] == max(rivals)
        held_out = next(
            row for row in Run(bench.out).summary()["results"] if row["attack"] == choice["attack"]
        )
        assert choice["reported_on"]["estimate"] == held_out["asr"]
    n_calls = len(bench.received())
    again = tune()
    said, _, rest = again.out.partition("\n")
    assert (again.code, rest) == (0, told.out)
    assert said.startswith("Nothing was asked: this run was measured from ")
    assert len(bench.received()) == n_calls
    told = tune("--set", "tune.share=0.3")
    assert (told.code, "holds another experiment" in told.err) == (2, True)
    assert verify_folder(bench.out).holds
    kept = bench.out / "tune.json"
    was = kept.read_text("utf-8")
    kept.write_text(was.replace('"optimistic": false', '"optimistic": true'), "utf-8")
    assert str(verify_folder(bench.out).broken).startswith("tune.json: expected optimistic")
    kept.write_text(was, "utf-8")
    better = "json_set(value, '$.grids[0].points[0].estimate.value', 0.99)"
    rebuild(bench.out, f"UPDATE manifest SET value = {better} WHERE key = 'tuning'")
    told = str(verify_folder(bench.out).broken)
    assert "expected tuning: grids[0].points[0].estimate.value" in told
    shutil.rmtree(split)
    assert any("which n was chosen" in note for note in verify_folder(bench.out).notes)
