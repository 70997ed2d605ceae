"""The workbench of tests/replay."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

REPLAY = Path(__file__).parents[1] / "replay"


@pytest.fixture(scope="session")
def workbench() -> ModuleType:
    name = "replay_workbench"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, REPLAY / "workbench.py")
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module  # dataclasses look their module up
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """An experiment in a folder of its own."""
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made
