"""The benchmark of merge, small."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType


def test_shards_of_a_few_queries_are_merged(
    script: Callable[[str], ModuleType], tmp_path: Path
) -> None:
    made = script("merge")
    found = made.merge(made.make_shards(tmp_path, 200, 2), tmp_path / "merged", None)
    assert found["trials"] == 4
    assert found["answers"] == 200 + 4  # each trial also asks the clean item
    assert found["bought_twice"] == 0
    assert found["seconds"] > 0
