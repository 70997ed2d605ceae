import json

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.datasets.questions import load_jsonl
from medstress.datasets.source import DatasetOptions


def refusal(path, **options):
    with pytest.raises(DataError) as caught:
        load_jsonl(DatasetOptions(path=path, **options))
    return str(caught.value)


def span(**fields):
    good = {"field": "A", "start": 0, "end": 3, "type": "T109"}
    return [{name: value for name, value in (good | fields).items() if value is not ...}]


LETTERS_ABC = "expected one of A, B, C or a position from 0 to 2"
CHANGE_NUMBER = '; change their number, or leave such rows out with on_bad_row = "skip"'
BAD_FIELDS = [
    ({"id": ...}, "field 'id': expected a text or a whole number, got nothing"),
    (
        {"id": ..., "qid": 3},
        "field 'id': expected a text or a whole number, got nothing; did you mean 'qid'?",
    ),
    ({"id": 1.5}, "field 'id': expected a text or a whole number, got the number 1.5"),
    ({"id": True}, "field 'id': expected a text or a whole number, got the value True"),
    ({"id": " "}, "field 'id': expected a text or a whole number, got the text ' '"),
    (
        {"question": ...},
        "field 'question': expected a text ('question', or 'context' and 'stem'), got nothing",
    ),
    (
        {"question": ..., "context": "He smokes."},
        "field 'stem': expected a text ('question', or 'context' and 'stem'), got nothing",
    ),
    ({"question": ["x"]}, "field 'question': expected a text, got the list ['x']"),
    ({"question": " "}, "item 'q1', field 'question': the text is empty"),
    ({"stem": 4}, "field 'stem': expected a text, got the number 4"),
    ({"context": "He smokes."}, "field 'context': expected it with 'stem', got it with 'question'"),
    (
        {"question": "Which?", "context": "He smokes.", "stem": "Why?"},
        "field 'question': expected 'context', one space and 'stem' joined (or leave those "
        "two out), got the text 'Which?'",
    ),
    ({"options": ...}, "field 'options': expected 2 to 10 options, got nothing"),
    (
        {"options": ..., "option": ["x", "y"]},
        "field 'options': expected 2 to 10 options, got nothing; did you mean 'option'?",
    ),
    (
        {"options": "A) x B) y"},
        "field 'options': expected a list or an object keyed by letter, got the text 'A) x B) y'",
    ),
    ({"options": ["x", 2]}, "field 'options': expected texts, got the number 2 as option B"),
    (
        {"options": {"A": "x", "B": None}},
        "field 'options': expected texts, got nothing as option B",
    ),
    ({"options": ["x"]}, "field 'options': expected 2 to 10 options, got 1" + CHANGE_NUMBER),
    ({"options": {}}, "field 'options': expected 2 to 10 options, got 0" + CHANGE_NUMBER),
    (
        {"options": list("abcdefghijk")},
        "field 'options': expected 2 to 10 options, got 11" + CHANGE_NUMBER,
    ),
    (
        {"options": [*"abcdefghij", 1]},
        "field 'options': expected texts, got the number 1 as option 10",
    ),
    ({"options": {"A": "x", "C": "y"}}, "field 'options': expected the letters A, B, got A, C"),
    (
        {"options": ["aspirin", "codeine", "aspirin "]},
        "item 'q1', field 'options': A and C are both 'aspirin '; make them different",
    ),
    ({"options": ["x", " "]}, "item 'q1', field 'options': an option is empty; fill it"),
    (
        {"answer_idx": ...},
        "field 'answer_idx': expected a letter or a 0-based position (or the field 'answer'), "
        "got nothing",
    ),
    (
        {"answer_idx": ..., "answer_index": 1},
        "field 'answer_idx': expected a letter or a 0-based position (or the field 'answer'), "
        "got nothing; did you mean 'answer_index'?",
    ),
    ({"answer_idx": "D"}, f"field 'answer_idx': {LETTERS_ABC}, got the text 'D'"),
    ({"answer_idx": "AB"}, f"field 'answer_idx': {LETTERS_ABC}, got the text 'AB'"),
    ({"answer_idx": ""}, f"field 'answer_idx': {LETTERS_ABC}, got the text ''"),
    ({"answer_idx": 3}, f"field 'answer_idx': {LETTERS_ABC}, got the number 3"),
    ({"answer_idx": -1}, f"field 'answer_idx': {LETTERS_ABC}, got the number -1"),
    ({"answer_idx": True}, f"field 'answer_idx': {LETTERS_ABC}, got the value True"),
    ({"answer_idx": 1.0}, f"field 'answer_idx': {LETTERS_ABC}, got the number 1.0"),
    (
        {"answer_idx": ..., "answer": "D"},
        "field 'answer': expected one of A, B, C or the exact text of an option, got the text 'D'",
    ),
    (
        {"answer_idx": ..., "answer": "Aspirin"},
        "field 'answer': expected one of A, B, C or the exact text of an option, got the text "
        "'Aspirin'",
    ),
    (
        {"answer_idx": ..., "answer": 1},
        "field 'answer': expected one of A, B, C or the exact text of an option, got the number 1",
    ),
    (
        {"answer_idx": "A", "answer": "codeine"},
        "field 'answer': expected option A as in 'answer_idx', got the text 'codeine', "
        "which is option C",
    ),
    ({"mentions": "T109"}, "field 'mentions': expected a list of objects, got the text 'T109'"),
    ({"mentions": [3]}, "field 'mentions', entry 1: expected an object, got the number 3"),
    (
        {"mentions": span() + span(type=..., typ="T109")},
        "field 'mentions', entry 2: expected 'type', got nothing; did you mean 'typ'?",
    ),
    (
        {"mentions": span(start="0")},
        "field 'mentions', entry 1: expected a whole number as 'start', got the text '0'",
    ),
    (
        {"mentions": span(end=True)},
        "field 'mentions', entry 1: expected a whole number as 'end', got the value True",
    ),
    (
        {"mentions": span(type=109)},
        "field 'mentions', entry 1: expected a text as 'type', got the number 109",
    ),
    (
        {"mentions": span(field=None)},
        "field 'mentions', entry 1: expected a text as 'field', got nothing",
    ),
    (
        {"mentions": span(field="D")},
        "item 'q1', field 'mentions': field 'D' is neither an option letter nor passage, context, "
        "stem, question",
    ),
    (
        {"mentions": span(end=12)},
        "item 'q1', field 'mentions': offsets [0, 12) lie outside A (length 11)",
    ),
    (
        {"mentions": span(start=-1)},
        "item 'q1', field 'mentions': offsets [-1, 3) lie outside A (length 11)",
    ),
    (
        {"mentions": span(start=3)},
        "item 'q1', field 'mentions': offsets [3, 3) lie outside A (length 11)",
    ),
]
BAD_LINES = [
    ('{"id": ', "expected one JSON object, got malformed JSON (Expecting value at column 8)"),
    ('["a"]', "expected one JSON object, got the list ['a']"),
    ("null", "expected one JSON object, got nothing"),
    ('{"id": "\\ud800"}', "expected whole characters, got half a surrogate pair '\\ud800'"),
]


