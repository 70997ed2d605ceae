"""`medstress compare`: two runs, two victims of one run, and what cannot be compared."""

from __future__ import annotations

import json
import shutil
import xml.etree.ElementTree as ET

import pytest

import medstress as ms

WORSE = ("luck < 40", "luck < 140")


@pytest.fixture(scope="module")
def made(workbench, tmp_path_factory):
    """Runs `a` and `b` of one experiment, 40 items and two seeds; B's function errs more often."""
    made = workbench.Bench(tmp_path_factory.mktemp("two"))
    made.write_items(workbench.questions(40))
    made.tables["attack"] = [made.attack("random", budget=3)]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert made.run(out=made.root / "a") == 0
        (made.root / "victim.py").write_text(workbench.VICTIM.replace(*WORSE), encoding="utf-8")
        assert made.run(out=made.root / "b") == 0
    return made


@pytest.fixture
def two(bench, made):
    """A copy of both."""
    shutil.copytree(made.root, bench.root, dirs_exist_ok=True)
    bench.tables["experiment"]["seeds"] = [0, 1]
    return bench


def test_a_worse_build_is_named_and_exits_3(two, medstress):
    told = medstress("compare", "a", "b")
    assert told.code == 3
    assert "verdict: worse" in told.out
    assert "B is worse than A: accuracy after the attack" in told.out
    assert "factor: version ('victim.py:answer'" in told.out
    assert "for names like these, not only for those that were drawn" in told.out
    assert "family others: 2 tests, Holm" in told.out
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
    assert (row["decides"], row["metric"], row["n_pairs"]) == (True, "accuracy_after", 78)
    assert row["for_names_like_these"]["low"] < row["difference"]["value"]
    case = ET.parse(two.root / "j.xml").getroot()[0][0]
    assert case.find("failure").text == row["sentence"]
    page = (two.root / "m.md").read_text("utf-8")
    assert "verdict: worse" in page
    assert "| yes | accuracy after the attack |" in page


def test_a_run_that_cannot_be_read_is_an_error_in_junit(two, medstress, said):
    told = medstress("compare", "a", "missing", "--junit", "j.xml")
    assert told.code == 2
    said(told.err, "missing")
    assert ET.parse(two.root / "j.xml").getroot().get("errors") == "1"


@pytest.mark.release
def test_two_attacks(two, medstress):
    two.tables["attack"] = [two.attack("nearest")]
    assert two.run(out=two.root / "c") == 0
    told = medstress("compare", "b", "c", "--margin", "0.2", "--json")
    found = json.loads(told.out)
    assert (found["factor"]["name"], found["margin"]) == ("attack", 0.2)
    (row,) = found["rows"]
    assert (row["metric"], row["decides"]) == ("asr", True)
    assert [row[side]["attack"] for side in ("a", "b")] == ["random", "nearest"]


def test_two_victims_of_one_run(two, medstress, workbench, said):
    """Each is compared as it would be in a run of its own."""
    (two.root / "old.py").write_text(workbench.VICTIM, encoding="utf-8")
    two.tables["victim"].append({"name": "old", "backend": "python", "target": "old.py:answer"})
    assert two.run(out=two.root / "c") == 0
    told = medstress("compare", "c#old", "c#careful", "--json")
    found = json.loads(told.out)
    assert (told.code, found["verdict"], found["factor"]["name"]) == (3, "worse", "victim")
    assert found == ms.compare("c#old", "c#careful").as_json()
    apart = json.loads(medstress("compare", "a", "b", "--json").out)
    for one, other in zip(found["rows"], apart["rows"], strict=True):
        assert one["difference"] == other["difference"]
        assert one["p_adjusted"] == other["p_adjusted"]
    mixed = json.loads(medstress("compare", "a", "c#careful", "--json").out)
    assert mixed["rows"][0]["difference"] == apart["rows"][0]["difference"]
    said(medstress("compare", "c#olld", "c#careful").err, "did you mean 'old'")
    assert medstress("compare", "c#old", "c#old").code == 2


@pytest.mark.release
def test_the_measure_that_is_asked_for_decides(two, medstress):
    found = json.loads(medstress("compare", "a", "b", "--metric", "asr", "--json").out)
    assert [(row["metric"], row["decides"]) for row in found["rows"]] == [
        ("asr", True),
        ("accuracy_after", False),
        ("accuracy", False),
    ]
    assert (found["metric"], found["verdict"]) == ("asr", found["rows"][0]["verdict"])
    assert medstress("compare", "a", "b", "--metric", "asr_net").code == 2


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
        if row["decides"]
    ]
    names = row["for_names_like_these"]
    assert names["low"] < row["difference"]["value"] < names["high"]


@pytest.mark.release
def test_a_deterministic_attack_has_no_interval_over_names(two, medstress):
    for folder, sampler in (("c", "nearest"), ("d", "farthest")):
        two.tables["attack"] = [two.attack(sampler)]
        assert two.run(out=two.root / folder) == 0
    told = medstress("compare", "c", "d")
    assert "no interval over names: the attack is deterministic" in told.out


@pytest.mark.parametrize(
    "arguments",
    [
        ("a",),
        ("a", "a"),
        ("a", "b", "--metric", "speed"),
        ("a", "b", "--margin", "1"),
        ("a", "b", "--margin", "much"),
        ("a", "other_items"),
        ("a", "two_factors"),
    ],
)
def test_what_cannot_be_compared_is_refused(two, medstress, workbench, arguments, said):
    name = arguments[-1]
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
    two.tables["attack"].append(two.attack("nearest"))
    new = medstress(*two.arguments("--dry-run", out=two.root / "new"))
    assert (
        "power on cases/drugs: 39 planned items x accuracy .500 (assumed) = 20 eligible: a "
        "difference of "
    ) in new.out
    assert ".05 needs 459 eligible (918 planned); equivalence within .02 needs" in new.out
    known = medstress(*two.arguments("--dry-run", out=two.root / "a"))
    assert "(of the run in " in known.out
