"""`medstress compare`: two runs, two arms of one run, and what cannot be compared."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

import medstress as ms

WORSE = ("luck < 40", "luck < 140")


@pytest.fixture
def two(bench, workbench):
    """Runs `a` and `b` of one experiment, 40 items and two seeds; B's function errs more often."""
    bench.write_items(workbench.questions(40))
    bench.tables["experiment"]["seeds"] = [0, 1]
    assert bench.run(out=bench.root / "a") == 0
    (bench.root / "victim.py").write_text(workbench.VICTIM.replace(*WORSE), encoding="utf-8")
    assert bench.run(out=bench.root / "b") == 0
    return bench


def test_a_worse_build_is_named_and_exits_3(two, medstress):
    told = medstress("compare", "a", "b")
    assert told.code == 3
    assert "verdict: worse" in told.out
    assert "B is worse than A: accuracy after the attack" in told.out
    assert "factor: version ('victim.py:answer'" in told.out
    assert "for names like these, not only for those that were drawn" in told.out
    assert "family secondary: 2 tests, Holm" in told.out
    assert medstress("compare", "b", "a").code == 0


def test_the_same_build_again_is_compared_over_time(two, medstress):
    assert two.run(out=two.root / "again") == 0
    told = medstress("compare", "b", "again")
    assert told.code == 0
    assert "factor: time: nothing that is recorded differs" in told.out
    assert "undecided" in told.out
    assert medstress("compare", "b", "again", "--margin", "0.01").code == 3
    passed = medstress("compare", "b", "again", "--margin", "0.01", "--on-undecided", "pass")
    assert passed.code == 0


def test_json_python_and_files_say_the_same(two, medstress):
    told = medstress("compare", "a", "b", "--json", "--junit", "j.xml", "--markdown", "m.md")
    found = json.loads(told.out)
    assert found == ms.compare("a", "b").as_json()
    assert found == ms.compare(ms.Run("a"), ms.Run("b")).as_json()
    assert (found["format"], found["verdict"], found["fails"]) == (1, "worse", True)
    assert found["factor"]["name"] == "version"
    row = found["rows"][0]
    assert (row["role"], row["metric"], row["n_pairs"]) == ("primary", "accuracy_after", 78)
    assert row["for_names_like_these"]["low"] < row["difference"]["value"]
    case = ET.parse(two.root / "j.xml").getroot()[0][0]
    assert case.find("failure").text == row["sentence"]
    page = (two.root / "m.md").read_text("utf-8")
    assert "verdict: worse" in page
    assert "| primary | accuracy after the attack |" in page


def test_a_run_that_cannot_be_read_is_an_error_in_junit(two, medstress, said):
    told = medstress("compare", "a", "missing", "--junit", "j.xml")
    assert told.code == 2
    said(told.err, "missing")
    assert ET.parse(two.root / "j.xml").getroot().get("errors") == "1"


def test_two_arms_of_one_run(two, medstress, said):
    two.tables["attack"] = [two.attack("random"), two.attack("nearest")]
    two.tables["compare"] = {"a": "random", "b": "nearest", "factor": "attack", "margin": 0.2}
    assert two.run(out=two.root / "c") == 0
    told = medstress("compare", "c", "--json")
    found = json.loads(told.out)
    assert (found["factor"]["name"], found["margin"]) == ("attack", 0.2)
    (row,) = found["rows"]
    assert (row["metric"], row["role"]) == ("asr", "primary")
    assert [row[side]["attack"] for side in ("a", "b")] == ["random", "nearest"]
    said(medstress("compare", "a").err, "[compare]")


def test_stored_name_substitutions_have_an_interval_over_names(two, medstress, workbench):
    """Names are in the edits; those of harmless changes are none."""
    (two.root / "old.py").write_text(workbench.VICTIM, encoding="utf-8")
    assert medstress("export", "a", "--table", "attacked", "--to", "set.jsonl").code == 0
    for name, module in (("old", "old"), ("new", "victim")):
        (two.root / f"{name}.toml").write_text(
            f'[experiment]\nname = "{name}"\nseeds = [0, 1]\n'
            '[[dataset]]\nname = "attacked"\npath = "set.jsonl"\n'
            f'[[victim]]\nname = "m"\nbackend = "python"\ntarget = "{module}.py:answer"\n'
            '[[attack]]\nname = "attacked"\n',
            encoding="utf-8",
        )
        told = medstress("run", f"{name}.toml", "--out", f"f_{name}", "--quiet")
        assert told.code == 0, told.err
    (row,) = [
        row
        for row in json.loads(medstress("compare", "f_old", "f_new", "--json").out)["rows"]
        if row["role"] == "primary"
    ]
    names = row["for_names_like_these"]
    assert names["low"] < row["difference"]["value"] < names["high"]


def test_a_deterministic_attack_has_no_interval_over_names(two, medstress):
    two.tables["attack"] = [two.attack("nearest"), two.attack("farthest")]
    two.tables["compare"] = {"a": "nearest", "b": "farthest"}
    assert two.run(out=two.root / "c") == 0
    assert "no interval over names: the attack is deterministic" in medstress("compare", "c").out


