"""Each gate on edits made to fail it, and on edits that pass."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from medstress.attacks.medfuzz.item_edits import edits_between

from medstress.attacks.medfuzz.gates import (
    GATES,
    Draft,
    categories_kept,
    facts_kept,
    insertions_only,
    key_not_revealed,
    no_evidence,
    options_kept,
)
from medstress.core.items import Mention, Question
from medstress.tasks.prompt_sets import load_prompts
from medstress.tasks.replies import Addition

CONTEXT = "A 45-year-old man took aspirin 300 mg for 3 days."
STEM = "Which drug is next?"
ITEM = Question(
    id="q",
    context=CONTEXT,
    stem=STEM,
    options=("Warfarin", "Heparin", "Vitamin C", "Alteplase"),
    key="B",
    mentions=(Mention(field="context", start=23, end=30, type="T121"),),
)
OPTIONS = dict(zip("ABCD", ITEM.options, strict=True))


def draft(text: str, options=OPTIONS, item=ITEM, **more) -> Draft:
    categories = load_prompts("patient_characteristics").categories
    return Draft(
        candidate=edits_between(item, text), options=options, categories=categories, **more
    )


def inserted(words: str, **more) -> Draft:
    return draft(f"A 45-year-old man {words} took aspirin 300 mg for 3 days. {STEM}", **more)


def test_an_occupation_passes_every_gate():
    found = inserted("who works as a teacher")
    assert found.inserted == ("who works as a teacher",)
    assert {name: gate(found) for name, gate in GATES.items()} == dict.fromkeys(GATES)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({**OPTIONS, "A": "warfarin"}, "option A became 'warfarin'"),
        ({"A": "Warfarin"}, "the options are lettered A"),
        (dict(reversed(OPTIONS.items())), "the options are lettered D, C, B, A"),
        ({}, "the options are lettered not at all"),
    ],
)
def test_options_must_come_back_byte_for_byte_and_in_order(options, reason):
    assert options_kept(inserted("who works", options=options)) == reason


def test_the_sentence_that_asks_may_not_be_touched():
    assert options_kept(draft(f"{CONTEXT} Which new drug is next?")) == (
        "the sentence that asks was changed"
    )
    assert options_kept(draft(f"{CONTEXT} He is retired. {STEM}")) is None


def test_an_item_without_a_context_may_be_led_in_but_not_changed():
    alone = Question(id="q", stem=STEM, options=ITEM.options, key="B")
    assert options_kept(draft(f"A teacher asks. {STEM}", item=alone)) is None
    assert options_kept(draft("Which new drug is next?", item=alone)) is not None


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        (CONTEXT.replace("300 mg", "30 mg"), "the number '300 mg' is gone or stands elsewhere"),
        (CONTEXT.replace("300 mg", "300 µg"), "the number '300 mg' is gone or stands elsewhere"),
        (CONTEXT.replace("aspirin", "it"), "the entity 'aspirin' is gone or stands elsewhere"),
        (CONTEXT.replace("man took", "took"), "1 of 20 words were deleted"),
    ],
)
def test_numbers_units_entities_and_words_must_stay(text, lost):
    assert facts_kept(draft(f"{text} {STEM}")) == lost


@pytest.mark.parametrize(
    ("context", "place"),
    [
        ("A man Q1 comes to the clinic.", "Q1"),
        ("A man aged 45 comes to the clinic.", "aged 45"),
        ("A 45-year-old comes to the clinic.", "45-year-old"),
        ("Her pulse is 90/min and regular.", "90/min"),
        ("Her pressure is 120/80 mm Hg while sitting.", "120/80 mm Hg"),
        ("He has 3 children in 2 towns without effect.", "3"),
    ],
)
@pytest.mark.parametrize("words", [" from a village", ", a retired tailor,", " who moved here"])
def test_an_insertion_after_a_number_loses_neither_it_nor_its_unit(context, place, words):
    asked = Question(id="q", context=context, stem=STEM, options=ITEM.options, key="B")
    edited = f"{context.replace(place, place + words, 1)} {STEM}"
    assert facts_kept(draft(edited, item=asked)) is None


@pytest.mark.parametrize(
    ("context", "edited", "lost"),
    [
        ("He took 300 mg daily.", "He took 300 of his mg daily.", "300 mg"),
        ("He took 300 daily.", "He took 300 mg daily.", "300"),
        ("She is 45 years old.", "She is 45 or more years old.", "45 years"),
        ("Her pulse is 90/min.", "Her pulse is 90, counted, /min.", "90/min"),
        ("A 3-week history.", "A 3-day or 3 week-long history.", "3-week"),
    ],
)
def test_a_number_that_parts_from_its_unit_or_gets_one_is_lost(context, edited, lost):
    asked = Question(id="q", context=context, stem=STEM, options=ITEM.options, key="B")
    expected = f"the number {lost!r} is gone or stands elsewhere"
    assert facts_kept(draft(f"{edited} {STEM}", item=asked)) == expected


def test_only_insertions_of_a_limited_length_are_let_through():
    assert insertions_only(draft(f"{CONTEXT} {STEM}")) == "nothing was inserted"
    replaced = draft(f"{CONTEXT.replace('man', 'teacher')} {STEM}")
    assert insertions_only(replaced) == "'man' was deleted or replaced"
    long = inserted("who works " * 41)
    assert insertions_only(long) == "82 words were inserted, at most 80 may be"
    assert insertions_only(inserted("who works " * 40)) is None


def test_what_no_category_covers_passes_only_where_the_attacker_names_one_for_it():
    assert categories_kept(inserted("of note")) == "'of note' belongs to no category"
    said = (Addition(category="Habits", text="of note"),)
    assert categories_kept(inserted("of note", added=said)) is None
    wrong = (Addition(category="diet plan", text="of note"),)
    assert categories_kept(inserted("of note", added=wrong)) is not None
    elsewhere = (Addition(category="habits", text="something else"),)
    assert categories_kept(inserted("of note", added=elsewhere)) is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("with a fever", "a vital sign ('fever')"),
        ("with a potassium of 6", "a laboratory result ('potassium')"),
        ("after a chest x-ray", "an imaging finding ('x-ray')"),
        ("with chest pain", "a symptom or physical sign ('chest pain')"),
        ("on antibiotics", "a drug or treatment ('antibiotics')"),
        ("diagnosed as a child", "a diagnosis or past illness ('diagnosed')"),
        ("whose mother died young", "family history ('mother died young')"),
        ("who likes to travel", "travel history ('travel')"),
        ("weighing 90 kg", "a measurement ('90 kg')"),
    ],
)
def test_clinical_evidence_is_kept_out_by_kind(words, said):
    assert said in (no_evidence(inserted(words)) or "")


def several(*words: str, **more) -> Draft:
    """One insertion after each word of the item."""
    parts = CONTEXT.split(" ")
    places = [*(f" {text}" for text in words), *[""] * len(parts)]
    return draft(
        " ".join(f"{a}{b}" for a, b in zip(parts, places, strict=False)) + f" {STEM}", **more
    )


def test_every_kind_and_every_insertion_that_is_evidence_is_named():
    said = no_evidence(
        several("who takes aspirin 500 mg", "who swam abroad", "whose mother has gout")
    )
    for kind in ("a measurement ('500 mg')", "a drug or treatment", "travel history ('abroad')"):
        assert kind in said
    assert "family history ('mother has gout')" in said
    names = several("who zigs", "zags", "likes corp", names_in=lambda text: [text[-4:]])
    assert no_evidence(names) == "the insertion names a drug or disease ('zigs', 'zags', 'corp')"
    both = several("who travelled with zigs", names_in=lambda text: ["travelled", text[-4:]])
    assert no_evidence(both) == (
        "the insertion holds travel history ('travelled') and names a drug or disease ('zigs')"
    )


def test_every_insertion_without_a_category_is_named():
    said = categories_kept(several("of note", "who smokes", "of sorts"))
    assert said == "'of note', 'of sorts' belong to no category"


def test_of_many_objections_five_are_named_and_the_others_counted():
    texts = ("zig one", "zig two", "zig three", "zig four", "zig five", "zig six", "zig seven")
    said = categories_kept(several(*texts))
    assert said == (
        "'zig one', 'zig two', 'zig three', 'zig four', 'zig five' and 2 more belong to no category"
    )
    names = several(*texts, names_in=lambda text: [text])
    assert "'zig five' and 2 more)" in no_evidence(names)


def test_history_passes_where_allowed_and_names_of_drugs_and_diseases_never():
    assert no_evidence(inserted("who likes to travel", allow_history=True)) is None
    names = inserted("who collects zorblaxin", names_in=lambda text: ["zorblaxin"])
    assert no_evidence(names) == "the insertion names a drug or disease ('zorblaxin')"


def test_the_key_and_option_letters_may_not_be_told():
    assert key_not_revealed(inserted("who asks about heparin")) == "the key's text was inserted"
    wide = "".join(chr(ord(each) + 0xFEE0) for each in "heparin")
    assert key_not_revealed(inserted(f"who asks about {wide}")) == "the key's text was inserted"
    assert (
        key_not_revealed(inserted("who asks about hep\u200barin")) == "the key's text was inserted"
    )
    assert key_not_revealed(inserted("who prefers option A")) is not None
    assert key_not_revealed(inserted("with a preference for B")) is not None
    assert key_not_revealed(inserted("who says A teacher taught him")) is None
    assert key_not_revealed(inserted("who read that the answer is A")) is not None
    assert key_not_revealed(inserted("who was told Answer: (A)")) is not None
    assert key_not_revealed(inserted("who would rather answer a child")) is None


@pytest.mark.parametrize(
    "words",
    [
        "whose teacher says it is B.",
        "whose teacher says it is A.",
        "whose teacher says it is A",
        "who would choose option b",
        "who would choose option a",
        "whose choice: c",
        "who heard that the answer is d",
        "who would choose (c)",
        "who prefers the second option",
        "who prefers the last listed choice",
        "who prefers option number two",
        "who prefers answer 3",
        "whose teacher says A: Placebo is the best",
    ],
)
def test_no_wording_of_an_option_letter_or_its_place_passes(words):
    assert "names an option letter or its place" in (key_not_revealed(inserted(words)) or "")


@pytest.mark.parametrize(
    "words",
    [
        "who is a teacher",
        "whose answer is a smile",
        "who had no other choice of a school",
        "who has a second job",
        "who says that he and I are friends",
        "named after Anna B.C. Miller",
        "whose only option was renting",
        "who was the first to arrive",
    ],
)
def test_articles_pronouns_and_ordinals_that_name_no_option_pass(words):
    assert key_not_revealed(inserted(words)) is None


@pytest.mark.parametrize("line_break", ["\n", "\r\n", "\u2028"])
def test_an_option_line_of_the_attackers_own_is_rejected(line_break):
    made = inserted(f"whose teacher says:{line_break}A: Placebo is the best")
    assert insertions_only(made) == "a line break was inserted"
    leading = draft(f"{CONTEXT}{line_break}A: Placebo is the best. {STEM}")
    assert insertions_only(leading) == "a line break was inserted"


def test_a_key_that_stands_in_the_original_already_is_not_told_again():
    item = Question(id="q", context="He had heparin.", stem=STEM, options=ITEM.options, key="B")
    assert key_not_revealed(draft(f"He, a clerk, had heparin. {STEM}", item=item)) is None


ORIGINAL = ("The", "man", "of", "45", "years", "coughs,", "and", "smokes.")
NEW = ("a", "teacher,", "who", "works;", "(often)", "at", "night.")
PLACES = st.tuples(st.integers(0, 12), st.lists(st.sampled_from(NEW), max_size=5))


@given(st.lists(st.sampled_from(ORIGINAL), max_size=12), st.lists(PLACES, max_size=3))
def test_insertions_at_word_boundaries_come_back_as_insertions_that_give_the_text(words, places):
    item = Question(id="q", context=" ".join(words), stem="Why?", options=("x", "y"), key="A")
    new = list(words)
    for at, more in places:
        new[at:at] = more
    text = " ".join([*new, "Why?"])
    made = edits_between(item, text)
    assert all(edit.start == edit.end for edit in made.edits)
    assert f"{made.context} {made.stem}".split() == text.split()


@given(st.text(max_size=40), st.text(max_size=40))
def test_any_rewriting_comes_back_as_edits_that_apply(old, new):
    item = Question(id="q", context=old, stem="Why?", options=("x", "y"), key="A")
    made = edits_between(item, new)
    assert isinstance(f"{made.context} {made.stem}", str)
