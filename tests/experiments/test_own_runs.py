"""`explain` and `test` of one's own run need no file; a folder never says whom to ask."""

import json
import shutil
import stat
from pathlib import Path

import pytest

import medstress as ms
from medstress.api.results import Run
from medstress.cli.app import medstress_cli
from medstress.core.errors import UsageError
from medstress.experiment.own_runs import own_run

ASKS = ("--all", "--limit", "1", "--quiet")
EVIL = """
import os
open(os.environ["EXECUTED"], "w").close()
from victim import answer
"""


@pytest.fixture
def bench(bench, workbench, tmp_path, monkeypatch):
    """Three questions, one attack, and a state directory of this user's own."""
    bench.write_items(workbench.questions(3))
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [bench.attack("random")]
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "mine"))
    monkeypatch.setenv("EXECUTED", str(tmp_path / "executed"))
    return bench


@pytest.fixture
def explain(bench, capsys):
    """Explain a success of a folder; returns the exit code and what stderr says."""

    def call(folder: Path, *extra: str) -> tuple[int, str]:
        capsys.readouterr()
        code = medstress_cli(["explain", str(folder), *ASKS, *extra])
        return code, capsys.readouterr().err

    return call


def entries(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "mine" / "runs").glob("*.json"))


def test_a_run_of_ones_own_needs_no_file_but_a_yes(bench, explain, tmp_path):
    assert bench.run() == 0
    (entry,) = entries(tmp_path)
    assert entry.stem == Run(bench.out).manifest()["id"]
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    n_calls = len(bench.received())
    code, err = explain(bench.out)
    assert code == 2
    assert "careful: python victim.py:answer, this machine" in err
    assert "add --yes" in err
    assert len(bench.received()) == n_calls
    (bench.root / "experiment.toml").unlink()
    code, err = explain(bench.out, "--yes")
    assert (code, "careful: python victim.py:answer" in err) == (0, True)
    assert len(bench.received()) > n_calls


@pytest.mark.parametrize(("answer", "code"), [("yes", 0), ("no", 2), ("", 2)])
def test_a_person_is_asked_and_only_yes_is_a_yes(bench, explain, monkeypatch, answer, code):
    assert bench.run() == 0
    n_calls = len(bench.received())

    class Terminal:
        def isatty(self):
            return True

        def readline(self):
            return f"{answer}\n"

    monkeypatch.setattr("sys.stdin", Terminal())
    assert explain(bench.out)[0] == code
    assert (len(bench.received()) > n_calls) == (code == 0)


@pytest.mark.parametrize("yes", [(), ("--yes",)])
def test_a_copy_that_claims_the_id_of_another_folder_is_refused(bench, explain, tmp_path, yes):
    assert bench.run() == 0
    copy = Path(shutil.copytree(bench.out, tmp_path / "copy"))
    n_calls = len(bench.received())
    code, err = explain(copy, *yes)
    assert code == 2
    assert f"{copy} is not the folder that this run was made in" in err
    assert "add --experiment FILE" in err
    assert len(bench.received()) == n_calls
    assert explain(copy, "--experiment", str(bench.write()))[0] == 0


def test_a_run_of_one_user_is_a_strangers_for_another(bench, explain, tmp_path, monkeypatch):
    """Its target is a file that the folder's maker put there; `--yes` is refused."""
    (bench.root / "evil.py").write_text(EVIL)
    bench.tables["victim"][0]["target"] = "evil.py:answer"
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "theirs"))
    assert bench.run() == 0
    (tmp_path / "executed").unlink()
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "mine"))
    monkeypatch.chdir(bench.root)
    for yes in ((), ("--yes",)):
        code, err = explain(bench.out, *yes)
        assert (code, f"{bench.out} was not made here" in err) == (2, True)
    assert not (tmp_path / "executed").exists()
    assert not (tmp_path / "mine" / "runs").exists() or not entries(tmp_path)


