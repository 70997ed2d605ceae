"""The workbench with a small experiment, and the command line in this process."""

import io
import shutil
import sys
from dataclasses import dataclass

import pytest

from medstress.cli.app import medstress_cli


@dataclass(frozen=True)
class Told:
    """What a command answered."""

    code: int
    out: str
    err: str
    """Without the next command that a refusal ends with."""
    next: str = ""
    """That command."""


def small(workbench, root):
    """A small experiment: five questions, one attack, one seed, the logging victim."""
    made = workbench.Bench(root)
    made.write_items(workbench.questions(5))
    made.tables["experiment"]["seeds"] = [0]
    made.tables["attack"] = [made.attack("random", budget=3)]
    return made


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """The small experiment."""
    monkeypatch.chdir(tmp_path)
    return small(workbench, tmp_path).enter(monkeypatch)


@pytest.fixture(scope="session")
def small_run_with(workbench, tmp_path_factory):
    """Run the small experiment with a change: `small_run_with(lambda made: ...)`."""

    def run(change):
        made = small(workbench, tmp_path_factory.mktemp("small"))
        change(made)
        return made.finished()

    return run


@pytest.fixture(scope="session")
def small_run(small_run_with):
    """The small experiment and its run, made once."""
    return small_run_with(lambda made: None)


@pytest.fixture
def ran(bench, small_run):
    """A copy of both, which can go on."""
    shutil.copytree(small_run.root, bench.root, dirs_exist_ok=True)
    return bench


@pytest.fixture(scope="session")
def finished(workbench, tmp_path_factory):
    """A finished run of two victims and two attacks, made once."""
    made = workbench.Bench(tmp_path_factory.mktemp("finished"))
    made.tables["experiment"]["name"] = "finished"
    made.tables["victim"].append(
        {"name": "mock", "backend": "mock", "answer_by": "letter", "parameters": 1e6}
    )
    made.tables["attack"] = [made.attack("random"), made.attack("nearest")]
    return made.finished()


@pytest.fixture
def medstress(capsys, monkeypatch, parted):
    """The command line in this process: `medstress(*arguments)` -> code, stdout, stderr."""
    monkeypatch.setenv("COLUMNS", "100")

    def call(*arguments: object) -> Told:
        capsys.readouterr()
        code = medstress_cli([str(argument) for argument in arguments])
        told = capsys.readouterr()
        err, command = parted(told.err)
        return Told(code, told.out, err, command)

    return call


class Terminal(io.StringIO):
    """A terminal, as far as Python asks."""

    encoding = "utf-8"

    def isatty(self):
        return True


@pytest.fixture
def terminal(monkeypatch):
    """The command line on a terminal: `terminal(*arguments, columns=80)` -> what it shows."""
    for name in ("NO_COLOR", "FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")

    def call(*arguments, columns=80):
        monkeypatch.setenv("COLUMNS", str(columns))
        stream = Terminal()
        with monkeypatch.context() as patch:
            patch.setattr(sys, "stdout", stream)
            medstress_cli([str(argument) for argument in arguments])
        return stream.getvalue()

    return call
