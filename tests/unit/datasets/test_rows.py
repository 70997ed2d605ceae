import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.hashing import file_hash
from medstress.core.items import Mention
from medstress.datasets.questions import load_jsonl
from medstress.datasets.rows import question_from_row, split_question
from medstress.datasets.source import DatasetOptions
from medstress.datasets.values import plain


def read(path, **options):
    return load_jsonl(DatasetOptions(path=path, **options))


def test_a_plain_row_becomes_a_question(jsonl, row):
    path = jsonl(row(year=2024, topic=None))
    loaded = read(path)
    (item,) = loaded.questions
    assert (item.id, item.key, item.options) == ("q1", "A", ("allopurinol", "aspirin", "codeine"))
    assert (item.context, item.stem) == ("A man has gout.", "Which drug lowers urate?")
    assert item.mentions == ()
    assert item.metadata == {"year": 2024, "topic": None}
    assert loaded.skipped == ()
    assert loaded.source_hash == file_hash(path)


def test_options_may_be_a_list_of_2_to_10_or_letters_in_any_order(row):
    for n in (2, 10):
        options = [f"drug {i}" for i in range(n)]
        assert question_from_row(row(options=options)).options == tuple(options)
    assert question_from_row(row(options={"B": "two", "A": "one"})).options == ("one", "two")


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({"answer_idx": "C"}, "C"),
        ({"answer_idx": 0}, "A"),
        ({"answer_idx": 2}, "C"),
        ({"answer_idx": ..., "answer": "B"}, "B"),
        ({"answer_idx": ..., "answer": "codeine"}, "C"),
        ({"answer_idx": None, "answer": "codeine"}, "C"),
        ({"answer_idx": 1, "answer": "aspirin"}, "B"),
        ({"answer_idx": 1, "answer": "B"}, "B"),
    ],
)
def test_the_key_is_read_in_each_of_its_forms(row, fields, key):
    item = question_from_row(row(**fields))
    assert item.key == key
    assert item.metadata == {}


def test_an_answer_that_is_a_letter_is_read_as_one_even_where_an_option_has_that_text(row):
    blood = {"A": "O", "B": "A", "C": "AB"}
    assert question_from_row(row(options=blood, answer_idx=..., answer="A")).key == "A"
    assert question_from_row(row(options=blood, answer_idx="B", answer="A")).key == "B"


def test_an_answer_in_other_words_beside_answer_idx_is_metadata(row):
    item = question_from_row(row(answer="It inhibits xanthine oxidase"))
    assert item.metadata == {"answer": "It inhibits xanthine oxidase"}


def test_context_and_stem_may_come_apart(row):
    item = question_from_row(row(question=..., context="One. Two.", stem="Why? How."))
    assert (item.context, item.stem) == ("One. Two.", "Why? How.")


def test_a_stem_may_stand_alone(row):
    item = question_from_row(row(question=..., stem="One. Why?"))
    assert (item.context, item.stem) == ("", "One. Why?")


def test_a_question_may_stand_beside_the_context_and_stem_it_joins(row):
    item = question_from_row(row(question="A b. c. d?", context="A b.", stem="c. d?"))
    assert (item.context, item.stem) == ("A b.", "c. d?")


def test_a_whole_number_is_an_id(row):
    assert question_from_row(row(id=0)).id == "0"


def test_mentions_keep_their_fields(row):
    spans = [("B", 0, 7, "T109"), ("context", 10, 14, "T047"), ("stem", 18, 23, "")]
    spans.append(("question", 10, 14, "T047"))
    names = ("field", "start", "end", "type")
    item = question_from_row(row(mentions=[dict(zip(names, span, strict=True)) for span in spans]))
    assert item.mentions == tuple(Mention(field=f, start=s, end=e, type=t) for f, s, e, t in spans)
    assert [item.text_of(m.field)[m.start : m.end] for m in item.mentions] == [
        "aspirin",
        "gout",
        "urate",
        "gout",
    ]


def test_a_mention_of_null_type_has_an_unknown_type(row):
    mention = {"field": "A", "start": 0, "end": 11, "type": None}
    assert question_from_row(row(mentions=[mention])).mentions[0].type == ""


def test_blank_lines_windows_line_ends_and_a_byte_order_mark_do_no_harm(tmp_path, row):
    lines = ["\ufeff" + json.dumps(row(id="1")), "", "  ", json.dumps(row(id="2"))]
    path = tmp_path / "rows.jsonl"
    path.write_bytes("\r\n".join(lines).encode())
    assert [item.id for item in read(path).questions] == ["1", "2"]


def test_a_line_separator_inside_a_text_does_not_end_the_line(tmp_path, row):
    path = tmp_path / "rows.jsonl"
    path.write_text(json.dumps(row(stem="x\u2028y", question=...), ensure_ascii=False))
    assert read(path).questions[0].stem == "x\u2028y"


def test_metadata_hold_only_what_json_can_hold():
    value = {"a": [math.nan, math.inf, 1.5, True], 2: ("x", b"y"), "n": None}
    assert plain(value) == {"a": [None, None, 1.5, True], "2": ["x", "b'y'"], "n": None}


@pytest.mark.parametrize(
    ("question", "context", "stem"),
    [
        ("What next?", "", "What next?"),
        ("He smokes. What next?", "He smokes.", "What next?"),
        ("One. Two. What next?", "One. Two.", "What next?"),
        ("pH 7.4 is", "", "pH 7.4 is"),
        ("One.\nTwo?", "", "One.\nTwo?"),
        ("He smokes.  What next?", "He smokes.", " What next?"),
        ("He smokes. It is. ", "He smokes.", "It is. "),
        (". What next?", ".", "What next?"),
    ],
)
def test_the_stem_is_what_follows_the_last_full_stop_and_space(question, context, stem):
    assert split_question(question) == (context, stem)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab. ?\n\u00e9")).filter(str.strip))
def test_context_and_stem_give_the_question_again(text):
    context, stem = split_question(text)
    item = question_from_row({"id": "q", "question": text, "options": ["x", "y"], "answer_idx": 0})
    assert (item.context, item.stem, item.question) == (context, stem, text)
    assert stem.strip()
    assert ". " not in stem.rstrip()
