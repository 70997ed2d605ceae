"""Layouts of other people's files: what is read and said, what is refused with which key."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.datasets.source import Loaded

Read = Callable[..., Loaded]

Q = "Which drug lowers urate?"
FOUR = ("allopurinol", "aspirin", "codeine", "insulin")


def rows(*keys: Any, **more: Any) -> list[dict[str, Any]]:
    """Rows with different questions; each value of `more` may be a list with one value a row."""
    made = []
    for n, key in enumerate(keys):
        own = {name: one[n] if isinstance(one, list) else one for name, one in more.items()}
        made.append({"question": f"{Q} ({n})", **own, "answer": key})
    return made


def lettered(prefix: str = "", texts: tuple[str, ...] = FOUR, first: str = "A") -> dict[str, Any]:
    return {f"{prefix}{chr(ord(first) + n)}": text for n, text in enumerate(texts)}


def as_answer(name: str, made: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {(name if column == "answer" else column): value for column, value in row.items()}
        for row in made
    ]


MEDQA = [
    {**row, "answer": FOUR[n], "answer_idx": "ABCD"[n], "meta_info": "step1", "metamap_phrases": []}
    for n, row in enumerate(rows("", "", options=lettered()))
]
MMLU_PRO = [
    {**row, "question_id": 70 + n, "answer_index": n, "cot_content": "", "category": "health"}
    for n, row in enumerate(rows("A", "B", options=list(FOUR)))
]
for _row in MMLU_PRO:
    _row["options"] = list(FOUR)
HEADQA = [
    {
        "qid": n + 1,
        "qtext": f"{Q} ({n})",
        "ra": n + 1,
        "image": "",
        "category": "pharmacology",
        "answers": [{"aid": at, "atext": text} for at, text in enumerate(FOUR, start=1)],
    }
    for n in range(4)
]
ARC = [
    {
        "id": f"Mercury_{n}",
        "question": f"{Q} ({n})",
        "choices": {"text": list(FOUR), "label": list("ABCD" if n else "1234")},
        "answerKey": "B" if n else "1",
    }
    for n in range(2)
]
ARC_ORIGINAL = [
    {
        "id": "Mercury_1",
        "question": {
            "stem": Q,
            "choices": [{"text": t, "label": x} for t, x in zip(FOUR, "ABCD", strict=True)],
        },
        "answerKey": "B",
    }
]
AFRIMED = [
    {
        "sample_id": f"s{n}",
        "question": f"{Q} ({n})",
        "question_type": "MCQ",
        "answer_options": json.dumps({f"option{at}": t for at, t in enumerate(FOUR, start=1)}),
        "correct_answer": f"option{n + 1}",
        "answer_rationale": "It blocks an enzyme.",
    }
    for n in range(2)
]
CAREQA = [
    {
        "exam_id": n,
        "question": f"{Q} ({n})",
        **{f"op{at}": text for at, text in enumerate(FOUR, start=1)},
        "cop": n + 1,
        "unique_id": f"u{n}",
    }
    for n in range(4)
]
READ: dict[str, tuple[list[dict[str, Any]], dict[str, Any], str]] = {
    # name: rows, keys of [[dataset]], the right answers
    "the documented format": (
        [{"id": 7, "question": Q, "options": lettered(), "answer_idx": "B"}],
        {},
        "B",
    ),
    "MMLU": (as_answer("answer", [{**r, "choices": list(FOUR)} for r in rows(0, 1)]), {}, "AB"),
    "MMLU-Pro": (MMLU_PRO, {}, "AB"),
    "MedQA": (MEDQA, {}, "AB"),
    "MedMCQA of the hub": (as_answer("cop", rows(0, 3, **lettered("op", first="a"))), {}, "AD"),
    "MedMCQA as published": (as_answer("cop", rows(1, 4, **lettered("op", first="a"))), {}, "AD"),
    "HeadQA": (HEADQA, {}, "ABCD"),
    "ARC": (ARC, {}, "AB"),
    "ARC as published": (ARC_ORIGINAL, {}, "B"),
    "AfriMed": (AFRIMED, {}, "AB"),
    "CareQA": (CAREQA, {}, "ABCD"),
    "columns of letters": (rows("A", "b", "(C)", "D.", **lettered()), {}, "ABCD"),
    "columns of texts": (rows(*FOUR, **lettered("Option ")), {}, "ABCD"),
    "correct_option from 1": (
        as_answer("correct_option", rows(1, 4, **{f"option_{n + 1}": FOUR[n] for n in range(4)})),
        {},
        "AD",
    ),
    "correct_option as texts of numbers": (
        as_answer("correct_option", rows("0", "2", **lettered("choice_", first="a"))),
        {},
        "AC",
    ),
    "answer_base": (rows(1, 2, **lettered()), {"answer_base": 1}, "AB"),
    "columns": (
        [{"item": Q, "o1": "aspirin", "o2": "codeine", "key": "A", "note": "x"}],
        {"columns": {"question": "item", "options": ["o1", "o2"], "answer": "key"}},
        "A",
    ),
    "context and stem named": (
        [{"vignette": "He is 40.", "lead_in": Q, **lettered(), "answer": "C"}],
        {"columns": {"context": "vignette", "stem": "lead_in"}},
        "C",
    ),
    "a list of one answer": (rows(["A"], ["C"], **lettered()), {}, "AC"),
    "blood groups with a letter": (
        rows("A", "B", **lettered(texts=("B", "A", "AB", "O"))),
        {"columns": {"answer_idx": "answer"}},
        "AB",
    ),
    "blood groups with a text": (
        rows("A", "B", **lettered(texts=("B", "A", "AB", "O"))),
        {"columns": {"answer_text": "answer"}},
        "BA",
    ),
    "numbers as options": (rows("4", "12", **lettered(texts=("4", "8", "12", "16"))), {}, "AC"),
    "letters before the options": (
        rows("A", "B", options=["A. allopurinol", "B. aspirin", "C. codeine", "D. insulin"]),
        {},
        "AB",
    ),
}
for _row in READ["letters before the options"][0]:
    _row["options"] = ["A. allopurinol", "B. aspirin", "C. codeine", "D. insulin"]


@pytest.mark.parametrize("name", READ)
@pytest.mark.parametrize("form", ["jsonl", "json"])
def test_layouts_are_read(read: Read, name: str, form: str) -> None:
    made, keys, right = READ[name]
    loaded = read(made, form=form, **keys)
    assert "".join(item.key for item in loaded.items) == right
    first = loaded.items[0]
    assert (first.question or "").startswith(("Which drug", "He is 40. Which"))
    assert not any(text.startswith("A.") for text in first.options)
    again = read(made, form=form, **keys)
    assert [item.hash for item in again.items] == [item.hash for item in loaded.items]


@pytest.mark.parametrize("name", ["AfriMed", "CareQA", "columns of letters", "MedMCQA of the hub"])
@pytest.mark.parametrize("form", ["csv", "tsv", "parquet", "xlsx"])
def test_tables_say_the_same_in_every_format(read: Read, name: str, form: str) -> None:
    if form == "xlsx":
        pytest.importorskip("openpyxl")
    made, keys, right = READ[name]
    loaded = read(made, form=form, **keys)
    whole = read(made, form="jsonl", **keys)
    assert "".join(item.key for item in loaded.items) == right
    assert [item.hash for item in loaded.items] == [item.hash for item in whole.items]


RIGHT_AND_WRONG: dict[str, dict[str, Any]] = {
    "SciQ": {
        "question": Q,
        "distractor3": "insulin",
        "distractor1": "aspirin",
        "distractor2": "codeine",
        "correct_answer": "allopurinol",
        "support": "Urate falls.",
    },
    "GPQA": {
        "Pre-Revision Question": "Old?",
        "Pre-Revision Correct Answer": "old",
        "Pre-Revision Incorrect Answer 1": "older",
        "Question": Q,
        "Correct Answer": "allopurinol",
        "Incorrect Answer 1": "aspirin",
        "Incorrect Answer 2": "codeine",
        "Incorrect Answer 3": "insulin",
        "Record ID": "rec1",
    },
    "incorrect1": {
        "question": Q,
        "correct_answer": "allopurinol",
        "incorrect1": "aspirin",
        "incorrect2": "codeine",
        "incorrect3": "insulin",
    },
    "a list": {
        "question": Q,
        "correct_answer": "allopurinol",
        "incorrect_answers": ["aspirin", "codeine", "insulin"],
    },
}


@pytest.mark.parametrize("name", RIGHT_AND_WRONG)
def test_right_and_wrong_answers_in_an_order_drawn_from_the_id(read: Read, name: str) -> None:
    made = [
        {column: f"{value} ({n})" if value == Q else value for column, value in one.items()}
        for n in range(40)
        for one in [RIGHT_AND_WRONG[name]]
    ]
    if name == "GPQA":
        made = [{**one, "Record ID": f"rec{n}"} for n, one in enumerate(made)]
    loaded = read(made, form="jsonl")
    assert {item.key_text for item in loaded.items} == {"allopurinol"}
    assert all(sorted(item.options) == sorted(FOUR) for item in loaded.items)
    assert {item.key for item in loaded.items} == set("ABCD")
    turned = read(made[::-1], form="jsonl")
    assert {i.id: i.hash for i in turned.items} == {i.id: i.hash for i in loaded.items}
    assert "order" in loaded.understood


REFUSED: dict[str, tuple[Any, dict[str, Any], str]] = {
    "numbers of either base": (rows(1, 2, **lettered()), {}, "answer_base"),
    "answer_idx that only counts from 1": (
        [{"id": n, **one} for n, one in enumerate(as_answer("answer_idx", rows(1, 4)))],
        {},
        "answer_base",
    ),
    "numbers of both bases": (rows(0, 4, **lettered()), {}, "answer_base"),
    "numbers that are options": (
        rows("1", "2", **lettered(texts=("2", "1", "3", "4"))),
        {},
        "answer_base|answer_text",
    ),
    "letters that are options": (
        rows("A", "B", **lettered(texts=("B", "A", "AB", "O"))),
        {},
        "answer_idx = .*answer_text = ",
    ),
    "no answers": ([{"question": Q, **lettered(), "right": "A"}], {}, "columns = .answer"),
    "nothing besides": ([{"question": Q, **lettered()}], {}, "no column; add one"),
    "no options": ([{"question": Q, "answer": "A"}], {}, "columns = .options"),
    "no question": ([{"words": Q, **lettered(), "answer": "A"}], {}, "columns = .question"),
    "a case beside the question": (
        rows("A", "B", vignette=["A man of 40 coughs.", "A woman of 20 sneezes."], **lettered()),
        {},
        "columns = .context = .vignette.",
    ),
    "a context beside the question": (
        rows("A", "B", context=["A man of 40 coughs.", "A woman of 20 sneezes."], **lettered()),
        {},
        "columns = .*passage = .context.",
    ),
    "answers that disagree": (
        [
            {**one, "correct_answer": other}
            for one, other in zip(rows("A", "B", "C", **lettered()), "BCA", strict=True)
        ],
        {},
        "columns = .answer = ",
    ),
    "options that disagree": (
        rows("A", "B", choices=[list(FOUR), list(FOUR)], **lettered(texts=FOUR[::-1])),
        {},
        "columns = .options = ",
    ),
    "a weak name": (as_answer("label", rows("A", "B", **lettered())), {}, "answer = .label."),
    "a flag": (as_answer("correct", rows(1, 0, **lettered())), {}, "answer"),
    "a test split": (as_answer("cop", rows(-1, -1, **lettered("op", first="a"))), {}, "without"),
    "a gap in the options": (rows("A", "B", A="x", B="y", C=["", ""], D="z"), {}, "'C'"),
    "an unknown field of columns": (rows("A", **lettered()), {"columns": {"anser": "x"}}, "anser"),
    "a column that is not there": (
        rows("A", **lettered()),
        {"columns": {"answer": "anwser"}},
        "'anwser'.*did you mean 'answer'",
    ),
    "pairs": ([{"text_a": "It fell.", "text_b": "It rose.", "score": 1}], {}, 'name = "pairs"'),
    "tagged texts": ([{"tokens": ["It"], "ner_tags": ["O"]}], {}, 'name = "iob"'),
}
for _row in REFUSED["answer_idx that only counts from 1"][0]:
    _row["options"] = list(FOUR)
for _n, _row in enumerate(REFUSED["options that disagree"][0]):
    _row["choices"] = list(FOUR)


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_unclear_is_refused_with_the_key(read: Read, name: str) -> None:
    made, keys, match = REFUSED[name]
    with pytest.raises((DataError, UsageError), match=match) as caught:
        read(made, form="jsonl", **keys)
    assert len(str(caught.value)) < 420


def test_what_was_understood_is_one_line(read: Read) -> None:
    loaded = read(rows(1, 4, **lettered("Option ")), form="csv")
    for part in ("rows.csv", "2 questions", "'question'", "'Option A' to 'Option D'", "from 1"):
        assert part in loaded.understood
    loaded = read(READ["the documented format"][0], form="jsonl")
    assert loaded.understood == ""


def test_a_table_without_a_header_is_refused(read: Read) -> None:
    text = f'"{Q}",w,x,y,z,B\n"Why is it so?",w,x,y,z,A\n'
    with pytest.raises(DataError, match="first row"):
        read(text, form="csv")


def test_metadata_keeps_the_other_columns(read: Read) -> None:
    loaded = read(rows("A", "B", subject=["kidney", "liver"], **lettered()), form="csv")
    assert [item.metadata for item in loaded.items] == [{"subject": "kidney"}, {"subject": "liver"}]
