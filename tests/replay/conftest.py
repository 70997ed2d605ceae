"""The workbench, and one unbroken run to compare with."""

from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Whole:
    """What a run of the workbench's own experiment gives that nothing stops."""

    rows: list[Any]
    summary: dict[str, Any]
    n_calls: int


@pytest.fixture(scope="session")
def whole(workbench, tmp_path_factory):
    """A finished run, made once."""
    made = workbench.Bench(tmp_path_factory.mktemp("whole"))
    with pytest.MonkeyPatch.context() as patch:
        for name, value in made.environment().items():
            patch.setenv(name, value)
        assert made.run() == 0
    return Whole(made.rows(), made.summary(), len(made.received()))


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """An experiment in a folder of its own; runs in this process are logged and instant."""
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made
