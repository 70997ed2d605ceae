"""The workbench, and one unbroken run to compare with."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def workbench() -> ModuleType:
    name = "replay_workbench"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("workbench.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """An experiment in a folder of its own; runs in this process are logged and instant."""
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made
