import datetime

import polars
import pytest

from medstress.core.errors import DataError
from medstress.core.hashing import file_hash
from medstress.datasets.questions import load_jsonl, load_parquet
from medstress.datasets.source import DatasetOptions


@pytest.fixture
def parquet(tmp_path):
    def write(*rows, name="rows.parquet"):
        path = tmp_path / name
        polars.DataFrame(list(rows), infer_schema_length=None).write_parquet(path)
        return path

    return write


def refusal(path):
    with pytest.raises(DataError) as caught:
        load_parquet(DatasetOptions(path=path))
    return str(caught.value)


def test_parquet_gives_the_questions_of_the_same_jsonl(parquet, jsonl, row):
    mentions = [{"field": "A", "start": 0, "end": 11, "type": "T109"}]
    rows = [row(mentions=mentions, year=1.5), row(id="q2", answer_idx="C", mentions=[], year=None)]
    path = parquet(*rows)
    loaded = load_parquet(DatasetOptions(path=path))
    assert loaded.questions == load_jsonl(DatasetOptions(path=jsonl(*rows))).questions
    assert loaded.source_hash == file_hash(path)


def test_options_may_be_a_list_column(parquet, row):
    path = parquet(row(options=["x", "y"], answer_idx=1))
    (item,) = load_parquet(DatasetOptions(path=path)).questions
    assert (item.options, item.key) == (("x", "y"), "B")


def test_a_null_in_the_middle_of_the_options_leaves_a_gap_that_is_named(parquet, row):
    path = parquet(row(), row(id="q2", options={"A": "x", "B": None, "C": "y"}))
    assert refusal(path) == (f"{path}, row 2: field 'options': expected the letters A, B, got A, C")


def test_a_column_that_is_null_counts_as_absent(parquet, row):
    path = parquet(row(), row(id="q2", answer_idx=None))
    assert refusal(path) == (
        f"{path}, row 2: field 'answer_idx': expected a letter or a 0-based position (or the "
        "field 'answer'), got nothing"
    )


def test_dates_become_text_in_the_metadata(parquet, row):
    path = parquet(row(day=datetime.date(2024, 5, 1)))
    (item,) = load_parquet(DatasetOptions(path=path)).questions
    assert item.metadata == {"day": "2024-05-01"}


def test_a_name_that_looks_like_a_pattern_is_just_a_name(parquet, row):
    path = parquet(row(), name="part[1]*.parquet")
    assert len(load_parquet(DatasetOptions(path=path)).questions) == 1


def test_bad_rows_are_skipped_where_that_is_asked(parquet, row):
    path = parquet(row(), row(id="q2", answer_idx="D"))
    loaded = load_parquet(DatasetOptions(path=path, on_bad_row="skip"))
    assert [item.id for item in loaded.questions] == ["q1"]
    assert loaded.skipped == (
        f"{path}, row 2: field 'answer_idx': expected one of A, B, C or a position from 0 to 2, "
        "got the text 'D'",
    )


def test_a_file_that_is_no_parquet_is_refused_in_one_line(tmp_path):
    path = tmp_path / "rows.parquet"
    path.write_text("id,question\n1,x\n", encoding="utf-8")
    sentence = refusal(path)
    assert sentence.startswith(f"{path}: expected a parquet file, but reading it fails: ")
    assert "\n" not in sentence


def test_a_parquet_file_without_rows_is_refused(tmp_path):
    path = tmp_path / "rows.parquet"
    polars.DataFrame(schema={"id": polars.String}).write_parquet(path)
    assert refusal(path) == f"{path}: expected at least one row, got none; give a file with rows"
