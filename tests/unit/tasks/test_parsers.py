import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.tasks.reading import PARSERS, exact, first_four, single_character

DRUGS = ["Aspirin", "Warfarin", "Heparin", "Apixaban"]


@pytest.mark.parametrize(
    ("parser", "letter", "texts"),
    [
        (exact, "B", ["B"]),
        (exact, None, ["B ", " B", "B.", "b", "", "BC", "E"]),
        (first_four, "B", [" B", "is B", "\nB", " B\n[Answer]: A"]),
        (first_four, "A", ["A or B"]),
        (first_four, None, ["is  B", "it is D", ""]),
        (single_character, "B", [" B \n"]),
        (single_character, None, ["B)", "", "e", "AB"]),
    ],
)
def test_the_papers_own_parsers_read_as_their_scripts_do(parser, letter, texts):
    assert {parser(text, DRUGS) for text in texts} == {letter}


@pytest.mark.parametrize("name", PARSERS)
@given(text=st.text(max_size=30))
def test_every_parser_gives_a_letter_of_the_item_or_nothing(name, text):
    assert PARSERS[name](text, DRUGS[:3]) in ("A", "B", "C", None)


@pytest.mark.parametrize("name", PARSERS)
@pytest.mark.parametrize("letter", "ABCD")
def test_every_parser_reads_a_bare_letter(name, letter):
    assert PARSERS[name](letter, DRUGS) == letter
