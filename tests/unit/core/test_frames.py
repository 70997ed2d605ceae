"""Rows as files: objects in JSONL and Parquet, JSON text in CSV; one type a column."""

import csv
import json
from typing import Any

import polars
import pytest

from medstress.core.errors import UsageError
from medstress.core.frames import frame_of, write_rows

TYPES = {"id": str, "n": int, "edits": [{"field": str, "start": int}], "spec": None, "turns": str}
ROWS: list[dict[str, Any]] = [
    {"id": "a", "n": 1, "edits": [{"field": "A", "start": 2}], "spec": {"x": 1}, "turns": "text"},
    {"id": "=b", "n": None, "edits": [], "spec": {"x": "most", "y": [1, 2.5]}, "turns": ["t"]},
]


def test_objects_are_objects_in_jsonl_and_parquet_and_json_text_in_csv(tmp_path):
    for ending in ("jsonl", "csv", "parquet"):
        assert write_rows(iter(ROWS), tmp_path / f"t.{ending}", TYPES) == 2
    lines = (tmp_path / "t.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line) for line in lines] == ROWS
    with (tmp_path / "t.csv").open(encoding="utf-8", newline="") as stream:
        first, second = csv.DictReader(stream)
    assert json.loads(first["edits"]) == ROWS[0]["edits"]
    assert json.loads(second["spec"]) == ROWS[1]["spec"]
    assert (second["id"], second["n"], second["turns"]) == ("'=b", "", '["t"]')
    first, second = polars.read_parquet(tmp_path / "t.parquet").to_dicts()
    assert (first["edits"], second["edits"]) == (ROWS[0]["edits"], [])
    # A parameter of several types is text; one that an attack lacks is null.
    assert first["spec"] == {"x": "1", "y": None}
    assert second["spec"] == {"x": "most", "y": [1.0, 2.5]}
    assert (first["turns"], second["turns"]) == ("text", '["t"]')


def test_a_csv_without_rows_has_its_header(tmp_path):
    assert write_rows([], tmp_path / "t.csv", TYPES) == 0
    assert (tmp_path / "t.csv").read_text("utf-8").split() == [",".join(TYPES)]


def test_columns_without_values_have_their_types():
    empty: dict[str, Any] = {"id": None, "n": None, "edits": [], "spec": None, "turns": None}
    whole, none = frame_of([empty], TYPES), frame_of([], TYPES)
    assert whole["n"].dtype == none["n"].dtype == polars.Int64
    assert whole["edits"].dtype == none["edits"].dtype == frame_of(ROWS, TYPES)["edits"].dtype
    assert none.columns == list(TYPES)
    assert none.height == 0
    # Lists of which no type is known, as a plug-in's items may have: none holds anything.
    assert frame_of([{"parts": []}, {"parts": []}], {})["parts"].dtype == polars.List(polars.String)


def test_a_late_value_of_a_column_is_kept_whatever_came_first():
    rows: list[dict[str, Any]] = [{"x": None, "o": {}} for _ in range(300)] + [
        {"x": 2**40 + 0.5, "o": {"k": "v"}}
    ]
    frame = frame_of(rows, {})
    assert frame["x"].to_list()[-1] == 2**40 + 0.5
    assert frame["o"].to_list()[-1] == {"k": "v"}


@pytest.mark.parametrize("name", ["t.xlsx", "t", "t.csv.gz"])
def test_another_ending_is_refused_and_nothing_is_written(tmp_path, name):
    with pytest.raises(UsageError, match="must end in"):
        write_rows(iter(ROWS), tmp_path / name, TYPES)
    assert not (tmp_path / name).exists()
