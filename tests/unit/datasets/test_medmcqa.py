import json

import polars
import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.items import Mention
from medstress.datasets import medmcqa
from medstress.datasets.source import DatasetOptions, hash_files

OPTIONS = {"A": "aspirin", "B": " beta blocker ", "C": "codeine", "D": "digoxin"}


def published_row(**fields):
    return {
        "id": "m1",
        "question": "Gout. Which drug?",
        **OPTIONS,
        "label": 1,
        "answer_idx": "B",
        "answer": OPTIONS["B"],
        "reference": "because",
        "subject_name": "Pharmacology",
        "topic_name": None,
    } | fields


def entry(*spans):
    return {
        "text": [text for text, _, _ in spans],
        "labels": [label for _, label, _ in spans],
        "boundaries": [[start, start + len(text)] for text, _, start in spans],
    }


def record(**entries):
    distractors = {letter: entry((OPTIONS[letter], "T109", 0)) for letter in "ACD"}
    return distractors | entries


@pytest.fixture
def files(tmp_path):
    def write(rows, records):
        table, spans = tmp_path / "rows.parquet", tmp_path / "spans.json"
        polars.DataFrame(rows, infer_schema_length=None).write_parquet(table)
        spans.write_text(json.dumps(records), encoding="utf-8")
        return table, spans

    return write


def read(path, annotations=None, **options):
    return medmcqa.load(DatasetOptions(path=path, annotations=annotations, **options))


def refusal(path, annotations=None, error=DataError, **options):
    with pytest.raises(error) as caught:
        read(path, annotations, **options)
    return str(caught.value)


def test_a_row_keeps_its_question_options_key_and_subject(files):
    path, _ = files([published_row()], [])
    loaded = read(path, split="train")
    (item,) = loaded.questions
    assert (item.id, item.context, item.stem, item.key) == ("m1", "Gout.", "Which drug?", "B")
    assert item.options == tuple(OPTIONS.values())
    assert item.metadata == {"subject_name": "Pharmacology", "topic_name": None}
    assert item.mentions == ()
    assert loaded.source_hash == hash_files(path)


def test_spans_are_mentions_and_the_whole_key_is_one_without_type(files):
    spans = record(C=entry(("codeine", "", 0), ("codeine", "T109", 0)))
    path, annotations = files([published_row()], [spans])
    loaded = read(path, annotations)
    (item,) = loaded.questions
    found = [(m.field, item.option(m.field)[m.start : m.end], m.type) for m in item.mentions]
    assert found == [
        ("A", "aspirin", "T109"),
        ("C", "codeine", ""),
        ("C", "codeine", "T109"),
        ("D", "digoxin", "T109"),
        ("B", "beta blocker", ""),
    ]
    assert loaded.source_hash == hash_files(path, annotations)


def test_a_key_with_annotations_gets_no_further_mention(files):
    path, annotations = files([published_row()], [record(B=entry(("beta", "T121", 1)))])
    (item,) = read(path, annotations).questions
    assert [m for m in item.mentions if m.field == "B"] == [
        Mention(field="B", start=1, end=5, type="T121")
    ]


def test_a_key_whose_record_is_empty_counts_as_one_without_annotation(files):
    path, annotations = files([published_row()], [record(B=entry())])
    (item,) = read(path, annotations).questions
    assert [m for m in item.mentions if m.field == "B"] == [
        Mention(field="B", start=1, end=13, type="")
    ]


def test_annotations_of_another_length_are_refused(files):
    path, annotations = files([published_row()], [record(), record()])
    assert refusal(path, annotations) == (
        f"{annotations}: expected 1 records, one for each row of {path}, got 2"
    )


def test_a_skipped_row_does_not_shift_the_annotations(files):
    rows = [published_row(), published_row(id="m2", D="aspirin"), published_row(id="m3", A="x")]
    path, annotations = files(rows, [record(), record(), record(A=entry(("x", "T047", 0)))])
    loaded = read(path, annotations, on_bad_row="skip")
    assert [item.id for item in loaded.questions] == ["m1", "m3"]
    assert loaded.questions[1].mentions[0] == Mention(field="A", start=0, end=1, type="T047")
    assert loaded.skipped == (
        f"{path}, row 2: item 'm2', field 'options': A and D are both 'aspirin'; "
        "make them different",
    )


def test_a_span_that_reads_otherwise_is_a_bad_row(files):
    rows = [published_row(), published_row(id="m2")]
    path, annotations = files(rows, [record(), record(C=entry(("opium", "T109", 0)))])
    assert refusal(path, annotations) == (
        f"{path}, row 2: annotations {annotations}, record 2, option C: expected 'opium' at "
        "[0, 5), got 'codei'"
    )


def test_a_table_of_another_shape_is_refused(files):
    row = published_row()
    del row["D"]
    path, _ = files([row], [])
    assert refusal(path) == (
        f"{path}: expected the column 'D', got the columns id, question, A, B, C, label, "
        "answer_idx, answer, reference, subject_name, topic_name"
    )


def test_a_table_without_rows_is_refused(tmp_path, files):
    _, annotations = files([published_row()], [record()])
    path = tmp_path / "empty.parquet"
    polars.DataFrame(schema={"id": polars.String}).write_parquet(path)
    assert (
        refusal(path, annotations)
        == f"{path}: expected at least one row, got none; give a file with rows"
    )


def test_another_split_than_train_is_refused(files):
    path, _ = files([published_row()], [])
    assert refusal(path, error=UsageError, split="dev") == (
        "dataset 'medmcqa': expected the split 'train', the only one, got 'dev'"
    )


def test_the_original_columns_are_read_in_any_format_and_split(tmp_path):
    row = {"question": "Which?", **dict(zip(("opa", "opb", "opc", "opd"), "wxyz", strict=True))}
    rows = [{**row, "id": f"q{cop}", "cop": cop, "exp": "Because."} for cop in (0, 3)]
    polars.DataFrame(rows).write_parquet(tmp_path / "validation.parquet")
    (tmp_path / "dev.json").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name in ("validation.parquet", "dev.json"):
        loaded = read(tmp_path / name, split="dev", columns={"passage": "exp"})
        assert [(item.key, item.passage) for item in loaded.questions] == [
            ("A", "Because."),
            ("D", "Because."),
        ]
        assert "answers in 'cop' as numbers from 0" in loaded.understood