def test_a_folder_put_in_place_of_ones_own_is_a_strangers(
    bench, workbench, explain, tmp_path, monkeypatch
):
    """It claims the id, and stands where the run was made."""
    assert bench.run() == 0
    own = Run(bench.out).manifest()["id"]
    (bench.root / "evil.py").write_text(EVIL)
    bench.tables["victim"][0]["target"] = "evil.py:answer"
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "theirs"))
    assert bench.run(out=tmp_path / "evil") == 0
    (tmp_path / "executed").unlink()
    with workbench.forged(tmp_path / "evil") as db:
        db.execute("UPDATE manifest SET value = ? WHERE key = 'id'", (json.dumps(own),))
    shutil.rmtree(bench.out)
    shutil.move(tmp_path / "evil", bench.out)
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "mine"))
    n_calls = len(bench.received())
    code, err = explain(bench.out, "--yes")
    assert (code, "is not the folder that this run was made in" in err) == (2, True)
    assert not (tmp_path / "executed").exists()
    assert len(bench.received()) == n_calls


@pytest.mark.parametrize("claimed", ["../../secret", "", "0" * 31, 7, None, {"a": 1}])
def test_an_id_that_is_none_names_no_file(claimed, tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "mine"))
    (tmp_path / "secret.json").write_text(json.dumps({"folder": str(tmp_path.resolve())}))
    with pytest.raises(UsageError, match="was not made here"):
        own_run(tmp_path, {"id": claimed}, lambda _: 0)


def test_a_run_whose_rows_were_changed_is_nobodys(bench, workbench, explain):
    """Its successes would be asked with one's own keys: the chain was made again, and differs."""
    assert bench.run() == 0
    n_calls = len(bench.received())
    with workbench.forged(bench.out) as db:
        db.execute("UPDATE verdicts SET result = replace(result, 'a', 'b') WHERE id = 1")
    code, err = explain(bench.out, "--yes")
    assert (code, "is not the folder that this run was made in" in err) == (2, True)
    assert len(bench.received()) == n_calls


def test_a_function_that_was_edited_is_not_even_imported(bench, explain, tmp_path):
    assert bench.run() == 0
    path = bench.root / "victim.py"
    path.write_text(EVIL.replace("from victim import answer", "") + path.read_text("utf-8"))
    code, err = explain(bench.out, "--yes")
    assert (code, "victim.py is not what this run asked" in err) == (2, True)
    assert not (tmp_path / "executed").exists()


def test_a_folder_from_elsewhere_is_ones_own_once_one_has_asked_something_there(
    bench, explain, tmp_path, monkeypatch
):
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "theirs"))
    assert bench.run() == 0
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "mine"))
    assert bench.run() == 0, "nothing is asked"
    assert explain(bench.out, "--yes")[0] == 2
    bench.tables["experiment"]["seeds"] = [0, 1]
    assert bench.run() == 0
    assert explain(bench.out, "--yes")[0] == 0


def test_a_run_from_python_is_remembered_as_a_file(bench, explain, tmp_path, monkeypatch):
    monkeypatch.chdir(bench.root)
    tables = bench.tables
    for experiment in (tables, ms.Experiment(name="typed", **_typed(tables))):
        shutil.rmtree(bench.out, ignore_errors=True)
        ms.run(experiment, bench.out, overrides=["experiment.max_failed=1"])
        monkeypatch.chdir(tmp_path.parent)
        code, err = explain(bench.out, "--yes")
        assert code == 0, err
        monkeypatch.chdir(bench.root)


def _typed(tables):
    keys = {name: value for name, value in tables.items() if name != "experiment"}
    return {**keys, "seeds": tables["experiment"]["seeds"]}


def test_a_state_directory_that_cannot_be_written_stops_no_run_and_is_said_once(
    bench, tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "file" / "below"))
    assert bench.run() == 0
    assert capsys.readouterr().err.count("the state directory cannot be written") == 1
