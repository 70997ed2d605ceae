"""One row of the documented format: what makes a question, and what is refused with its field."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.core.errors import DataError
from medstress.core.tables import plain
from medstress.datasets.questions import question_from_row, row_from_question, split_question

Make = Callable[..., dict[str, Any]]


def span(**fields: Any) -> list[dict[str, Any]]:
    good = {"field": "A", "start": 0, "end": 11, "type": "T109"}
    return [{name: value for name, value in (good | fields).items() if value is not ...}]


BAD: list[tuple[dict[str, Any], str]] = [
    ({"id": ...}, "'id': expected a text or a whole number, got nothing"),
    ({"id": ..., "ids": 3}, "did you mean 'ids'"),
    ({"id": 1.5}, "'id': .*1.5"),
    ({"id": True}, "'id': .*True"),
    ({"id": " "}, "'id': "),
    ({"question": ...}, "'question': expected a text .*got nothing"),
    ({"question": ..., "context": "He smokes."}, "'stem': "),
    ({"question": ["x"]}, r"'question': expected a text, got the list \['x'\]"),
    ({"question": " "}, "'question'.*empty"),
    ({"stem": 4}, "'stem': expected a text, got the number 4"),
    ({"context": "He smokes."}, "'context': expected it with 'stem'"),
    ({"question": "Which?", "context": "He.", "stem": "Why?"}, "'question': expected 'context'"),
    ({"options": ...}, "'options': expected 2 to 10 options, got nothing"),
    ({"options": "A) x B) y"}, "'options': expected a list or an object"),
    ({"options": ["x", 2]}, "'options', entry 2: expected a text, got the number 2"),
    ({"options": {"A": "x", "B": None}}, "'options', entry 2: .*nothing"),
    ({"options": ["x"]}, "'options': expected 2 to 10 options, got 1"),
    ({"options": [f"x{n}" for n in range(11)]}, "'options': .*got 11"),
    ({"options": {"A": "x", "C": "y"}}, "letters A, B, got A, C"),
    ({"options": ["x", "y", "x "]}, "A and C are both 'x '"),
    ({"options": ["x", " "]}, "an option is empty"),
    ({"answer_idx": ...}, "'answer_idx': .*nothing"),
    *[({"answer_idx": value}, "'answer_idx': ") for value in ("D", "AB", "", 3, -1, True, 1.0)],
    ({"mentions": "T109"}, "'mentions': expected a list"),
    ({"mentions": [3]}, "'mentions', entry 1: expected an object"),
    ({"mentions": span() + span(type=...)}, "'mentions', entry 2, 'type': .*nothing"),
    ({"mentions": span(start="0")}, "entry 1, 'start': expected a whole number"),
    ({"mentions": span(end=True)}, "entry 1, 'end': expected a whole number"),
    ({"mentions": span(field=None)}, "entry 1, 'field': expected a text"),
    ({"mentions": span(field="D")}, "field 'D' is neither"),
    ({"mentions": span(end=12)}, r"\[0, 12\) lie outside A"),
    ({"mentions": span(end=3)}, r"expected whole words, got 'all' at \[0, 3\) of A"),
    ({"passage": 3}, "'passage': expected a text"),
    ({"passage_decides": "no"}, "'passage_decides': expected true or false"),
]


@pytest.mark.parametrize(("fields", "match"), BAD, ids=range(len(BAD)))
def test_a_fault_is_named_by_its_field(row: Make, fields: dict[str, Any], match: str) -> None:
    with pytest.raises(DataError, match=match) as caught:
        question_from_row(row(**fields))
    assert "\n" not in str(caught.value)


def test_context_stem_and_other_fields(row: Make) -> None:
    parts = {"context": "A b.", "stem": "c. d?"}
    for question in (..., "A b. c. d?"):
        item = question_from_row(row(question=question, **parts))
        assert (item.context, item.stem) == ("A b.", "c. d?")
    item = question_from_row(row(answer="In other words", year=2020, passage_decides=False, id=0))
    assert item.metadata == {"answer": "In other words", "year": 2020, "passage_decides": False}
    assert item.id == "0"
    own = [("B", 0, 7, "T109"), ("context", 10, 14, None), ("question", 10, 14, "T047")]
    names = ("field", "start", "end", "type")
    item = question_from_row(row(mentions=[dict(zip(names, one, strict=True)) for one in own]))
    texts = [item.text_of(m.field)[m.start : m.end] for m in item.mentions]
    assert texts == ["aspirin", "gout", "gout"]
    assert question_from_row(row_from_question(item)) == item
    value = {"a": [math.nan, 1.5, True], 2: ("x", b"y"), "n": None, "big": 2**70}
    kept = {"a": [None, 1.5, True], "2": ["x", "b'y'"], "n": None, "big": str(2**70)}
    assert plain(value) == kept


@pytest.mark.parametrize(
    ("question", "context", "stem"),
    [
        ("What next?", "", "What next?"),
        ("One. Two. What next?", "One. Two.", "What next?"),
        ("pH 7.4 is", "", "pH 7.4 is"),
        ("One.\nTwo?", "", "One.\nTwo?"),
        ("He smokes.  What next?", "He smokes.", " What next?"),
        ("He smokes. It is. ", "He smokes.", "It is. "),
        (". What next?", ".", "What next?"),
    ],
)
def test_the_stem_is_what_follows_the_last_full_stop_and_space(
    question: str, context: str, stem: str
) -> None:
    assert split_question(question) == (context, stem)


@settings(deadline=None)
@given(st.text(alphabet=st.sampled_from("ab. ?\n\u00e9")).filter(str.strip))
def test_context_and_stem_give_the_question_again(text: str) -> None:
    item = question_from_row({"id": "q", "question": text, "options": ["x", "y"], "answer_idx": 0})
    assert item.question == text
    assert item.stem.strip()
    assert ". " not in item.stem.rstrip()
