"""Names found in texts, at their exact places and with the types of their sources."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.entities.names import first_form, forms, split
from medstress.entities.recognisers import (
    Case,
    Gazetteer,
    Source,
    shipped_gazetteer,
)
from medstress.entities.vocabularies import SHIPPED, shipped_rows

NAMES = ("vitamin D", "Ménière's disease", "aspirin", "COVID-19", "5-fluorouracil")


@pytest.fixture(scope="module")
def small() -> Gazetteer:
    return Gazetteer(
        [
            Source(names=NAMES, type="drugs"),
            Source(names=["vitamin D deficiency", "fracture", "aspirin"], type="diseases"),
        ]
    )


def told(gazetteer: Gazetteer, text: str) -> list[tuple[str, str]]:
    (found,) = gazetteer.find([text])
    return [(text[entity.start : entity.end], entity.type) for entity in found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Give vitamin D.", [("vitamin D", "drugs")]),
        ("A vitamin-D deficiency?", [("vitamin-D deficiency", "diseases")]),
        ("MENIERE DISEASE", [("MENIERE DISEASE", "drugs")]),
        ("of Ménière’s disease, then", [("Ménière’s disease", "drugs")]),
        ("Me\u0301nie\u0300re's diseases!", [("Me\u0301nie\u0300re's diseases", "drugs")]),
        ("two fractures", [("fractures", "diseases")]),
        ("½ covid 19", [("covid 19", "drugs")]),
        ("5-Fluorouracil", [("5-Fluorouracil", "drugs")]),
        ("aspirins", [("aspirins", "diseases"), ("aspirins", "drugs")]),
        ("aspirinol, xaspirin, covid 199", []),
        ("vitamin, D", []),
        ("", []),
    ],
)
def test_a_name_is_found_with_its_exact_place_and_the_types_of_its_sources(
    small: Gazetteer, text: str, found: list[tuple[str, str]]
) -> None:
    assert told(small, text) == found


def test_a_longer_name_that_is_not_written_as_it_must_be_hides_no_shorter_one() -> None:
    gazetteer = Gazetteer(
        [
            Source(names=["aspirin plus"], type="drugs", case=Case.CAPITALISED),
            Source(names=["aspirin"], type="drugs"),
        ]
    )
    assert told(gazetteer, "aspirin plus") == [("aspirin", "drugs")]
    assert told(gazetteer, "Aspirin plus") == [("Aspirin plus", "drugs")]


@pytest.mark.parametrize(
    ("case", "written"),
    [
        (Case.ANY, ["AIR", "Air", "air"]),
        (Case.CAPITALISED, ["AIR", "Air"]),
        (Case.CAPITALS, ["AIR"]),
    ],
)
def test_a_source_may_ask_for_capitals(case: Case, written: list[str]) -> None:
    gazetteer = Gazetteer([Source(names=["air"], type="diseases", case=case)])
    assert [text for text in ("AIR", "Air", "air") if told(gazetteer, text)] == written


def test_short_names_and_numbers_are_not_looked_for() -> None:
    gazetteer = Gazetteer([Source(names=["ms", "17", "2019", "jaw"], type="diseases")])
    assert told(gazetteer, "ms 17 2019 jaw") == [("jaw", "diseases")]


@given(
    name=st.sampled_from(NAMES),
    before=st.text(alphabet="xyé½ß,.;- \u2013", max_size=12),
    after=st.text(alphabet="xyé½ß,.;- \u2013", max_size=12),
)
def test_a_name_between_separators_is_found_at_its_own_offsets(
    small: Gazetteer, name: str, before: str, after: str
) -> None:
    text = f"{before} {name} {after}"
    (found,) = small.find([text])
    start = len(before) + 1
    assert (start, start + len(name)) in {(entity.start, entity.end) for entity in found}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Lipitor or atorvastatin", [("Lipitor", "drugs"), ("atorvastatin", "drugs")]),
        ("presents today with gout", [("gout", "diseases")]),
        ("air, a child, COPD and pneumonia", [("COPD", "diseases"), ("pneumonia", "diseases")]),
    ],
)
def test_brands_are_capitalised_and_abbreviations_in_capitals(
    text: str, found: list[tuple[str, str]]
) -> None:
    assert told(shipped_gazetteer(), text) == found


@given(st.text(alphabet=st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs"])))
def test_words_lie_in_the_text_in_order_whatever_it_holds(text: str) -> None:
    words = split(text)
    assert [word.form for word in words] == forms(text)
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    assert all(a.start <= b.start for a, b in pairwise(words))


@given(st.lists(st.sampled_from(["Beta", "beta", "blockers", "of", "acne", ",", "BETA"])))
def test_every_place_has_its_longest_name_that_is_written_as_it_must_be(words: list[str]) -> None:
    cases = {"beta": Case.CAPITALS, "beta of": Case.ANY, "beta blocker": Case.CAPITALISED}
    cases |= {"of acne": Case.ANY, "beta of acne": Case.CAPITALISED, "acne": Case.ANY}
    gazetteer = Gazetteer(
        Source(names=[name], type="drugs", case=case) for name, case in cases.items()
    )
    text, expected, place = " ".join(words), list[str](), 0
    while place < len(words):
        for end in range(len(words), place, -1):
            part = " ".join(words[place:end])
            actual = Case.CAPITALS if part.isupper() else Case(part[0].isupper())
            if cases.get(part.lower().replace("blockers", "blocker"), len(Case)) <= actual:
                expected.append(part)
                place = end - 1
                break
        place += 1
    assert [part for part, _ in told(gazetteer, text)] == expected


def test_the_shipped_tables_hold_first_words_as_they_are_compared() -> None:
    rows = [row for table in SHIPPED for row in shipped_rows(table)]
    assert all((first or name.partition(" ")[0]) == first_form(name) for _, name, *_, first in rows)
