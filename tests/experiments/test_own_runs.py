"""`explain` and `test` of one's own run need no file; a folder never says whom to ask."""

import json
import shutil
import stat
from pathlib import Path
from types import SimpleNamespace

import pytest

import medstress as ms
from medstress.api.results import Run
from medstress.cli.app import medstress_cli
from medstress.core.errors import UsageError
from medstress.experiment.own_runs import own_run

ASKS = ("--all", "--limit", "1", "--quiet")
MARK = """
import os
open(os.environ["EXECUTED"], "w").close()
"""
"""Leaves a file where the victim is imported."""


@pytest.fixture(scope="module")
def made(workbench, tmp_path_factory):
    """The run of this user, made once, and the state directory that knows it.

    Three questions, one attack, one seed, a victim that leaves a mark.
    """
    bench, state = workbench.Bench(tmp_path_factory.mktemp("run")), tmp_path_factory.mktemp("state")
    bench.write_items(workbench.questions(3))
    bench.tables["experiment"]["seeds"] = [0]
    bench.tables["attack"] = [bench.attack("random")]
    (bench.root / "victim.py").write_text(MARK + workbench.VICTIM, "utf-8")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MEDSTRESS_STATE", str(state / "mine"))
        patch.setenv("EXECUTED", str(state / "executed"))
        return bench.finished(), state


def contents(*folders: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for at in folders for p in at.rglob("*") if p.is_file()}


@pytest.fixture
def own(made, monkeypatch):
    """That run where it was made, which is as it was afterwards; nothing was executed so far."""
    bench, state = made
    bench.enter(monkeypatch)
    monkeypatch.setenv("MEDSTRESS_STATE", str(state / "mine"))
    monkeypatch.setenv("EXECUTED", str(state / "executed"))
    (state / "executed").unlink(missing_ok=True)
    before = contents(bench.root, state)
    yield bench
    for path in contents(bench.root, state).keys() - before.keys():
        path.unlink()
    for path, content in before.items():
        path.write_bytes(content)  # into the same file: it is known by its inode


@pytest.fixture
def executed(made):
    """Whether the victim was imported."""
    return (made[1] / "executed").exists


@pytest.fixture
def copied(own, workbench, tmp_path, monkeypatch):
    """A copy of the experiment and its run, for a user who made neither."""
    (tmp_path / "copy").mkdir()
    copy = workbench.Bench(tmp_path / "copy")
    copy.tables = own.tables
    shutil.copytree(own.root, copy.root, dirs_exist_ok=True)
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "other"))
    return copy.enter(monkeypatch)


@pytest.fixture
def explain(capsys):
    """Explain a success of a folder; returns the exit code and what stderr says."""

    def call(folder: Path, *extra: str) -> tuple[int, str]:
        capsys.readouterr()
        code = medstress_cli(["explain", str(folder), *ASKS, *extra])
        return code, capsys.readouterr().err

    return call


def test_a_run_of_ones_own_needs_no_file_but_a_yes(own, made, explain, executed, monkeypatch):
    (entry,) = (made[1] / "mine" / "runs").glob("*.json")
    assert entry.stem == Run(own.out).manifest()["id"]
    assert stat.S_IMODE(entry.stat().st_mode) == 0o600
    n_calls = len(own.received())
    code, err = explain(own.out)
    assert code == 2
    assert "careful: python victim.py:answer, this machine" in err
    assert "add --yes" in err
    (own.root / "experiment.toml").unlink()
    said = iter(("no\n", "\n", "yes\n"))
    terminal = SimpleNamespace(isatty=lambda: True, readline=lambda: next(said))
    monkeypatch.setattr("sys.stdin", terminal)
    assert [explain(own.out)[0] for _ in range(2)] == [2, 2]
    assert len(own.received()) == n_calls
    assert explain(own.out)[0] == 0
    assert len(own.received()) > n_calls
    assert executed()
    code, err = explain(own.out, "--yes")
    assert (code, "careful: python victim.py:answer" in err) == (0, True)


