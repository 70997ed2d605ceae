"""Exchanges of a merged run in Parquet files: the run stays the same."""

from __future__ import annotations

import json
import shutil

import pytest

from medstress.api.run import Run
from medstress.audit.verify import verify_folder
from medstress.cli.app import medstress_cli


@pytest.fixture
def packed(bench):
    """Run the experiment in n shards and merge them with packed exchanges."""

    def make(n: int = 3, *, completes: bool = True):
        folders = [str(bench.root / f"shards-{n}" / str(number)) for number in range(1, n + 1)]
        for number, folder in enumerate(folders, 1):
            assert bench.run("--shard", f"{number}/{n}", out=folder) == 0
        to = bench.root / f"packed-{n}"
        given = ["--exchanges", "parquet", "--out", str(to), "--quiet"]
        assert medstress_cli(["merge", *folders, *given]) == 0
        if completes:
            n_asked = len(bench.received())
            assert bench.run(out=to) in (0, 3)
            assert len(bench.received()) == n_asked
        return to

    return make


def test_packed_exchanges_say_what_the_run_at_once_says(bench, packed, sharded, same):
    assert bench.run() == 0
    merged = packed(3)
    assert sorted(path.name for path in (merged / "exchanges").iterdir()) == [
        "1.parquet",
        "2.parquet",
        "3.parquet",
    ]
    same(bench.out, merged, reports=True)
    same(sharded(3), merged)
    assert verify_folder(merged).holds
