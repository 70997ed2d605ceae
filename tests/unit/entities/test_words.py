"""Words of a text and where they stand in it."""

from __future__ import annotations

import unicodedata
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from medstress.entities.recognisers import forms, split


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Crohn's disease", "crohn disease"),
        ("Graves' disease", "GRAVES DISEASE"),
        ("COVID-19", "covid 19"),
        ("Guillain–Barré syndrome", "guillain barre syndromes"),
        ("anaemia", "anemias"),
        ("metastases", "metastasis"),
        ("Sjo\u0308gren", "Sjögren"),
    ],
)
def test_spellings_of_one_name_have_the_same_forms(one: str, other: str) -> None:
    assert forms(one) == forms(other)


@pytest.mark.parametrize(
    ("one", "other"), [("hives", "HIV"), ("AIDS", "aid"), ("gas", "ga"), ("ethanol", "methanol")]
)
def test_short_words_are_not_taken_for_plurals(one: str, other: str) -> None:
    assert forms(one) != forms(other)


def test_a_mark_is_a_word_so_that_no_name_reaches_across_it() -> None:
    assert forms("aspirin, codeine") == ["aspirin", ",", "codein"]


def test_an_accent_of_its_own_belongs_to_the_letter_before_it() -> None:
    text = "me\u0301"
    (word,) = split(text)
    assert (word.start, word.end) == (0, 3)


@given(st.text(alphabet=st.characters(max_codepoint=0x2FFF, exclude_categories=["Cs"])))
def test_words_lie_in_the_text_in_order_whatever_it_holds(text: str) -> None:
    words = split(text)
    assert [word.form for word in words] == forms(text)
    assert all(0 <= word.start < word.end <= len(text) for word in words)
    assert all(a.start <= b.start for a, b in pairwise(words))


@given(st.lists(st.sampled_from(["naïve", "Ménière", "ß-cell", "½", "aspirin"]), min_size=1))
def test_each_word_is_found_where_it_was_put(parts: list[str]) -> None:
    text = "  ".join(parts)
    for form in ("NFC", "NFD"):
        written = unicodedata.normalize(form, text)
        told = [written[word.start : word.end] for word in split(written)]
        expected = [
            piece
            for part in parts
            for piece in unicodedata.normalize(form, part).split("-")
            if piece != "½"
        ]
        assert [piece for piece in told if piece != "½"] == expected
