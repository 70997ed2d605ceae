"""Nothing moves: what users rely on is what it was when it was frozen.

Numbers, rows, files and exit codes; not pages, LaTeX, help and messages. What differs on purpose
stands in `moved.toml`, with a reason.
"""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from frozen import compare, freeze, kept, normal


def moved_too(found: list[compare.Difference]) -> None:
    """Fail with the first differences that have no name."""
    left = compare.unexplained(found, compare.exceptions())
    assert not left, compare.told(left)


@pytest.mark.parametrize("name", freeze.NAMES)
def test_nothing_moved(name: str, tmp_path: Path) -> None:
    moved_too(freeze.differences(name, tmp_path))


def parts(told: dict[str, Any], *names: str) -> Any:
    """The first run of what was read, as it is stored."""
    (run,) = told["runs"].values()
    return json.loads(normal.write({name: run[name] for name in names}))


@pytest.mark.parametrize("name", kept.KEPT)
def test_a_kept_folder_opens_and_resumes_and_tells_the_same(name: str, tmp_path: Path) -> None:
    experiment = kept.KEPT[name]
    known = freeze.stored(experiment)
    opened = kept.opened(name, tmp_path)
    read = ("summary", "export")
    path = f"{experiment}/runs/run"
    if "stopped" not in name:
        found = compare.differences(parts(known, *read), parts(opened, *read), path)
        moved_too(list(found))
    again, asked = kept.resumed(name, tmp_path)
    moved_too(list(compare.differences(parts(known, *read), parts(again, *read), path)))
    moved_too(list(compare.differences(known["exit_codes"], again["exit_codes"], "exit_codes")))
    # What was answered is not asked again; what was not is asked once.
    assert asked == (known["asked"] - kept.N_ASKED if "stopped" in name else 0)


def test_every_number_that_moves_is_told_with_its_place() -> None:
    known = freeze.stored("tagged")
    for where, change in (
        (("summary", "pooled", "columns", "f1"), "summary/pooled/f1"),
        (("export", "trials", "jsonl", "columns", "verdict"), "export/trials/jsonl/verdict"),
    ):
        now = copy.deepcopy(known)
        inside = now["runs"]["run"]
        for key in where[:-1]:
            inside = inside[key]
        del inside[where[-1]]
        (found,) = compare.differences(known, now, "tagged")
        assert found.path == f"tagged/runs/run/{change}"
        assert found.new == "<absent>"


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1.0}, {"a": 1.0 + 1e-14}, []),
        ({"a": 1.0}, {"a": 1.000001}, ["x/a"]),
        ({"a": 1}, {"a": 1.0}, ["x/a"]),
        ({"a": 1}, {"a": True}, ["x/a"]),
        ({"a": None}, {}, ["x/a"]),
        ({"a": "0.25"}, {"a": "0.26"}, ["x/a"]),
        ({"a": "0.2500000000001"}, {"a": "0.25"}, []),
        ({"a": "12"}, {"a": "13"}, ["x/a"]),
        ([1, 2], [1, 2, 3], ["x/length"]),
        ([{"a": [1, 2]}], [{"a": [1, 4]}], ["x/0/a/1"]),
    ],
)
def test_differences_are_those_that_there_are(old: Any, new: Any, paths: list[str]) -> None:
    assert [each.path for each in compare.differences(old, new, "x")] == paths


ROWS = [
    {
        "a": i % 3,
        "b": {"n": 2, "value": i / 7} if i % 4 else None,
        "c": "same",
        "seconds": i,
        "d": {},
    }
    for i in range(8)
]


def test_a_table_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    told = normal.opened(json.loads(normal.write(normal.table(ROWS, tmp_path))))
    assert told["a"] == [row["a"] for row in ROWS]
    assert told["b"] == [normal.normal(row["b"], tmp_path) for row in ROWS]
    assert (told["c"], told["seconds"]) == (["same"] * 8, ["<time>"] * 8)
    assert told["d"] == [{}] * 8


def test_a_row_that_a_long_table_does_not_store_is_missed_by_no_hash(tmp_path: Path) -> None:
    long = [{"a": i, "b": i / 3} for i in range(100)]
    other = copy.deepcopy(long)
    other[1]["a"] = -1
    old, new = (normal.table(rows, tmp_path) for rows in (long, other))
    (found,) = compare.differences(old, new, "x")
    assert found.path == "x/hashes over all rows/a"
    assert set(old["hashes over all rows"]) == {"a"}


def test_an_exception_names_the_differences_that_it_is_about(tmp_path: Path) -> None:
    file = tmp_path / "moved.toml"
    file.write_text('[[moved]]\npath = "*/tokens_unique"\nreason = "dropped"\n')
    found = [compare.Difference(f"x/summary/{n}", 1, 2) for n in ("tokens_unique", "calls")]
    assert compare.unexplained(found, compare.exceptions(file)) == found[1:]
    assert compare.unexplained(found, compare.exceptions()) == found


def test_only_the_first_ten_differences_are_printed() -> None:
    told = compare.told([compare.Difference(f"x/{i}", i, "y" * 1000) for i in range(30)])
    assert told.startswith("30 differences")
    assert "x/9" in told
    assert "x/10" not in told
    assert max(map(len, told.splitlines())) < 300
