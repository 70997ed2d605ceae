"""The workbench, and one unbroken run to compare with."""

from __future__ import annotations

import pytest


@pytest.fixture
def bench(workbench, tmp_path, monkeypatch):
    """An experiment in a folder of its own; runs in this process are logged and instant."""
    made = workbench.Bench(tmp_path)
    for name, value in made.environment().items():
        monkeypatch.setenv(name, value)
    return made
