"""Which of the user's own files a command executes, as docs/safety.md says; of a folder's, none."""

import shutil
from pathlib import Path

import pytest

LEAVES_A_MARK = """
import os
with open(os.environ["EXECUTED"], "a") as stream:
    stream.write(os.path.basename(__file__)[:-3] + " ")
"""
DISTANCE = f"""{LEAVES_A_MARK}
def apart(key, names):
    return [1.0 + abs(len(key) - len(name)) for name in names]
"""


@pytest.fixture
def executed(tmp_path, monkeypatch):
    """The names of modules executed so far, and no more of them."""
    log = tmp_path / "executed.log"
    monkeypatch.setenv("EXECUTED", str(log))

    def names() -> set[str]:
        found = set(log.read_text().split()) if log.exists() else set()
        log.unlink(missing_ok=True)
        return found

    return names


@pytest.mark.parametrize(
    ("command", "own"),
    [(["run", "--dry-run"], {"victim", "far"}), (["perturb", "--to", "perturbed.jsonl"], {"far"})],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_command_executes_the_files_of_the_users_own_that_the_page_names(
    bench, workbench, medstress, tmp_path, executed, command, own
):
    bench.write_items(workbench.questions(40))
    (tmp_path / "far.py").write_text(DISTANCE)
    (tmp_path / "victim.py").write_text(LEAVES_A_MARK + (tmp_path / "victim.py").read_text())
    bench.tables["entities"][0]["distance"] = "far.py:apart"
    bench.tables["attack"] = [bench.attack("pdws", n=[-5, 5])]
    name, *rest = command
    told = medstress(name, bench.write(), *rest)
    assert told.code == 0, told.err
    assert executed() == own


def test_a_check_executes_nothing_of_the_users_own(bench, workbench, medstress, tmp_path, executed):
    bench.write_items(workbench.questions(40))
    (tmp_path / "far.py").write_text(DISTANCE)
    own = ("--set", "entities.distance=far.py:apart", "--to", "typed.jsonl")
    assert medstress("check", bench.root / "items.jsonl", *own).code == 0
    assert executed() == set()


READINGS = (
    ["summary"],
    ["case"],
    ["verify"],
    ["report", "--out", "report.html"],
    pytest.param(["figures", "--out", "figures"], marks=pytest.mark.release),
    ["export", "--table", "trials", "--to", "rows.jsonl"],
    ["review", "--export", "cases.csv"],
)


@pytest.mark.parametrize("command", READINGS, ids=lambda words: " ".join(words))
def test_reading_executes_nothing_that_lies_in_a_folder_or_that_it_names(
    finished, medstress, tmp_path, monkeypatch, executed, command
):
    folder = Path(shutil.copytree(finished.out, tmp_path / "given"))
    modules = ("victim", "sitecustomize", "conftest", "json", "orjson", "jinja2", "numpy", "polars")
    for name in modules:
        (folder / f"{name}.py").write_text(LEAVES_A_MARK)
    (folder / "qstab.jinja").write_text("{{ cycler.__init__.__globals__.os.system('touch x') }}")
    monkeypatch.chdir(folder)
    elsewhere = tmp_path / "out"
    elsewhere.mkdir()
    name, *rest = command
    given = [elsewhere / each if "." in each or each == "figures" else each for each in rest]
    told = medstress(name, ".", *given)
    assert told.code == 0, told.err
    assert executed() == set()
    assert not (folder / "x").exists()
    held = {path.name for path in finished.out.iterdir()}
    if name == "review" and "--export" in rest:
        held.add("reviews.sqlite")  # which codes stand for which cases
    assert {path.name for path in folder.iterdir()} == {
        *held,
        *(f"{each}.py" for each in modules),
        "qstab.jinja",
    }
