"""One unbroken run, to compare with and to go on from."""

import shutil
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass(frozen=True)
class Whole:
    """What a run of the workbench's own experiment gives that nothing stops."""

    bench: Any
    rows: list[Any]
    n_calls: int


@pytest.fixture(scope="session")
def whole(workbench, tmp_path_factory):
    """A finished run, made once."""
    made = workbench.Bench(tmp_path_factory.mktemp("whole")).finished()
    return Whole(made, made.rows(), len(made.received()))


@pytest.fixture
def done(bench, whole):
    """`bench` with a copy of that run."""
    shutil.copytree(whole.bench.root, bench.root, dirs_exist_ok=True)
    return bench
