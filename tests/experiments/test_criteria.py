"""Criteria and slices of whole runs: what is fixed, refused, judged and saved."""

import pytest

from medstress.api.run import Run, run
from medstress.core.errors import UsageError
from medstress.experiment.verify import verify_folder

VICTIM = '''
"""Wrong on changed prompts of a planted share of the questions; unreadable where they say so."""

import random
import re


def answer(prompts):
    return [_answer(prompt) for prompt in prompts]


def _answer(prompt):
    number = int(re.search(r"case\\s+([0-9]+)", prompt, re.IGNORECASE)[1])
    key = number % 4
    if number in UNREADABLE:
        return "no idea"
    is_clean = prompt.lower().count("zumab") == 4
    is_fooled = not is_clean and random.Random(number).random() < RATE
    return "ABCD"[(key + is_fooled) % 4]


RATE, UNREADABLE = {rate}, {unreadable}
'''


@pytest.fixture
def planted(bench, workbench):
    """`planted(rate, n, ...)`: questions, and a victim that the attack fools at a rate."""

    def plant(rate=0.3, n=60, unreadable=(), **require):
        victim = VICTIM.replace("{rate}", str(rate)).replace("{unreadable}", str(set(unreadable)))
        (bench.root / "victim.py").write_text(victim, encoding="utf-8")
        rows = workbench.questions(n)
        for i, row in enumerate(rows):
            row["subject"] = "heart" if i % 2 else "lung"
            row["rare"] = "yes" if i == 5 else "no"
        bench.write_items(rows)
        bench.tables["experiment"] |= {"seeds": [0], "flip_check": False}
        bench.tables["experiment"].setdefault("controls", False)
        bench.tables["victim"][0]["batch_size"] = 4
        bench.tables["attack"] = [bench.attack("random", budget=2)]
        if require:
            bench.tables["require"] = [require]
        return bench

    return plant


def judged(bench, number=0):
    return Run(bench.out).summary()["requirements"][number]


def test_a_missed_criterion_ends_with_3(planted):
    bench = planted(0.3)
    bench.tables["require"] = [
        {"metric": "asr", "max_high": 0.6},
        {"metric": "asr", "max_high": 0.2, "where": {"group": "drugs"}, "at_budget": 1},
        {"metric": "accuracy_after", "min_low": 0.1},
    ]
    assert bench.run() == 3
    found = Run(bench.out).summary()["requirements"]
    assert [each["met"] for each in found] == [True, False, True]
    assert found[1]["bound"] == {"max_high": 0.2}
    assert found[1]["row"]["group"] == "drugs"
    assert found[1]["estimate"]["n"] == 59
    assert set(found[1]) >= {"metric", "at_budget", "control", "slice", "against", "reason"}


def test_a_run_that_gets_items_an_attack_or_a_model_later_says_so_beside_its_criteria(planted):
    bench = planted(0.1, n=8, metric="asr", max_high=0.9)

    def caution():
        bench.run()
        return judged(bench)["caution"]

    assert caution() is None
    bench.tables["attack"].append(bench.attack("farthest"))
    assert caution() == "the run was extended once after its first query"
    bench.tables["victim"].append({**bench.tables["victim"][0], "name": "other", "version": "2"})
    assert caution() == "the run was extended 2 times after its first query"
    assert caution() == "the run was extended 2 times after its first query"


def test_failed_trials_go_before_missed_criteria(planted):
    bench = planted(0.9, n=20, metric="asr", max_high=0.1)
    victim = bench.root / "victim.py"
    text = victim.read_text("utf-8").replace(
        "    is_clean", "    if number == 7:\n        raise ValueError('ill')\n    is_clean"
    )
    victim.write_text(text, encoding="utf-8")
    bench.tables["victim"][0]["batch_size"] = 1
    assert bench.run() == 1
    assert judged(bench)["met"] is False


