"""`medstress tune`: what it prints, writes, resumes and refuses."""

import json

import pytest

from medstress.api.run import Run
from rows import rows_of


@pytest.fixture
def tune(bench, workbench, medstress):
    """Forty questions, two groups of values of n; call it with further arguments."""
    bench.write_items(workbench.questions(60))
    bench.tables["experiment"]["seeds"] = [0, 1]
    bench.tables["attack"] = [{"name": "entity_substitution", "budget": 4}]
    bench.tables["tune"] = {"grid": [-30, -5, 5, 30]}

    def call(*extra):
        return medstress("tune", bench.write(), "--out", bench.out, "--quiet", *extra)

    return call


def items_of(folder):
    return {row.item_id for row in rows_of(folder)}


def test_n_is_chosen_on_some_items_and_the_same_command_again_asks_nothing(bench, tune):
    told = tune()
    assert (told.code, told.err) == (0, "")
    split = bench.out / "tuning"
    assert items_of(split) | items_of(bench.out) == {f"q{i}" for i in range(60)}
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


@pytest.mark.release
def test_a_limit_counts_both_runs_and_raising_it_resumes(bench, tune):
    whole = tune("--out", bench.root / "whole")
    n_calls = len(bench.received())
    told = tune("--set", "experiment.max_queries=30")
    assert "not complete" in told.out
    assert "has not chosen n yet" in told.out
    assert not (bench.out / "run.sqlite").exists()
    told = tune("--set", f"experiment.max_queries={n_calls - 20}")
    assert "not complete" in told.out
    assert (bench.out / "run.sqlite").is_file()
    assert len(bench.received()) <= 2 * n_calls - 20
    told = tune()
    assert told.code == 0
    assert told.out.replace(str(bench.out), "") == whole.out.replace(str(bench.root / "whole"), "")
    assert len(bench.received()) == 2 * n_calls


@pytest.mark.release
def test_each_victim_is_asked_only_with_the_n_chosen_for_it(bench, tune):
    bench.tables["victim"].append({"name": "mock", "backend": "mock"})
    bench.tables["attack"][0]["budget"] = 1
    assert tune().code == 0
    chosen = {(c["victim"], c["attack"]) for c in Run(bench.out).tuning()["choices"]}
    rows = [row for row in rows_of(bench.out) if "pdws" in row.attack]
    assert {(row.victim, row.attack) for row in rows} == chosen
    assert len(chosen) == 4
    assert Run(bench.out).manifest()["complete"]


def test_a_dry_run_asks_nothing_and_bounds_both_runs(bench, tune):
    told = tune("--dry-run")
    assert told.code == 0
    assert told.out.count("queries: at most") == 2
    assert "tuning split, 4 values of n" in told.out
    assert not bench.received()
    assert not bench.out.exists()


def test_a_folder_with_another_run_is_refused_before_anything_is_asked(
    bench, tune, medstress, workbench
):
    bench.write_items(workbench.questions(30))
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [{"name": "entity_substitution", "budget": 4, "n": -5}]
    assert bench.run() == 0
    n_calls = len(bench.received())
    told = tune()
    assert told.code == 2
    assert f"{bench.out} holds a run that was not tuned. Choose another folder" in told.err
    assert len(bench.received()) == n_calls
    assert tune("--fresh").code == 0
    told = tune("--set", "tune.share=1.0")
    assert "holds a run tuned with another share" in told.err
    told = tune("--set", "tune.share=0.3")
    assert (told.code, "holds another experiment" in told.err) == (2, True)
    told = medstress(*bench.arguments())
    assert (told.code, "holds another experiment" in told.err) == (2, True)


def test_a_victim_that_is_always_wrong_cannot_be_tuned_on(bench, tune):
    (bench.root / "victim.py").write_text("def answer(prompts):\n    return ['E'] * len(prompts)\n")
    told = tune()
    assert told.code == 2
    assert "victim 'careful' answered none of the " in told.err


@pytest.fixture
def with_a_hopeless_victim(bench):
    """Beside `careful`: one that is always wrong, and its own log of what it is asked."""
    (bench.root / "hopeless.py").write_text(
        "def answer(prompts):\n"
        f"    with open({str(bench.root / 'hopeless.txt')!r}, 'a') as log:\n"
        "        log.write('asked\\n' * len(prompts))\n"
        "    return ['E'] * len(prompts)\n",
        "utf-8",
    )
    careful = bench.tables["victim"]
    hopeless = {"name": "hopeless", "backend": "python", "target": "hopeless.py:answer"}
    bench.tables["victim"] = [hopeless, *careful]
    return careful


@pytest.mark.release
def test_a_victim_without_a_right_tuning_item_is_left_out_and_stops_no_other(
    bench, tune, with_a_hopeless_victim, medstress
):
    told = tune()
    rows = [row for row in rows_of(bench.out / "tuning") if row.victim == "hopeless"]
    n = len({row.item_id for row in rows if row.verdict != "not_attackable"})
    sentence = (
        f"hopeless on cases/drugs answered none of the {n} tuning questions correctly, so no n "
        "can be chosen and it is left out here."
    )
    assert (told.code, told.err) == (0, "")
    assert sentence in " ".join(told.out.split())
    assert {row.victim for row in rows_of(bench.out)} == {"careful"}
    assert {choice["victim"] for choice in Run(bench.out).tuning()["choices"]} == {"careful"}
    assert Run(bench.out).manifest()["complete"]
    assert sentence in " ".join(medstress("summary", bench.out).out.split())
    alone = bench.root / "alone"
    bench.tables["victim"] = with_a_hopeless_victim
    assert tune("--out", alone).code == 0
    assert Run(alone).summary()["results"] == Run(bench.out).summary()["results"]


@pytest.mark.release
def test_a_report_on_one_n_is_not_mixed_with_another(bench, tune):
    """With other seeds another n may be best; what the folder holds is then kept as it is."""
    assert tune("--set", "experiment.seeds=[0]").code == 0
    before = Run(bench.out).tuning()["choices"]
    codes = []
    for seeds in ([0, 1], [0, 1, 2], [0, 1, 2, 3]):
        told = tune("--set", f"experiment.seeds={seeds}")
        codes.append(told.code)
        if told.code:
            assert "holds a report with n = " in told.err
            assert [c["n"] for c in Run(bench.out).tuning()["choices"]] == [c["n"] for c in before]
    assert 2 in codes
