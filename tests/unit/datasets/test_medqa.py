import json

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.items import Mention
from medstress.datasets import medqa
from medstress.datasets.source import DatasetOptions, hash_files


def record(letter="B", text="aspirin", label="T109", span=(0, 7)):
    return {letter: {"text": [text], "labels": [label], "boundaries": [list(span)]}}


@pytest.fixture
def spans(tmp_path):
    def write(*records):
        path = tmp_path / "spans.json"
        path.write_text(json.dumps(records), encoding="utf-8")
        return path

    return write


def read(path, annotations=None, **options):
    return medqa.load(DatasetOptions(path=path, annotations=annotations, **options))


def refusal(path, annotations=None, error=DataError, **options):
    with pytest.raises(error) as caught:
        read(path, annotations, **options)
    return str(caught.value)


ASPIRIN = Mention(field="B", start=0, end=7, type="T109")


def test_rows_are_read_without_annotations(jsonl, row):
    path = jsonl(row(answer="allopurinol", meta_info=None, train_index=4))
    loaded = read(path)
    (item,) = loaded.questions
    assert item.mentions == ()
    assert item.metadata == {"meta_info": None, "train_index": 4}
    assert loaded.source_hash == hash_files(path)


def test_a_row_gets_the_spans_at_its_train_index_and_one_without_gets_none(jsonl, row, spans):
    path = jsonl(row(train_index=1), row(id="q2"), row(id="q3", train_index=None))
    annotations = spans(record(text="asp", span=(0, 3)), record())
    loaded = read(path, annotations, split="train")
    assert [item.mentions for item in loaded.questions] == [(ASPIRIN,), (), ()]
    assert {item.metadata["split"] for item in loaded.questions} == {"train"}
    assert loaded.source_hash == hash_files(path, annotations)


def test_spans_the_row_has_already_are_not_doubled(jsonl, row, spans):
    own = {"field": "B", "start": 0, "end": 7, "type": "T109"}
    path = jsonl(row(train_index=0, mentions=[own, own | {"type": "T121"}]))
    (item,) = read(path, spans(record())).questions
    assert item.mentions == (ASPIRIN, Mention(field="B", start=0, end=7, type="T121"))


@pytest.mark.parametrize(
    ("bad", "sentence"),
    [
        ("x", ": expected an object keyed by letter, got the text 'x'"),
        (record(letter="D"), ": expected a letter among A, B, C, got 'D'"),
        (record(letter="AB"), ": expected a letter among A, B, C, got 'AB'"),
        (
            {"B": []},
            ", option B: expected the lists 'text', 'labels', 'boundaries', got the list []",
        ),
        (
            {"B": {"text": [], "labels": [], "boundaries": "x"}},
            ", option B: expected the lists 'text', 'labels', 'boundaries', got the object "
            "{'text': [], 'labels': [], 'boundaries': 'x'}",
        ),
        (
            {"B": {"text": ["aspirin"], "labels": [], "boundaries": []}},
            ", option B: expected three lists of the same length, got 1, 0 and 0",
        ),
        (record(label=None), ", option B: expected a type identifier or '', got nothing"),
        (record(text="codeine"), ", option B: expected 'codeine' at [0, 7), got 'aspirin'"),
        (
            record(span=(0, 8)),
            ", option B: expected boundaries [start, end] within the 7 characters of the option, "
            "got the list [0, 8]",
        ),
        (
            record(span=(-7, 7)),
            ", option B: expected boundaries [start, end] within the 7 characters of the option, "
            "got the list [-7, 7]",
        ),
        (
            record(span=(0,)),
            ", option B: expected boundaries [start, end] within the 7 characters of the option, "
            "got the list [0]",
        ),
    ],
)
def test_a_record_that_does_not_fit_is_a_bad_row(jsonl, row, spans, bad, sentence):
    path, annotations = jsonl(row(train_index=0), row(id="q2", train_index=1)), spans(record(), bad)
    expected = f"{path}, line 2: annotations {annotations}, record 2{sentence}"
    assert refusal(path, annotations) == expected
    loaded = read(path, annotations, on_bad_row="skip")
    assert [item.id for item in loaded.questions] == ["q1"]
    assert loaded.skipped == (expected,)


@pytest.mark.parametrize(
    ("position", "shown"),
    [(2, "the number 2"), (-1, "the number -1"), ("0", "the text '0'"), (True, "the value True")],
)
def test_a_train_index_outside_the_annotations_is_a_bad_row(jsonl, row, spans, position, shown):
    path, annotations = jsonl(row(train_index=position)), spans(record(), record())
    assert refusal(path, annotations) == (
        f"{path}, line 1: field 'train_index': expected a position from 0 to 1 in {annotations}, "
        f"got {shown}"
    )


def test_annotations_that_belong_to_no_row_are_refused(jsonl, row, spans):
    path, annotations = jsonl(row(), row(id="q2")), spans(record())
    assert refusal(path, annotations) == (
        f"{path}: expected rows with 'train_index', the position in {annotations}, got none; "
        "leave the annotations out, since they exist for the train split only"
    )


def test_annotations_that_are_no_json_list_are_refused(jsonl, row, tmp_path):
    path, annotations = jsonl(row(train_index=0)), tmp_path / "spans.json"
    annotations.write_text('{"A": 1}', encoding="utf-8")
    assert refusal(path, annotations) == (
        f"{annotations}: expected a JSON list, got the object {{'A': 1}}"
    )
    annotations.write_text("[", encoding="utf-8")
    assert refusal(path, annotations).startswith(
        f"{annotations}: expected a JSON list, got malformed JSON ("
    )


def test_missing_annotations_suggest_another_file(jsonl, row, spans):
    path, annotations = jsonl(row(train_index=0)), spans(record())
    wrong = annotations.with_name("span.json")
    assert refusal(path, wrong, UsageError) == (
        f"dataset 'medqa': there is no file {wrong} (key 'annotations'); did you mean 'spans.json'?"
    )


def test_only_published_splits_are_taken_and_only_train_has_annotations(jsonl, row, spans):
    path = jsonl(row(train_index=0))
    assert refusal(path, error=UsageError, split="tset") == (
        "dataset 'medqa': expected a split among train, dev, test, got 'tset'; did you mean 'test'?"
    )
    assert refusal(path, spans(record()), UsageError, split="dev") == (
        "dataset 'medqa': annotations exist for the train split only, got split 'dev'"
    )