def test_a_copy_that_claims_the_id_of_another_folder_is_refused(own, explain, executed, tmp_path):
    copy = Path(shutil.copytree(own.out, tmp_path / "copy"))
    for yes in ((), ("--yes",)):
        code, err = explain(copy, *yes)
        assert code == 2
        assert f"{copy} is not the folder that this run was made in" in err
        assert "add --experiment FILE" in err
    assert not executed()
    assert explain(copy, "--experiment", str(own.write()))[0] == 0


def test_a_run_of_one_user_is_a_strangers_for_another(
    own, explain, executed, tmp_path, monkeypatch
):
    """Its target is a file that the folder's maker put there; `--yes` is refused."""
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "other"))
    monkeypatch.chdir(own.root)
    for yes in ((), ("--yes",)):
        code, err = explain(own.out, *yes)
        assert (code, f"{own.out} was not made here" in err) == (2, True)
    assert not executed()
    assert not list(tmp_path.glob("other/runs/*"))


def test_a_folder_put_in_place_of_ones_own_is_a_strangers(own, explain, executed, tmp_path):
    """It claims the id, and stands where the run was made."""
    aside = tmp_path / "aside"
    own.out.rename(aside)
    shutil.copytree(aside, own.out)
    code, err = explain(own.out, "--yes")
    shutil.rmtree(own.out)
    aside.rename(own.out)
    assert (code, "is not the folder that this run was made in" in err) == (2, True)
    assert not executed()


def test_an_id_that_is_none_names_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "mine"))
    (tmp_path / "secret.json").write_text(json.dumps({"folder": str(tmp_path.resolve())}))
    for claimed in ("../../secret", "", "0" * 31, 7, None, {"a": 1}):
        with pytest.raises(UsageError, match="was not made here"):
            own_run(tmp_path, {"id": claimed}, lambda _: 0)


def test_a_run_whose_rows_were_changed_is_nobodys(own, workbench, explain, executed):
    """Its successes would be asked with one's own keys: the chain was made again, and differs."""
    with workbench.forged(own.out) as db:
        db.execute("UPDATE verdicts SET result = replace(result, 'a', 'b') WHERE id = 1")
    code, err = explain(own.out, "--yes")
    assert (code, "is not the folder that this run was made in" in err) == (2, True)
    assert not executed()


def test_a_function_that_was_edited_is_not_even_imported(own, explain, executed):
    path = own.root / "victim.py"
    path.write_text(path.read_text("utf-8") + "# edited\n")
    code, err = explain(own.out, "--yes")
    assert (code, "victim.py is not what this run asked" in err) == (2, True)
    assert not executed()


def test_a_folder_from_elsewhere_is_ones_own_once_one_has_asked_something_there(copied, explain):
    n_calls = len(copied.received())
    assert copied.run() == 0
    assert len(copied.received()) == n_calls
    assert explain(copied.out, "--yes")[0] == 2
    assert copied.run("--set", "experiment.seeds=[0, 1]") == 0
    assert explain(copied.out, "--yes")[0] == 0


def test_a_run_from_python_is_remembered_as_a_file(own, explain, tmp_path, monkeypatch):
    tables = {name: value for name, value in own.tables.items() if name != "experiment"}
    typed = ms.Experiment(name="typed", seeds=own.tables["experiment"]["seeds"], **tables)
    for number, experiment in enumerate((own.tables, typed)):
        monkeypatch.chdir(own.root)
        out = tmp_path / str(number)
        ms.run(experiment, out, overrides=["experiment.max_failed=1"], quiet=True)
        monkeypatch.chdir(tmp_path)
        code, err = explain(out, "--yes")
        assert code == 0, err


def test_a_state_directory_that_cannot_be_written_stops_no_run_and_is_said_once(
    copied, tmp_path, monkeypatch, capsys
):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("MEDSTRESS_STATE", str(tmp_path / "file" / "below"))
    assert copied.run("--fresh") == 0
    assert capsys.readouterr().err.count("the state directory cannot be written") == 1
