"""Running again on a folder: resume, extend, refuse, throw away, retry."""

import os
import shutil
import sqlite3
from contextlib import closing
from xml.etree import ElementTree

import pytest

from medstress.analyses.run import Run as Read
from medstress.api.run import Run


def dump(folder):
    """All rows of a run."""
    with closing(sqlite3.connect(folder / "run.sqlite")) as db:
        return list(db.iterdump())


def test_a_finished_run_that_is_called_again_asks_nothing_and_says_so_first(
    bench, tmp_path, capsys
):
    assert bench.run() == 0
    first = capsys.readouterr()
    calls, rows, summary = bench.received(), bench.rows(), bench.summary()
    own = summary["experiment"]
    said = f"Nothing was asked: this run was measured from {own['started']} to {own['finished']}."
    stored = dump(bench.out)
    for flags in ((), ("--retry-failed",), ("--junit", str(tmp_path / "junit.xml"))):
        assert bench.run(*flags) == 0
        again = capsys.readouterr()
        assert again.out == f"{said}\n{first.out}"
        assert again.err == first.err
    assert bench.received() == calls
    assert bench.rows() == rows
    assert bench.summary() == summary, "times and all"
    assert dump(bench.out) == stored
    suite = ElementTree.parse(tmp_path / "junit.xml").getroot()[0]
    assert suite[0].tag == "properties"
    assert suite[0][0].attrib == {"name": "note", "value": said}


def test_a_finished_run_keeps_its_times_when_what_is_no_part_of_it_changes(done):
    bench = done
    before = bench.summary()
    bench.tables["victim"][0]["parameters"] = 7e9
    assert bench.run("--set", "experiment.max_failed=3") == 0
    after = bench.summary()
    times = ("started", "finished", "complete")
    assert [after["experiment"][name] for name in times] == [
        before["experiment"][name] for name in times
    ]
    manifest = Run(bench.out).manifest()
    assert manifest["victims"]["careful"]["parameters"] == 7e9
    assert manifest["config"]["experiment"]["max_failed"] == 3
    assert after["root"] is not None


def test_the_same_experiment_in_another_folder_resumes(done, tmp_path):
    bench = done
    n_calls = len(bench.received())
    moved = tmp_path / "elsewhere"
    moved.mkdir()
    for name in ("items.jsonl", "names.txt", "victim.py"):
        (tmp_path / name).rename(moved / name)
    bench.root = moved
    bench.tables["victim"][0]["batch_size"] = 7
    assert bench.run() == 0
    assert len(bench.received()) == n_calls


def more_items(bench, workbench):
    bench.write_items(workbench.questions(15))


def another_victim(bench, workbench):
    bench.tables["victim"].insert(0, {"name": "mock", "backend": "mock"})


def another_data_set(bench, workbench):
    bench.tables["dataset"].append({"name": "sample", "limit": 3, "label": "more"})


@pytest.mark.parametrize(
    "change", [more_items, another_victim, another_data_set], ids=lambda change: change.__name__
)
def test_extending_keeps_old_trials_and_asks_only_for_new_ones(bench, workbench, change):
    bench.tables["attack"] = bench.tables["attack"][:2]
    if change is another_data_set:  # its questions are not those the victim knows
        bench.tables["victim"] = [{"name": "mock", "backend": "mock"}]
    assert bench.run() == 0
    rows, calls = bench.rows(), bench.received()
    before = workbench.snapshot(bench.out, bench.root / "copy")
    change(bench, workbench)
    assert bench.run() == 0
    after = workbench.snapshot(bench.out, bench.root / "copy")
    found = {row.trial_id: row for row in bench.rows()}
    assert len(found) > len(rows)
    assert [found[row.trial_id] for row in rows] == rows
    assert before.answered < after.answered
    if change is not another_data_set:
        new = len(bench.received()) - len(calls)
        asked = after.answered - before.answered
        if change is another_victim:  # the mock keeps no log
            assert new == 0
            asked = ()
        assert new == len(asked)
    assert bench.summary()["experiment"]["complete"]


@pytest.fixture(scope="module")
def six(workbench, tmp_path_factory):
    """A finished run on six questions."""
    made = workbench.Bench(tmp_path_factory.mktemp("six"))
    made.embed_words()
    made.write_items(workbench.questions(6))
    return made.finished()


def changed_source(bench, workbench):
    with (bench.root / "victim.py").open("a", encoding="utf-8") as stream:
        stream.write("# another thought\n")


def changed_attack(bench, workbench):
    bench.tables["attack"][1]["n"] = -6


def dropped_victim(bench, workbench):
    bench.tables["victim"][0]["name"] = "careless"


def changed_item(bench, workbench):
    rows = workbench.questions(6)
    rows[4]["context"] = "Now with a story."
    bench.write_items(rows)


