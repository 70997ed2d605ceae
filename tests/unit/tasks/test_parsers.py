import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.tasks.reading import PARSERS, exact, first_four, single_character

DRUGS = ["Aspirin", "Warfarin", "Heparin", "Apixaban"]


@pytest.mark.parametrize("text", ["B ", " B", "B.", "b", "", "BC", "E"])
def test_exact_takes_the_letter_and_nothing_else(text):
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
def test_first_four_takes_the_first_letter_in_four_characters(text, letter):
    assert first_four(text, DRUGS) == letter


@pytest.mark.parametrize(
    ("text", "letter"), [(" B \n", "B"), ("B)", None), ("", None), ("e", None), ("AB", None)]
)
def test_a_single_character_may_have_white_space_around_it(text, letter):
    assert single_character(text, DRUGS) == letter


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text(max_size=30))
def test_every_parser_gives_a_letter_of_the_item_or_nothing(name, text):
    assert PARSERS[name](text, DRUGS[:3]) in ("A", "B", "C", None)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("letter", "ABCD")
def test_every_parser_reads_a_bare_letter(name, letter):
    assert PARSERS[name](letter, DRUGS) == letter
