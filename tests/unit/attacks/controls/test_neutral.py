"""Controls have the attack's places, number and length of insertions, and none of its words."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.attacks.controls.neutral import Form, lexicon, neutral_control, slots_of
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit

ITEM = Question(
    id="q",
    context="A 45-year-old man comes to the clinic with a sore knee. He fell two days ago.",
    stem="What is the best next step?",
    options=("Rest", "Walking", "Swimming"),
    key="A",
)
AFTER_MAN = len("A 45-year-old man")
AFTER_KNEE = len("A 45-year-old man comes to the clinic with a sore knee.")


def inserted(*texts):
    edits = (Edit(field="context", start=at, end=at, replacement=text) for at, text in texts)
    return Candidate(item=ITEM, edits=tuple(edits))


def words_of(edit):
    """An insertion without what joins it to the text around."""
    return re.sub(r"^\W+|\W+$", "", edit.replacement)


def is_about(text, category):
    """Whether a text has a fact of a category."""
    (kind,) = (one for one in lexicon() if category in one.names)
    return any(fact in text for group in kind.facts for fact in group)


FUZZ = inserted(
    (AFTER_MAN, ", who recently lost his job as a miner,"),
    (AFTER_KNEE, " He insists on speaking through an interpreter."),
)
ADDED = [("work", "lost his job as a miner"), ("language", "through an interpreter")]
FACTS = [fact for kind in lexicon() for group in kind.facts for fact in (*group, *kind.words)]


def test_slots_tell_place_form_length_and_category():
    first, second = slots_of(FUZZ, ADDED)
    assert (first.at, first.lead, first.trail) == (AFTER_MAN, ", ", ",")
    parts = [(part.form, part.n_words, part.category) for part in (*first.parts, *second.parts)]
    assert parts == [(Form.CLAUSE, 8, "work"), (Form.SENTENCE, 7, "language")]


def test_a_sentence_that_a_diff_begins_with_the_full_stop_before_it_is_a_sentence():
    (slot,) = slots_of(inserted((AFTER_KNEE - 1, ". He works as a miner")))
    assert (slot.parts[0].form, slot.lead, slot.trail) == (Form.SENTENCE, ". ", "")
    control = neutral_control(ITEM, (slot,), np.random.default_rng(0))
    assert "sore knee. He " in control.context
    assert ".." not in control.context


@settings(max_examples=20)
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from([kind.names[0] for kind in lexicon()]), min_size=2, max_size=2),
    st.integers(4, 80),
    st.integers(4, 25),
)
def test_controls_keep_number_places_categories_and_length(seed, categories, n_first, n_second):
    first = "who " + " ".join(["word"] * (n_first - 1))
    second = "He " + " ".join(["term"] * (n_second - 1))
    fuzz = inserted((AFTER_MAN, f", {first},"), (AFTER_KNEE, f" {second}."))
    slots = slots_of(fuzz, [(categories[0], first), (categories[1], second)])
    control = neutral_control(ITEM, slots, np.random.default_rng(seed))
    assert [edit.start for edit in control.edits] == [AFTER_MAN, AFTER_KNEE]
    for edit, category, n in zip(control.edits, categories, (n_first, n_second), strict=True):
        text = words_of(edit)
        assert abs(len(text.split()) - n) <= max(0.4 * n, 1)
        # A very short one takes another category where its own has no fact left (docstring).
        assert is_about(text, category) or n < 6


def test_several_sentences_in_a_row_are_answered_by_as_many():
    told = (
        "He moved here from abroad last year and still sends most of his wages home. "
        "He insists on speaking through an interpreter. Dr. Hall has known him for years."
    )
    added = [("origin", "moved here from abroad"), ("language", "an interpreter")]
    (slot,) = slots_of(inserted((AFTER_KNEE, f" {told}")), added)
    assert [(one.n_words, one.category) for one in slot.parts] == [
        (15, "origin"),
        (7, "language"),
        (7, None),
    ]
    (edit,) = neutral_control(ITEM, (slot,), np.random.default_rng(0)).edits
    texts = words_of(edit).split(". ")
    assert len(texts) == 3
    assert all(text.startswith("He ") for text in texts)
    assert is_about(texts[0], "origin")
    assert is_about(texts[1], "language")


def test_a_length_that_the_lexicon_does_not_have_is_said():
    told = "He " + " ".join(["word"] * 1_999)
    slots = slots_of(inserted((AFTER_KNEE, f" {told}.")))
    with pytest.raises(TrialError, match="no text of 2000 words"):
        neutral_control(ITEM, slots, np.random.default_rng(0))


def test_a_loop_of_a_hundred_rounds_hardly_needs_a_text_twice():
    slots = slots_of(FUZZ, ADDED)
    draws = [
        [neutral_control(ITEM, slots, rng).context for _ in range(500)]
        for rng in (np.random.default_rng(5), np.random.default_rng(5))
    ]
    assert draws[0] == draws[1]
    assert len(set(draws[0])) > 490


def test_the_generator_reads_neither_key_nor_options():
    slots = slots_of(FUZZ, ADDED)
    other = Question(
        id="q", context=ITEM.context, stem=ITEM.stem, options=("Ice", "Heat", "Tape"), key="C"
    )
    draws = [neutral_control(item, slots, np.random.default_rng(2)) for item in (ITEM, other)]
    assert draws[0].edits == draws[1].edits


def test_facts_are_facts():
    """No filler, no hearsay, no number, and nothing that announces its own irrelevance."""
    banned = (
        r"incidentally|by the way|as it happens|reportedly|apparently|supposedly|allegedly|says?|"
        r"said|states?|claims?|heard|believes?|according to|not|irrelevant|unrelated|of no|"
        r"these days|as a rule|at present|by all accounts|in passing|\d"
    )
    assert [fact for fact in FACTS if re.search(rf"\b(?:{banned})\b", fact)] == []
