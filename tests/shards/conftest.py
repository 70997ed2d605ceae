"""Experiments cut into shards, and what has to be the same however they are cut."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from medstress.api.run import Run
from medstress.cli.app import medstress_cli
from medstress.report.page import report

_TIMED = ("seconds", "tokens_in", "tokens_out")
_OWN = ("ahead", "interrupted")
_VARYING = re.compile(
    r"wall.seconds|queries.per.second|begun .*ended|started|finished|calls", re.IGNORECASE
)


@pytest.fixture(scope="session")
def bench_in(workbench):
    """A small experiment: the logging victim and the mock, two attacks, twelve questions."""

    def make(folder: Path, patch: pytest.MonkeyPatch) -> Any:
        made = workbench.Bench(folder)
        made.enter(patch)
        patch.chdir(folder)
        made.tables["victim"].append({"name": "mock", "backend": "mock", "answer_by": "letter"})
        made.tables["attack"] = [made.attack("random"), made.attack("nearest", budget=3)]
        return made

    return make


@pytest.fixture
def bench(bench_in, tmp_path, monkeypatch):
    """That experiment in a folder of its own."""
    return bench_in(tmp_path, monkeypatch)


@pytest.fixture
def sharded(bench):
    """Run the experiment in n shards and merge them: `sharded(n)` -> the merged folder."""

    def make(n: int, *flags: str, completes: bool = True) -> Path:
        folders = [bench.root / f"shards-{n}" / str(number) for number in range(1, n + 1)]
        for number, folder in enumerate(folders, 1):
            assert bench.run("--shard", f"{number}/{n}", *flags, out=folder) == 0
        to = bench.root / f"merged-{n}"
        # In another order than that of the plan.
        given = [str(folder) for folder in reversed(folders)]
        assert medstress_cli(["merge", *given, "--out", str(to), "--quiet"]) == 0
        if completes:
            n_asked = len(bench.received())
            code = bench.run(*flags, out=to)
            assert code in (0, 3)
            if not flags:
                assert len(bench.received()) == n_asked
        return to

    return make


@pytest.fixture
def same():
    """Compare all that two folders say, but for times, tokens and what scheduling leaves behind."""

    def compare(one: Path, other: Path, *, reports: bool = False) -> None:
        for table in ("trials", "items", "exchanges"):
            assert _exported(one, table) == _exported(other, table), table
        assert _summary(one) == _summary(other)
        if reports:  # which take a second each
            assert _report(one) == _report(other)

    return compare


def _exported(folder: Path, table: str) -> list[dict[str, Any]]:
    to = folder / f"{table}.jsonl"
    Run(folder).export(table, to)
    rows = [json.loads(line) for line in to.read_text("utf-8").splitlines()]
    for row in rows:
        for name in _TIMED:
            row.pop(name, None)
    return [row for row in rows if row.get("purpose") != "ahead"]


def _summary(folder: Path) -> str:
    kept = json.loads(json.dumps(Run(folder).summary()))
    assert kept["root"] is not None
    performance = kept.pop("performance")
    shards = Run(folder).manifest().get("shards", {})
    kept["calls"] = performance["calls"] - shards.get("bought_twice", 0)
    for name in ("started", "finished"):
        kept["experiment"].pop(name)
    for row in [*kept["results"], *kept["by_seed"]]:
        for name in _OWN:
            row["queries"].pop(name)
    return json.dumps(kept)


def _report(folder: Path) -> list[str]:
    """The lines of a report without those that hold a time or a count of its own."""
    page = report([folder])
    # What the manifest says of the merge, and the performance of each process.
    page = re.sub(r"  &#34;(shards|performance)&#34;: \{.*?\n  \},?\n", "", page, flags=re.DOTALL)
    page = re.sub(r"<div>\s*<dt>[^<]*</dt>\s*<dd>[^<]*</dd>\s*</div>", _without_own, page)
    return [line for line in page.splitlines() if line.strip() and not _VARYING.search(line)]


def _without_own(found: re.Match[str]) -> str:
    return "" if _VARYING.search(found[0]) else found[0]
