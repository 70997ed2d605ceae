"""`medstress compare`: two runs, two victims of one run, and what cannot be compared."""

import json
import shutil
import xml.etree.ElementTree as ET

import pytest

import medstress as ms

WORSE = ("luck < 40", "luck < 140")


@pytest.fixture(scope="module")
def made(workbench, tmp_path_factory):
    """Runs `a` and `b` of one experiment, 40 items and two seeds; B's function errs more often."""
    bench = workbench.Bench(tmp_path_factory.mktemp("compared"))
    bench.write_items(workbench.questions(40))
    bench.tables["attack"] = [bench.attack("random", budget=3)]
    with pytest.MonkeyPatch.context() as patch:
        bench.enter(patch)
        assert bench.run(out=bench.root / "a") == 0
        (bench.root / "victim.py").write_text(workbench.VICTIM.replace(*WORSE), encoding="utf-8")
        assert bench.run(out=bench.root / "b") == 0
    return bench


@pytest.fixture
def two(bench, made):
    """A copy of both runs and of what they read."""
    shutil.copytree(made.root, bench.root, dirs_exist_ok=True)
    bench.tables["experiment"]["seeds"] = [0, 1]
    return bench


def test_a_worse_build_is_named_and_exits_3(two, medstress):
    told = medstress("compare", "a", "b")
    assert told.code == 3
    first = told.out.splitlines()[0]
    assert first.startswith("B is worse than A under random: accuracy after the attack is ")
    assert "for exactly these names and [" in first
    assert "for names like these" in first
    assert "A and B differ in weights, settings or code of victim.py:answer (" in told.out
    assert medstress("compare", "b", "a").code == 0


def test_the_same_build_again_is_undecided(two, medstress):
    assert two.run(out=two.root / "again") == 0
    told = medstress("compare", "b", "again")
    assert told.code == 0
    assert told.out.startswith("Undecided, as the interval reaches 0, under random")
    assert "Nothing that is recorded differs." in told.out
    assert medstress("compare", "b", "again", "--margin", "0.01").code == 3


def test_json_python_and_files_say_the_same(two, medstress):
    told = medstress("compare", "a", "b", "--json", "--junit", "j.xml", "--markdown", "m.md")
    found = json.loads(told.out)
    assert found == ms.compare("a", "b").as_json()
    assert found == ms.compare(ms.Run("a"), ms.Run("b")).as_json()
    assert (found["format"], found["verdict"], found["fails"]) == (3, "worse", True)
    row = found["rows"][0]
    assert (row["decides"], row["metric"], row["n_pairs"]) == (True, "accuracy_after", 78)
    assert row["names_like_these"]["low"] < row["difference"]["value"]
    case = ET.parse(two.root / "j.xml").getroot()[0][0]
    assert case.find("failure").text == row["sentence"] == found["sentence"]
    page = (two.root / "m.md").read_text("utf-8")
    assert "B is worse than A" in page
    assert "| accuracy after | random |" in page


def test_a_run_that_cannot_be_read_is_an_error_in_junit(two, medstress, said):
    told = medstress("compare", "a", "missing", "--junit", "j.xml")
    assert told.code == 2
    said(told.err, "missing")
    assert ET.parse(two.root / "j.xml").getroot().get("errors") == "1"


def test_another_vocabulary_is_refused_unless_it_is_what_is_compared(two, medstress, said):
    names = two.root / "few.txt"
    known = (two.root / "names.txt").read_text("utf-8").splitlines()
    names.write_text("\n".join(known[: len(known) // 2]) + "\n", "utf-8")
    two.tables["entities"][0]["vocabulary"] = "few.txt"
    assert two.run(out=two.root / "c") == 0
    told = medstress("compare", "b", "c")
    assert told.code == 2
    said(told.err, "vocabulary", "--factor group")
    found = json.loads(medstress("compare", "b", "c", "--factor", "group", "--json").out)
    assert found["rows"][0]["metric"] == "asr"


def test_two_victims_of_one_run(two, medstress, workbench, said):
    """Each is compared as it would be in a run of its own."""
    (two.root / "old.py").write_text(workbench.VICTIM, encoding="utf-8")
    two.tables["victim"].append({"name": "old", "backend": "python", "target": "old.py:answer"})
    assert two.run(out=two.root / "c") == 0
    told = medstress("compare", "c#old", "c#careful", "--json")
    found = json.loads(told.out)
    assert (told.code, found["verdict"], found["factor"]) == (3, "worse", "victim")
    assert found == ms.compare("c#old", "c#careful").as_json()
    apart = json.loads(medstress("compare", "a", "b", "--json").out)
    for one, other in zip(found["rows"], apart["rows"], strict=True):
        assert one["difference"] == other["difference"]
        assert one["p_adjusted"] == other["p_adjusted"]
    mixed = json.loads(medstress("compare", "a", "c#careful", "--json").out)
    assert mixed["rows"][0]["difference"] == apart["rows"][0]["difference"]
    said(medstress("compare", "c#olld", "c#careful").err, "did you mean 'old'")
    assert medstress("compare", "c#old", "c#old").code == 2
