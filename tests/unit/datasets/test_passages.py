"""Passages: hints at letters are left out and counted, mentions move."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from medstress.core.items import Mention
from medstress.datasets.questions import without_hints


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


def test_what_is_left_out_is_counted_and_mentions_move(read: Callable[..., Any], row: Any) -> None:
    text = "Ans. is 'b' i.e., Heparin thins blood (option A does not)."
    at = text.index("Heparin")
    mention = {"field": "passage", "start": at, "end": at + 7, "type": "T121"}
    made = [row(passage=text, mentions=[mention]), row(id="2", question="Why?", passage=" \n")]
    loaded = read(made)
    first, second = loaded.items
    assert (first.passage, second.passage) == ("Heparin thins blood (does not).", "")
    assert first.mentions == (Mention(field="passage", start=0, end=7, type="T121"),)
    assert [note.partition(" questions")[0] for note in loaded.notes] == ["1 of 2", "1 of 2"]
    columns = {"passage": "exp"}
    named = read([{"exp": "It thins blood.", **row()}], columns=columns)
    assert named.items[0].passage == "It thins blood."


def test_a_mention_of_what_is_left_out_is_gone(read: Callable[..., Any], row: Any) -> None:
    mention = {"field": "passage", "start": 7, "end": 8, "type": "T121"}
    (clean,) = read([row(passage="Choice B. Heparin.", mentions=[mention])]).items
    assert (clean.passage, clean.mentions) == ("Heparin.", ())
