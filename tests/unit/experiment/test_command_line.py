"""The command that a run keeps, for who repeats it."""

from __future__ import annotations

import pytest

from medstress.experiment.plan.manifest import command_line


@pytest.mark.parametrize(
    ("started", "told"),
    [
        ("/usr/bin/medstress", "medstress run e.toml"),
        ("/site-packages/medstress/__main__.py", "medstress run e.toml"),
        ("study.py", "study.py run e.toml"),
    ],
)
def test_the_command_can_be_typed_again(started, told, monkeypatch):
    monkeypatch.setattr("sys.argv", [started, "run", "e.toml"])
    assert command_line() == told
