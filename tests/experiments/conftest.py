"""The workbench of tests/replay."""

import pytest


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """An experiment in a folder of its own."""
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made


@pytest.fixture(scope="session")
def ran_with(workbench, tmp_path_factory):
    """Run an experiment for many tests, with a change: `ran_with(lambda made: ...)`."""

    def run(change):
        made = workbench.Bench(tmp_path_factory.mktemp("made"))
        change(made)
        with pytest.MonkeyPatch.context() as patch:
            for name, value in made.environment().items():
                patch.setenv(name, value)
            assert made.run() == 0
        return made

    return run
