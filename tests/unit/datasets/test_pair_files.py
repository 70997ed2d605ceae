"""Sentence pairs from TSV and JSONL, BIOSSES, and the hub without a network."""

from __future__ import annotations

import json
from time import monotonic
from types import SimpleNamespace

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.datasets import hub
from medstress.datasets.named import load_biosses
from medstress.datasets.sentences import load_pairs
from medstress.datasets.source import DatasetOptions

HEADER = "id\ttext_a\ttext_b\tscore\n"


def read(path, **options):
    return load_pairs(DatasetOptions(path=path, **options)).items


def test_tsv_and_jsonl_hold_the_same_pairs(write):
    tsv = read(write(HEADER + 'p\tIt "fell".\tIt rose.\t1.5\n'))
    row = {"id": "p", "text_a": 'It "fell".', "text_b": "It rose.", "score": 1.5}
    assert tsv == read(write(json.dumps(row), "pairs.jsonl"))
    assert tsv[0].score == 1.5


def test_columns_and_scale_can_be_named_and_further_columns_are_kept(write):
    path = write("s1\ts2\tgold\tyear\nOne.\tTwo.\t5\t2020\n")
    (pair,) = read(
        path, columns={"text_a": "s1", "text_b": "s2", "score": "gold"}, scale=(1.0, 5.0)
    )
    assert (pair.id, pair.score, pair.low, pair.high) == ("1", 5.0, 1.0, 5.0)
    assert pair.metadata == {"year": "2020"}


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("", ""),
        (HEADER, ""),
        (HEADER + "p\tOne.\tTwo.\t4.5\n", "line 2"),
        (HEADER + "p\tOne.\tTwo.\thigh\n", "'high'"),
        (HEADER + "p\tOne.\tTwo.\tnan\n", ""),
        ("text_a\ttext_a\tscore\nOne.\tTwo.\t3\n", "line 1"),
        (HEADER + "p\tOne.\t3\n", "line 2"),
        (HEADER + "p\tOne.\t \t3\n", "field 'text_b'"),
        (HEADER + "p\tA.\tB.\t3\np\tA.\tB.\t3\n", "line 3"),
        ("first\ttext_b\tscore\nA.\tB.\t3\n", "line 2"),
    ],
)
def test_a_bad_row_is_named_by_file_line_and_field(write, text, where, said):
    path = write(text)
    with pytest.raises(DataError) as caught:
        read(path)
    assert str(caught.value).startswith(str(path))
    said(str(caught.value), where)


def test_unknown_columns_scales_and_endings_are_refused(write, said):
    path = write(HEADER + "p\tOne.\tTwo.\t3\n")
    with pytest.raises(UsageError) as caught:
        read(path, columns={"text_c": "x"})
    said(str(caught.value), "columns", "'text_c'")
    with pytest.raises(UsageError) as caught:
        read(path, scale=(4.0, 0.0))
    said(str(caught.value), "scale")
    with pytest.raises(UsageError) as caught:
        read(write("", "pairs.txt"))
    said(str(caught.value))


def test_biosses_has_100_pairs_parted_64_16_20(published):
    path = published("sts/biosses.tsv")
    whole = load_biosses(DatasetOptions(path=path)).items
    assert (len(whole), min(p.score for p in whole), max(p.score for p in whole)) == (100, 0.0, 4.0)
    parts = {
        split: {p.id for p in load_biosses(DatasetOptions(path=path, split=split)).items}
        for split in ("train", "dev", "test")
    }
    assert {split: len(ids) for split, ids in parts.items()} == {"train": 64, "dev": 16, "test": 20}
    assert set.union(*parts.values()) == {pair.id for pair in whole}


def test_a_hub_that_cannot_be_reached_is_asked_once_and_quietly(monkeypatch, caplog):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    constants = pytest.importorskip("huggingface_hub.constants")
    _ = huggingface_hub.HfApi, huggingface_hub.hf_hub_download  # importing them takes long
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(constants, "ENDPOINT", "http://127.0.0.1:9")
    started = monotonic()
    for name in ("owner/name", "owner/name:test.jsonl"):
        with pytest.raises(UsageError, match=r"check that this machine reaches http://127"):
            hub.load(DatasetOptions(hub=name))
    assert monotonic() - started < 5
    assert not caplog.records


def listing(names):
    found = SimpleNamespace(siblings=[SimpleNamespace(rfilename=name) for name in names])
    return lambda *_, **__: found


def test_the_file_of_a_split_is_found_fetched_and_read(monkeypatch, write, said):
    huggingface_hub = pytest.importorskip("huggingface_hub")
    row = {"id": "p", "text_a": "One.", "text_b": "Two.", "score": "3"}
    local = write(json.dumps(row), "validation.jsonl")
    asked = []

    def fetch(repo, file, **_):
        asked.append((repo, file))
        return str(local)

    files = ["README.md", "data/train.jsonl", "data/validation.jsonl", "data/test.jsonl"]
    monkeypatch.setattr(huggingface_hub.HfApi, "dataset_info", listing(files))
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", fetch)
    loaded = hub.load(DatasetOptions(hub="owner/name", split="devel"))
    assert [item.id for item in loaded.items] == ["p"]
    hub.load(DatasetOptions(hub="owner/name:data/test.jsonl"))
    assert asked == [("owner/name", "data/validation.jsonl"), ("owner/name", "data/test.jsonl")]
    with pytest.raises(UsageError) as caught:
        hub.load(DatasetOptions(hub="owner/name"))
    said(str(caught.value), "'owner/name'")


@pytest.mark.parametrize(
    "header",
    [
        "sentence1\tsentence2\tscore",
        "SENTENCE1\tSENTENCE2\tSCORE",
        "Text_A\tText_B\tScore",
        "text_1\ttext_2\tscore",
        "Sentence 1\tSentence 2\tscore",
    ],
)
def test_usual_names_of_the_texts_need_no_columns(write, header):
    (pair,) = read(write(f"{header}\nOne.\tTwo.\t3\n"))
    assert (pair.text_a, pair.text_b, pair.score, pair.metadata) == ("One.", "Two.", 3.0, {})


def test_pairs_may_name_their_document(write):
    path = write("sentence1\tsentence2\tscore\tpmid\nOne.\tTwo.\t3\t77\n")
    (pair,) = read(path, documents="pmid")
    assert pair.metadata == {"pmid": "77", "document": "77"}
    with pytest.raises(DataError, match="expected the column 'paper', which documents names"):
        read(path, documents="paper")
