"""The sample, MedQA and MedMCQA, with the spans of their options."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars
import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.items import Mention
from medstress.datasets import named
from medstress.datasets.questions import without_hints
from medstress.datasets.source import DatasetOptions, hash_files

TEXTS = {"A": "aspirin", "B": " beta blocker ", "C": "codeine", "D": "digoxin"}


def entry(
    text: str = "aspirin", label: Any = "T109", start: int = 0, **other: Any
) -> dict[str, Any]:
    good = {"text": [text], "labels": [label], "boundaries": [[start, start + len(text)]]}
    return good | other


def typed(**fields: Any) -> dict[str, Any]:
    """A row of the typed subset of MedMCQA."""
    row = {"id": "m1", "question": "Gout. Which drug?", **TEXTS, "answer_idx": "B"}
    return row | {"answer": TEXTS["B"], "reference": "b", "subject_name": "S", **fields}


@pytest.fixture
def spans(tmp_path: Path) -> Callable[..., Path]:
    def write(*records: Any) -> Path:
        path = tmp_path / "spans.json"
        path.write_text(json.dumps(records), "utf-8")
        return path

    return write


# -- the sample


@pytest.mark.parametrize(("part", "n"), [("questions", 200), ("vignettes", 24)])
def test_a_shipped_part_reads_without_complaint(part: Any, n: int) -> None:
    loaded = named.load_sample(DatasetOptions(sample=part))
    assert (len(loaded.items), loaded.skipped, loaded.notes) == (n, (), ())
    assert all(item.metadata["source"] and item.metadata["topic"] for item in loaded.items)
    with pytest.raises(UsageError, match="'split'"):
        named.load_sample(DatasetOptions(sample=part, split="train"))


def test_vignettes_are_of_patients_and_their_options_are_marked() -> None:
    items = named.load_sample(DatasetOptions(sample="vignettes")).items
    assert Counter(item.key for item in items) == dict.fromkeys("ABCD", 6)
    for item in items:
        assert len(item.context.split(". ")) >= 3
        assert item.stem.endswith("?")
        assert "not reviewed by a clinician" in item.metadata["source"]
        assert all(m.end == len(item.option(m.field)) and not m.start for m in item.mentions)
        assert len(item.mentions) in (0, 4)
    types = Counter(item.mentions[0].type for item in items if item.mentions)
    assert types == {"T121": 15, "T047": 3, "T191": 1}


def test_four_in_five_passages_of_the_sample_decide_and_none_names_a_letter() -> None:
    items = named.load_sample(DatasetOptions()).items
    assert sum(item.metadata["passage_decides"] for item in items) == 160
    for item in items:
        assert 50 <= len(item.passage.split()) <= 90, item.id
        assert without_hints(item.passage)[1] == (), item.id
        hits = [text for text in item.options if text.lower() in item.passage.lower()]
        decides = item.metadata["passage_decides"]
        assert item.key_text in hits if decides else hits != [item.key_text], item.id


# -- MedQA


def test_medqa_takes_the_spans_at_its_train_index(jsonl: Any, row: Any, spans: Any) -> None:
    own = {"field": "B", "start": 0, "end": 7, "type": "T109"}
    path = jsonl(row(train_index=1, mentions=[own]), row(id="q2"), row(id="q3", train_index=0))
    cut = entry(text="asp")
    file = spans({"B": cut}, {"B": entry()})
    loaded = named.load_medqa(DatasetOptions(path=path, annotations=file, split="train"))
    aspirin = Mention(field="B", start=0, end=7, type="T109")
    assert [item.mentions for item in loaded.items] == [(aspirin,), (), ()]
    assert {item.metadata["split"] for item in loaded.items} == {"train"}
    assert loaded.source_hash == hash_files(path, file)
    assert [note for note in loaded.notes if "cut a word: 1" in note and "'aspirin'" in note]
    plain = named.load_medqa(DatasetOptions(path=path))
    assert plain.source_hash == hash_files(path)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ("x", "expected an object keyed by letter"),
        ({"D": entry()}, "expected a letter among A, B, C"),
        ({"B": []}, "the lists 'text', 'labels'"),
        ({"B": entry(labels=[])}, "of one length"),
        ({"B": entry(label=None)}, "the lists 'text', 'labels'"),
        ({"B": entry(text="codeine")}, r"expected 'codeine' at \[0, 7\), got 'aspirin'"),
    ],
)
def test_a_bad_record_is_named(jsonl: Any, row: Any, spans: Any, bad: Any, match: str) -> None:
    path, file = jsonl(row(train_index=0)), spans(bad)
    with pytest.raises(DataError, match=rf"line 1: annotations .*record 1.*{match}"):
        named.load_medqa(DatasetOptions(path=path, annotations=file))


def test_medqa_refuses_splits_and_positions(jsonl: Any, row: Any, spans: Any) -> None:
    path, file = jsonl(row(train_index=5)), spans({})
    for keys, match in (
        ({"split": "valid"}, "expected a split among"),
        ({"split": "dev", "annotations": file}, "train split only"),
        ({"annotations": file}, "'train_index': expected a position from 0 to 0"),
        ({"annotations": Path("no.json")}, "annotations"),
    ):
        with pytest.raises((DataError, UsageError), match=match):
            named.load_medqa(DatasetOptions(path=path, **keys))
    with pytest.raises(DataError, match="expected rows with 'train_index'"):
        named.load_medqa(DatasetOptions(path=jsonl(row()), annotations=file))
    file.write_text("{}")
    with pytest.raises(DataError, match="expected a JSON list"):
        named.load_medqa(DatasetOptions(path=path, annotations=file))


# -- MedMCQA


@pytest.fixture
def medmcqa(tmp_path: Path, spans: Any) -> Callable[..., Any]:
    def load(rows: Any, *records: Any, **keys: Any) -> Any:
        path = tmp_path / "rows.parquet"
        polars.DataFrame(rows, infer_schema_length=None).write_parquet(path)
        file = spans(*records) if records else None
        return named.load_medmcqa(DatasetOptions(path=path, annotations=file, **keys))

    return load


def record(**entries: Any) -> dict[str, Any]:
    return {letter: entry(TEXTS[letter]) for letter in "ACD"} | entries


def test_spans_are_mentions_and_the_whole_key_is_one_without_type(medmcqa: Any) -> None:
    (item,) = medmcqa([typed()], record(), split="train").items
    assert (item.context, item.stem, item.key) == ("Gout.", "Which drug?", "B")
    assert item.options == tuple(TEXTS.values())
    assert item.metadata == {"subject_name": "S", "reference": "b"}
    assert [(m.field, item.option(m.field)[m.start : m.end], m.type) for m in item.mentions] == [
        ("A", "aspirin", "T109"),
        ("C", "codeine", "T109"),
        ("D", "digoxin", "T109"),
        ("B", "beta blocker", ""),
    ]
    (item,) = medmcqa([typed()], record(B=entry("beta", start=1))).items
    assert [(m.start, m.end) for m in item.mentions if m.field == "B"] == [(1, 5)]


def test_a_skipped_row_does_not_shift_the_annotations(medmcqa: Any) -> None:
    rows = [typed(), typed(id="m2", D="aspirin"), typed(id="m3", A="x")]
    records = [record(), record(), record(A=entry("x", "T047"))]
    loaded = medmcqa(rows, *records, on_bad_row="skip")
    assert [item.id for item in loaded.items] == ["m1", "m3"]
    assert loaded.items[1].mentions[0] == Mention(field="A", start=0, end=1, type="T047")
    (skipped,) = loaded.skipped
    assert "row 2" in skipped
    with pytest.raises(DataError, match="expected 3 records"):
        medmcqa(rows, record(), record())


def test_a_split_without_annotations_and_a_missing_option_are_refused(medmcqa: Any) -> None:
    with pytest.raises(UsageError, match="for the split 'train' only"):
        medmcqa([typed()], record(), split="dev")
    less = {name: value for name, value in typed().items() if name != "D"}
    with pytest.raises(DataError, match="expected a letter among A, B, C, got 'D'"):
        medmcqa([less], record())
    (item,) = medmcqa([typed()], columns={"passage": "reference"}).items
    assert item.passage == "b"


def test_the_original_columns_are_read_in_any_split(medmcqa: Any) -> None:
    row = {"question": "Which?", **dict(zip(("opa", "opb", "opc", "opd"), "wxyz", strict=True))}
    rows = [{**row, "id": f"q{cop}", "cop": cop, "exp": "Because."} for cop in (0, 3)]
    loaded = medmcqa(rows, split="dev", columns={"passage": "exp"})
    assert [(q.key, q.passage) for q in loaded.items] == [("A", "Because."), ("D", "Because.")]