@pytest.mark.parametrize(
    "compare",
    [
        {"a": "random", "b": "nearst"},
        {"a": "random", "b": "careful"},
        {"a": "random", "b": "random"},
        {"a": "random"},
        {"a": "random", "b": "nearest", "factor": "victim"},
        {"a": "random", "b": "nearest", "factor": "weather"},
        {"a": "random", "b": "nearest", "margin": 1.5},
        {"a": "other", "b": "careful"},
    ],
)
def test_bad_arms_are_refused_before_anything_is_asked(bench, medstress, compare, said):
    """`other` differs from `careful` in its function and in its wrapper."""
    (bench.root / "other.py").write_text("def answer(prompts):\n    return ['A'] * len(prompts)\n")
    bench.tables["victim"].append(
        {"name": "other", "backend": "python", "target": "other.py:answer", "wrap": ["majority"]}
    )
    bench.tables["attack"].append(bench.attack("nearest"))
    bench.tables["compare"] = compare
    told = medstress(*bench.arguments())
    assert told.code == 2
    said(told.err)
    assert medstress(*bench.arguments("--dry-run")).code == 2
    assert bench.received() == []


@pytest.mark.parametrize(
    "primary",
    [
        {"metric": "asr_net"},
        {"metric": "asr", "control": "no_op"},
        {"metric": "speed"},
        {"metric": "asr", "at": 3},
    ],
)
def test_a_bad_primary_is_refused(bench, medstress, primary, said):
    path = bench.write()
    pairs = ", ".join(f"{key} = {json.dumps(value)}" for key, value in primary.items())
    text = path.read_text("utf-8").replace("seeds = [0]", f"seeds = [0]\nprimary = {{{pairs}}}")
    path.write_text(text, encoding="utf-8")
    told = medstress("run", path, "--quiet")
    assert told.code == 2
    said(told.err, "primary")
    assert bench.received() == []


@pytest.mark.parametrize(
    "arguments",
    [
        ("a", "a"),
        ("a", "b", "--margin", "1"),
        ("a", "b", "--margin", "much"),
        ("a", "other_items"),
        ("a", "two_factors"),
    ],
)
def test_what_cannot_be_compared_is_refused(two, medstress, workbench, arguments, said):
    name = arguments[1]
    if name == "two_factors":
        two.tables["attack"] = [two.attack("random", budget=2)]
        assert two.run(out=two.root / name) == 0
    if name == "other_items":
        two.write_items(workbench.questions(8, context="An old man."))
        assert two.run(out=two.root / name) == 0
    told = medstress("compare", *arguments)
    assert told.code == 2
    said(told.err)


def test_an_incomplete_run_is_compared_on_what_both_hold(two, medstress):
    assert two.run("--set", "experiment.max_queries=30", out=two.root / "part") == 0
    told = medstress("compare", "b", "part")
    assert told.code == 0
    assert "the run of B is not complete" in told.out


def test_the_dry_run_says_what_the_planned_items_can_show(two, medstress):
    two.tables["compare"] = {"a": "random", "b": "nearest", "margin": 0.04}
    two.tables["attack"].append(two.attack("nearest"))
    new = medstress(*two.arguments("--dry-run", out=two.root / "new"))
    assert (
        "power on cases/drugs: 39 planned items x accuracy .500 (assumed) = 20 eligible: a "
        "difference of "
    ) in new.out
    assert ".05 needs 459 eligible (918 planned); equivalence within .04 needs" in new.out
    known = medstress(*two.arguments("--dry-run", out=two.root / "a"))
    assert "(of the run in " in known.out
    two.tables["compare"]["accuracy"] = 0.8
    given = medstress(*two.arguments("--dry-run", out=two.root / "a"))
    assert "39 planned items x accuracy .800 ([compare] accuracy) = 31 eligible" in given.out


def test_the_primary_is_fixed_by_the_file_that_a_run_began_with(two, medstress):
    path = two.write()
    text = path.read_text("utf-8")
    named = text.replace("seeds = [0, 1]", 'seeds = [0, 1]\nprimary = {metric = "asr"}')
    path.write_text(named, encoding="utf-8")
    for folder in ("first", "second"):
        assert medstress("run", path, "--out", folder, "--quiet").code == 0
    found = json.loads(medstress("compare", "first", "second", "--json").out)
    assert found["primary"]["fixed_in_the_file"] is True
    assert [row["role"] for row in found["rows"]] == ["primary", "exploratory", "exploratory"]
    assert found["rows"][0]["metric"] == "asr"
    # One that joins a run that has begun is post hoc.
    assert medstress("run", path, "--out", "b", "--quiet").code == 0
    late = json.loads(medstress("compare", "first", "b", "--json").out)
    assert late["primary"]["fixed_in_the_file"] is False
    assert "post hoc" in late["primary"]["why"]
