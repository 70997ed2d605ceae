"""The workbench of tests/replay, and the command line in this process."""

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


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """A small experiment: five questions, one attack, one seed, the logging victim."""
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    made.write_items(workbench.questions(5))
    made.tables["experiment"]["seeds"] = [0]
    made.tables["attack"] = [made.attack("random", budget=3)]
    return made


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


@pytest.fixture(scope="session")
def finished(workbench, tmp_path_factory):
    """A finished run of the mock on the sample questions' kind of data, made once."""
    with pytest.MonkeyPatch.context() as patch:
        made = workbench.Bench(tmp_path_factory.mktemp("finished"))
        for name, value in made.environment().items():
            patch.setenv(name, value)
        made.tables["experiment"]["name"] = "finished"
        made.tables["victim"].append(
            {"name": "mock", "backend": "mock", "answer_by": "letter", "parameters": 1e6}
        )
        made.tables["attack"] = [made.attack("random"), made.attack("nearest")]
        assert made.run() == 0
    return made