def test_a_very_deep_line_and_a_number_too_long_to_read_are_malformed(jsonl, row):
    for line in ("[" * 200_000, json.dumps(row())[:-1] + ', "n": ' + "9" * 5000 + "}"):
        path = jsonl(row(), line)
        assert refusal(path).startswith(f"{path}, line 2: expected one JSON object, got malformed")


def test_bytes_that_are_not_utf_8_are_named(tmp_path):
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b'{"id": "caf\xe9"}\n')
    assert refusal(path) == (
        f"{path}, line 1: expected UTF-8 text, got the byte 0xe9; save the file as UTF-8, or give "
        'its encoding, such as encoding = "cp1252"'
    )


def test_a_long_wrong_value_is_shown_by_its_beginning(jsonl, row):
    path = jsonl(row(), row(options="x" * 500))
    assert refusal(path).endswith("got the text '" + "x" * 56 + "...")


def test_an_id_that_comes_twice_is_named_with_its_first_place(jsonl, row):
    path = jsonl(row(), row(id="q2"), row())
    assert refusal(path) == (
        f"{path}, line 3: field 'id': expected a unique id, got 'q1' as in line 1; "
        "give each row an id of its own"
    )


def test_every_bad_row_is_named_by_line_field_and_value_when_rows_may_be_skipped(jsonl, row):
    rows = [row(**fields) for fields, _ in BAD_FIELDS]
    path = jsonl(row(), row(id="q2"), *rows, *(line for line, _ in BAD_LINES), row())
    loaded = load_jsonl(DatasetOptions(path=path, on_bad_row="skip"))
    sentences = [sentence for _, sentence in BAD_FIELDS]
    sentences += [f"{sentence}; fix the line" for _, sentence in BAD_LINES]
    sentences.append(
        "field 'id': expected a unique id, got 'q1' as in line 1; give each row an id of its own"
    )
    assert [item.id for item in loaded.questions] == ["q1", "q2"]
    assert list(loaded.skipped) == [
        f"{path}, line {n}: {sentence}" for n, sentence in enumerate(sentences, start=3)
    ]


def test_a_file_of_bad_rows_alone_is_refused_even_when_rows_may_be_skipped(jsonl, row):
    path = jsonl(row(id=...), row(options=...))
    assert refusal(path, on_bad_row="skip") == (
        f"{path}: none of its 2 rows is usable; the first error: {path}, line 1: field 'id': "
        "expected a text or a whole number, got nothing"
    )


@pytest.mark.parametrize("content", ["", "\n \n"])
@pytest.mark.parametrize("policy", ["error", "skip"])
def test_an_empty_file_is_refused(tmp_path, content, policy):
    path = tmp_path / "rows.jsonl"
    path.write_text(content, encoding="utf-8")
    assert (
        refusal(path, on_bad_row=policy)
        == f"{path}: expected at least one row, got an empty file; give a file with rows"
    )


@pytest.mark.parametrize(("key", "value"), [("split", "train"), ("annotations", "spans.json")])
def test_keys_that_mean_nothing_to_jsonl_are_refused(jsonl, row, key, value, said):
    with pytest.raises(UsageError) as caught:
        load_jsonl(DatasetOptions(path=jsonl(row()), **{key: value}))
    said(str(caught.value), "'jsonl'")


def test_a_file_that_cannot_be_read_is_a_usage_error(jsonl, row, monkeypatch, said):
    path = jsonl(row())

    def fail(self):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(path), "read_bytes", fail)
    with pytest.raises(UsageError) as caught:
        load_jsonl(DatasetOptions(path=path))
    said(str(caught.value))
