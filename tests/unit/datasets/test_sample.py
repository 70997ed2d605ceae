from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.core.hashing import file_hash
from medstress.datasets import sample
from medstress.datasets.source import DatasetOptions


def test_the_shipped_rows_are_read_with_source_and_topic_as_metadata(jsonl, row, monkeypatch):
    path = jsonl(row(source="written for medstress", topic="gout"), row(id="q2", topic="pain"))
    monkeypatch.setattr(sample, "SAMPLE", path)
    loaded = sample.load(DatasetOptions())
    assert [dict(item.metadata) for item in loaded.questions] == [
        {"source": "written for medstress", "topic": "gout"},
        {"topic": "pain"},
    ]
    assert loaded.source_hash == file_hash(path)


def test_the_shipped_file_reads_without_complaint():
    if not sample.SAMPLE.is_file():
        pytest.skip(f"{sample.SAMPLE} is not written yet")
    loaded = sample.load(DatasetOptions())
    assert loaded.skipped == ()
    assert all(item.metadata["source"] and item.metadata["topic"] for item in loaded.questions)


def test_an_installation_without_the_file_says_what_to_do(monkeypatch, tmp_path, said):
    monkeypatch.setattr(sample, "SAMPLE", tmp_path / "sample.jsonl")
    with pytest.raises(UsageError) as caught:
        sample.load(DatasetOptions())
    said(str(caught.value), "dataset 'sample'")


@pytest.mark.parametrize(
    ("key", "value"), [("path", Path("x")), ("annotations", Path("x")), ("split", "train")]
)
def test_the_sample_takes_no_keys(key, value, said):
    with pytest.raises(UsageError) as caught:
        sample.load(DatasetOptions(**{key: value}))
    said(str(caught.value), "'sample'")
