from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.tasks.parsers import PARSERS, exact, first_four, single_character, standalone

DRUGS = ["Aspirin", "Warfarin", "Heparin", "Apixaban"]


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        ("B", "B"),
        ("B.", "B"),
        ("(B)", "B"),
        ("B: Warfarin", "B"),
        ("**B** Warfarin", "B"),
        ("The answer is B.", "B"),
        ("Answer: A because it bleeds", "A"),
        ("The answer is A since it bleeds", "A"),
        ("option A is right", "A"),
        ("\n\n  C\nD is wrong", "C"),
        ("[Answer]: D", "D"),
        (" B\n\n[Context]: the model's own next question\n[Answer]: A", "B"),
        ("The answer is\nB", "B"),
        ("B, B and again B", "B"),
        ("A", "A"),
        ("A.", "A"),
        ("A Warfarin", "A"),
    ],
)
def test_a_letter_that_stands_alone_is_read(text: str, letter: str) -> None:
    assert standalone(text, DRUGS) == letter


@pytest.mark.parametrize(
    "text",
    [
        "",
        "   \n ",
        "Warfarin",
        "b",
        "E",
        "B or C",
        "B/C",
        "Not A; the answer is B",
        "A patient needs warfarin",
        "BCD",
        "B2 receptor",
        "B's",
        "[Answer]: ",
        "vitamin C deficiency",
    ],
)
def test_conflicts_articles_and_texts_without_a_letter_are_unreadable(text: str) -> None:
    assert standalone(text, DRUGS) is None


@pytest.mark.parametrize(
    ("text", "letter"), [("A or B", None), ("A and C", None), ("A is right.", "A")]
)
def test_a_word_that_no_noun_begins_with_leaves_a_the_letter_a(
    text: str, letter: str | None
) -> None:
    assert standalone(text, DRUGS) == letter


def test_only_the_letters_of_the_item_count() -> None:
    assert standalone("D", DRUGS[:3]) is None
    assert standalone("D", DRUGS) == "D"


@pytest.mark.parametrize("text", ["B ", " B", "B.", "b", "", "BC", "E"])
def test_exact_takes_the_letter_and_nothing_else(text: str) -> None:
    assert exact("B", DRUGS) == "B"
    assert exact(text, DRUGS) is None


@pytest.mark.parametrize(
    ("text", "letter"),
    [
        (" B", "B"),
        ("A or B", "A"),
        ("is B", "B"),
        ("is  B", None),
        ("\nB", "B"),
        (" B\n[Answer]: A", "B"),
        ("it is D", None),
        ("", None),
    ],
)
def test_first_four_takes_the_first_letter_in_four_characters(
    text: str, letter: str | None
) -> None:
    assert first_four(text, DRUGS) == letter


@pytest.mark.parametrize(
    ("text", "letter"), [(" B \n", "B"), ("B)", None), ("", None), ("e", None), ("AB", None)]
)
def test_a_single_character_may_have_white_space_around_it(text: str, letter: str | None) -> None:
    assert single_character(text, DRUGS) == letter


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text(max_size=30))
def test_every_parser_gives_a_letter_of_the_item_or_nothing(name: str, text: str) -> None:
    assert PARSERS[name](text, DRUGS[:3]) in ("A", "B", "C", None)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("letter", "ABCD")
def test_every_parser_reads_a_bare_letter(name: str, letter: str) -> None:
    assert PARSERS[name](letter, DRUGS) == letter
