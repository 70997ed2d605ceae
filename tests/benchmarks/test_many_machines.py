"""The parts of the benchmark of many machines that need no cluster, small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def test_leases_owners_and_the_keeper_alone(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    made = script("many_machines")
    assert made.leases(tmp_path, 200)["leases"] == 200
    assert made.owners(tmp_path)["older_refused"]
    assert made.keeper(tmp_path, 20, 1 << 16)["messages_per_second"] > 0