def other_vectors(bench, workbench):
    """Other numbers in a file of equal length and time."""
    path = bench.root / "words.vec"
    before, text = path.stat(), path.read_text("utf-8")
    path.write_text(text.translate(str.maketrans("12", "21")), "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (changed_source, "model 'careful' changed (the file of victim.py:answer was edited"),
        (dropped_victim, "model 'careful' is missing (it is now called 'careless': label"),
        (changed_attack, "attack 'pdws' changed (n was -5.0, is -6.0)"),
        (other_vectors, "entity group 'drugs' changed (its names, synonyms or vectors"),
        (changed_item, "1 item of dataset 'cases' is missing or changed (changed: 'q4')"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_changed_experiment_is_refused_by_name_and_nothing_is_touched(
    bench, workbench, six, capsys, parted, change, named
):
    shutil.copytree(six.root, bench.root, dirs_exist_ok=True)
    bench.tables["entities"] = six.tables["entities"]
    rows, n_calls = bench.rows(), len(bench.received())
    capsys.readouterr()
    change(bench, workbench)
    assert bench.run() == 2
    sentence, _ = parted(capsys.readouterr().err)
    assert sentence.startswith(f"medstress: {bench.out} holds another experiment: {named}")
    differences = sentence.partition("another experiment: ")[2].partition(". Choose")[0]
    assert "missing" not in differences.replace(named, "")
    assert "--out" in sentence
    assert len(bench.received()) == n_calls > 0
    assert bench.rows() == rows
    if change is changed_source:
        assert bench.run("--fresh") == 0
        assert len(bench.received()) > n_calls


def test_fresh_throws_away_the_run_and_asks_everything_again(done):
    bench = done
    rows, n_calls = bench.rows(), len(bench.received())
    (bench.out / "notes.txt").write_text("mine", encoding="utf-8")
    assert bench.run("--fresh") == 0
    assert len(bench.received()) == 2 * n_calls
    assert bench.rows() == rows
    assert (bench.out / "notes.txt").read_text("utf-8") == "mine"


def test_fresh_leaves_a_folder_alone_that_holds_no_run(bench):
    bench.out.mkdir()
    (bench.out / "thesis.tex").write_text("years of work", encoding="utf-8")
    assert bench.run("--fresh") == 2
    assert (bench.out / "thesis.tex").exists()
    assert bench.received() == []


@pytest.fixture
def sometimes(bench):
    """A victim that raises in its first and its ninth batch as long as `broken` exists."""
    path = bench.root / "victim.py"
    text = path.read_text("utf-8").replace(
        "    time.sleep(",
        "    COUNT.append(prompts)\n"
        "    if len(COUNT) in (1, 9) and os.path.exists(os.environ['VICTIM_LOG'] + '.broken'):\n"
        "        raise RuntimeError('no connection')\n"
        "    time.sleep(",
    )
    path.write_text(text + "\n\nCOUNT = []\n", encoding="utf-8")
    broken = bench.log.with_name(bench.log.name + ".broken")
    broken.touch()
    return broken


def test_failed_trials_stay_failed_until_they_are_retried(bench, workbench, sometimes):
    assert bench.run() == 1
    rows, n_calls = bench.rows(), len(bench.received())
    failed = [row for row in rows if row.verdict == "failed"]
    at = {trial.id: trial.at for trial in Read.open(bench.out).trials}
    assert {at[row.trial_id] for row in failed} == {"baseline", "attack"}
    for row in rows:
        assert row.n_asked == row.n_paid + row.n_cached + row.n_failed
        assert row.n_failed == (row.verdict == "failed" and at[row.trial_id] == "attack")
    sometimes.unlink()
    assert bench.run() == 1
    assert len(bench.received()) == n_calls  # asked for nothing
    assert bench.rows() == rows
    before = workbench.snapshot(bench.out, bench.root / "copy")
    assert bench.run("--retry-failed") == 0
    after = workbench.snapshot(bench.out, bench.root / "copy")
    assert len(bench.received()) - n_calls == len(after.answered - before.answered)
    once = bench.root / "once"
    assert bench.run(out=once) == 0
    assert bench.rows() == bench.rows(once)
    assert workbench.numbers(bench.summary()) == workbench.numbers(bench.summary(once))


def test_a_limit_of_queries_is_never_exceeded_and_a_higher_one_goes_on(bench, workbench, whole):
    for most in (1, 50, 50, whole.n_calls - 1):
        assert bench.run("--set", f"experiment.max_queries={most}") == 0
        assert len(bench.received()) == most
        state = bench.summary()["experiment"]
        assert (state["complete"], state["finished"]) == (False, None)
    assert bench.run() == 0
    assert bench.summary()["experiment"]["complete"] is True
    assert bench.rows() == whole.rows
    assert len(bench.received()) == whole.n_calls
    assert workbench.ledger(bench.summary())["interrupted"] == 0
