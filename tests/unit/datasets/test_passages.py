"""Passages: columns, hints at letters, empty ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from medstress.core.errors import DataError, UsageError
from medstress.core.items import Mention, Question
from medstress.datasets import medmcqa
from medstress.datasets.passages import clean_passages, without_hints
from medstress.datasets.questions import load_jsonl
from medstress.datasets.sample import load as load_sample
from medstress.datasets.source import DatasetOptions

ROW = {"id": "1", "question": "Which drug?", "options": ["Aspirin", "Heparin"], "answer_idx": "B"}


def load(folder: Path, *rows: dict[str, Any], **keys: Any) -> Any:
    path = folder / "items.jsonl"
    path.write_text("".join(json.dumps({**ROW, **row}) + "\n" for row in rows), "utf-8")
    return load_jsonl(DatasetOptions(path=path, **keys))


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ("Ans. is 'b' i.e., Etomidate It spares", "Etomidate It spares"),
        ("Ans. is 'c > d' i.e., Methionine", "Methionine"),
        ("ANSWER: (D) OxprenololREF", "OxprenololREF"),
        ("Answer- A. Lymphangiosarcoma", "Lymphangiosarcoma"),
        ("Answer is option 1 Glioma", "Glioma"),
        ("B i.e. Atracurium", "Atracurium"),
        ("Candidiasis (choice C) is wrong because", "Candidiasis is wrong because"),
        ("Since options C and D both help", "Since both help"),
        ("(option 'a') it occurs rarely", "it occurs rarely"),
        ("B is the right answer because it", "because it"),
        ("Rare. A, C are incorrect.", "Rare. "),
        ("Correct choice is B. Heparin", "Heparin"),
        ("Answer = B, heparin", "heparin"),
    ],
)
def test_words_that_name_an_option_by_its_letter_are_left_out(said: str, left: str) -> None:
    assert without_hints(said)[0] == left


@pytest.mark.parametrize(
    "said",
    [
        "The answer is a drug that binds calcium.",
        "Vitamin A) is stored in the liver.",
        "Hepatitis B i.e. HBV",
        "The choice between a statin and a fibrate",
        "Options include aspirin and heparin.",
        "answer is vitamin B12",
        "The choice of a drug: a good one.",
        "Vitamin B is the right vitamin.",
        "Type A is false croup.",
        "The correct dose is 5 mg.",
        "The best option is surgery.",
    ],
)
def test_letters_that_name_no_option_stay(said: str) -> None:
    assert without_hints(said) == (said, ())


def test_what_is_left_out_is_counted_and_mentions_move(tmp_path: Path) -> None:
    text = "Ans. is 'b' i.e., Heparin thins blood (option A does not)."
    at = text.index("Heparin")
    mention = {"field": "passage", "start": at, "end": at + 7, "type": "T121"}
    rows = [{"passage": text, "mentions": [mention]}, {"id": "2", "passage": " \n"}, {"id": "3"}]
    loaded = load(tmp_path, *rows)
    first, second, third = loaded.questions
    assert first.passage == "Heparin thins blood (does not)."
    assert first.mentions == (Mention(field="passage", start=0, end=7, type="T121"),)
    assert (second.passage, third.passage) == ("", "")
    assert loaded.notes == (
        "1 of 3 questions have a passage that names an option by its letter, such as \"Ans. is 'b' "
        'i.e.,"; those words are left out',
        "1 of 3 questions have a passage without text, which counts as none",
    )


def test_a_mention_of_what_is_left_out_is_gone() -> None:
    item = Question(
        id="1",
        stem="Which?",
        passage="Choice B. Heparin.",
        options=("Aspirin", "Heparin"),
        key="B",
        mentions=(Mention(field="passage", start=7, end=8, type=""),),
    )
    (clean,), _ = clean_passages([item])
    assert (clean.passage, clean.mentions) == ("Heparin.", ())


def test_columns_give_the_file_s_own_names(tmp_path: Path) -> None:
    row = {"exp": "Heparin thins blood.", "q": "Which one?"}
    (item,) = load(tmp_path, row, columns={"passage": "exp", "question": "q"}).questions
    assert (item.passage, item.stem) == ("Heparin thins blood.", "Which one?")
    with pytest.raises(DataError, match=r"items\.jsonl, line 1: columns: expected the field 'ex'"):
        load(tmp_path, row, columns={"passage": "ex"})
    with pytest.raises(UsageError, match="did you mean 'passage'"):
        load(tmp_path, row, columns={"pasage": "exp"})


def test_whether_a_passage_decides_is_true_or_false(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="'passage_decides': expected true or false, got the text"):
        load(tmp_path, {"passage": "x", "passage_decides": "no"})


def test_a_passage_is_part_of_the_hash_and_its_absence_is_not() -> None:
    plain = Question(id="1", stem="Which?", options=("x", "y"), key="A")
    read = Question(id="1", stem="Which?", options=("x", "y"), key="A", passage="It is x.")
    assert plain.hash != read.hash
    assert plain.hash == replace(read, passage="").hash


def test_medmcqa_reads_explanations_where_columns_say_so(published: Any) -> None:
    path = published("qa/medmcqa_train_leaner_typed.parquet")
    plain = medmcqa.load(DatasetOptions(path=path))
    assert not any(item.passage for item in plain.questions)
    loaded = medmcqa.load(DatasetOptions(path=path, columns={"passage": "reference"}))
    assert sum(bool(item.passage) for item in loaded.questions) == 3877 - 536 - 4
    assert len(loaded.notes) == 2
    with pytest.raises(UsageError, match="the field 'passage' alone"):
        medmcqa.load(DatasetOptions(path=path, columns={"stem": "question"}))


def test_four_in_five_passages_of_the_sample_decide_and_none_names_a_letter() -> None:
    loaded = load_sample(DatasetOptions())
    assert loaded.notes == ()
    decides = [item.metadata["passage_decides"] for item in loaded.questions]
    assert (len(decides), sum(decides)) == (200, 160)
    for item in loaded.questions:
        assert 50 <= len(item.passage.split()) <= 90, item.id
        assert without_hints(item.passage)[1] == (), item.id
        named = [text for text in item.options if text.lower() in item.passage.lower()]
        if item.metadata["passage_decides"]:
            assert item.key_text in named or item.key_text.lower() in item.passage.lower(), item.id
        else:
            assert named != [item.key_text], item.id
