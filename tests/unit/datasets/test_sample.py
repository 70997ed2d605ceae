from collections import Counter
from pathlib import Path

import pytest

from medstress.core.errors import UsageError
from medstress.core.hashing import file_hash
from medstress.datasets import sample
from medstress.datasets.source import DatasetOptions

PARTS = ("questions", "vignettes")


def test_the_shipped_rows_are_read_with_source_and_topic_as_metadata(jsonl, row, monkeypatch):
    path = jsonl(row(source="written for medstress", topic="gout"), row(id="q2", topic="pain"))
    monkeypatch.setitem(sample.SAMPLE, "questions", path)
    loaded = sample.load(DatasetOptions())
    assert [dict(item.metadata) for item in loaded.questions] == [
        {"source": "written for medstress", "topic": "gout"},
        {"topic": "pain"},
    ]
    assert loaded.source_hash == file_hash(path)


@pytest.mark.parametrize(("part", "n"), [("questions", 200), ("vignettes", 24)])
def test_a_shipped_part_reads_without_complaint(part, n):
    loaded = sample.load(DatasetOptions(sample=part))
    assert (len(loaded.questions), loaded.skipped) == (n, ())
    assert all(item.metadata["source"] and item.metadata["topic"] for item in loaded.questions)
    ids = {
        name: {q.id for q in sample.load(DatasetOptions(sample=name)).questions} for name in PARTS
    }
    assert ids["questions"].isdisjoint(ids["vignettes"])


def test_vignettes_are_of_patients_and_their_options_are_marked():
    """Several sentences before the question, four options, each key equally often."""
    vignettes = sample.load(DatasetOptions(sample="vignettes")).questions
    assert Counter(item.key for item in vignettes) == dict.fromkeys("ABCD", 6)
    for item in vignettes:
        assert len(item.options) == 4
        assert len(item.context.split(". ")) >= 3
        assert item.stem.endswith("?")
        assert "not reviewed by a clinician" in item.metadata["source"]
        for mention in item.mentions:
            assert mention.start == 0
            assert mention.end == len(item.options[item.letters.index(mention.field)])
        assert len(item.mentions) in (0, 4)
    types = Counter(item.mentions[0].type for item in vignettes if item.mentions)
    assert types == {"T121": 15, "T047": 3, "T191": 1}


def test_an_installation_without_the_file_says_what_to_do(monkeypatch, tmp_path, said):
    monkeypatch.setitem(sample.SAMPLE, "questions", tmp_path / "sample.jsonl")
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
