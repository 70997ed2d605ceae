"""The workbench of tests/replay."""

import pytest


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """An experiment in a folder of its own."""
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made