def test_a_finished_run_needs_its_baseline_no_more_and_an_extension_does(planted, said):
    old = planted(0.1, n=8)
    run(old.write(), old.root / "baseline")
    bench = planted(0.1, n=8, metric="asr", max_high=0.9, against={"run": "baseline"})
    run(bench.write(), bench.out)
    before = Run(bench.out).manifest()
    assert verify_folder(bench.out).notes == []
    (bench.root / "baseline").rename(bench.root / "elsewhere")
    run(bench.write(), bench.out)
    assert Run(bench.out).manifest() == before
    # What another folder decides is not called forged.
    found = verify_folder(bench.out)
    assert found.holds, found.broken
    assert "criterion 1 of summary.json, against the run baseline, which" in found.notes[0]
    planted(0.1, n=10)
    with pytest.raises(UsageError) as error:
        run(bench.write(), bench.out)
    said(str(error.value), "baseline holds no run")
    assert Run(bench.out).manifest() == before


def test_slices_that_a_finished_run_gets_are_called_post_hoc_and_nothing_is_asked(planted):
    bench = planted(n=8)
    run(bench.write(), bench.out)
    before = Run(bench.out).summary()
    bench.tables["slices"] = {"by": ["subject"]}
    run(bench.write(), bench.out)
    after = Run(bench.out).summary()
    assert Run(bench.out).manifest()["slices"]["label"] == "post hoc"
    assert after["experiment"]["finished"] == before["experiment"]["finished"]
    assert after["slices"]
    assert after["root"] not in (None, before["root"])


def test_a_baseline_must_have_something_to_compare(planted, workbench, said):
    bench = planted(0.1, n=8)
    run(bench.write(), bench.root / "baseline")
    bench.tables["require"] = [{"metric": "asr", "max_high": 0.1, "against": {"run": "baseline"}}]

    def refused(*words):
        with pytest.raises(UsageError) as error:
            run(bench.write(), bench.out)
        said(str(error.value), "against", *words)
        assert not (bench.out / "run.sqlite").exists()

    rows = workbench.questions(8)
    bench.write_items([{**row, "id": f"other{i}"} for i, row in enumerate(rows)])
    refused("no item in common")
    planted(0.2, n=8)
    bench.tables["attack"][0]["budget"] = 3
    refused("differ from the baseline")
    bench.tables["attack"][0]["label"] = "another"
    refused("'another'")
    bench.tables["require"][0]["against"] = {"run": "nowhere"}
    refused("nowhere")


def entry(**keys):
    return {"metric": "asr", "max_high": 0.5, **keys}


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ({"require": [{"metric": "asr"}]}, ("max_high or min_low",)),
        ({"require": [entry(min_low=0.1)]}, ("two entries",)),
        ({"require": [entry(max_high=20)]}, ("max_high = 20",)),
        ({"require": [entry(metric="asr_net")]}, ("max_high on asr", "min_low on asr_net")),
        ({"require": [entry(metric="asrr")]}, ("did you mean 'asr'",)),
        ({"require": [entry(metric="control")]}, ("has no control",)),
        ({"require": [entry(control="no_op")]}, ("control is for", "'asr'")),
        ({"require": [entry(at_budget=6)]}, ("at_budget = 6", "at most 2")),
        ({"require": [entry(metric="accuracy", at_budget=1)]}, ("at_budget is for",)),
        ({"require": [entry(where={"group": "drug"})]}, ("did you mean 'drugs'",)),
        ({"require": [entry(where={"grop": "drugs"})]}, ("'grop'",)),
        ({"require": [entry(slice={"by": "subject"})]}, ("[slices] by = ['subject']",)),
        ({"slices": {"by": ["subjct"]}}, ("did you mean 'subject'",)),
        ({"require": [entry(metric="f1")]}, ("'f1'", "there are: accuracy, ")),
    ],
)
def test_bad_criteria_are_refused_before_anything_is_asked(planted, said, tables, words):
    bench = planted(n=8)
    for name, table in tables.items():
        bench.tables[name] = table
    with pytest.raises(UsageError) as error:
        run(bench.write(), bench.out)
    said(str(error.value), *words)
    assert not bench.out.exists()
