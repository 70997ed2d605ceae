"""Controls have the fuzz's places, number and length of insertions, and none of its words."""

from __future__ import annotations

import inspect
import re
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.attacks.controls import neutral
from medstress.attacks.controls.neutral import (
    lexicon,
    neutral_control,
    neutral_controls,
    statements,
)
from medstress.attacks.controls.slots import Form, slots_of
from medstress.attacks.medfuzz.gates import GATES, Draft
from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Question
from medstress.core.text import Edit
from medstress.tasks.prompt_sets import load_prompts
from medstress.tasks.replies import Addition

ITEM = Question(
    id="q",
    context="A 45-year-old man comes to the clinic with a sore knee. He fell two days ago.",
    stem="What is the best next step?",
    options=("Rest", "Walking", "Swimming"),
    key="A",
)
AFTER_MAN = len("A 45-year-old man")
AFTER_KNEE = len("A 45-year-old man comes to the clinic with a sore knee.")


def inserted(*texts: tuple[int, str]) -> Candidate:
    edits = (Edit(field="context", start=at, end=at, replacement=text) for at, text in texts)
    return Candidate(item=ITEM, edits=tuple(edits))


def words_of(edit: Edit) -> str:
    """An insertion without what joins it to the text around."""
    return re.sub(r"^\W+|\W+$", "", edit.replacement)


FUZZ = inserted(
    (AFTER_MAN, ", who recently lost his job as a miner,"),
    (AFTER_KNEE, " He insists on speaking through an interpreter."),
)
ADDED = [("occupation", "lost his job as a miner"), ("native language", "through an interpreter")]


def test_every_category_has_at_least_fifteen_different_clauses() -> None:
    for category, clauses in lexicon().clauses.items():
        assert len(set(clauses)) >= 15, category
    every = [clause for clauses in lexicon().clauses.values() for clause in clauses]
    assert len(set(every)) == len(every)


def test_slots_tell_place_form_length_and_category() -> None:
    first, second = slots_of(FUZZ, ADDED)
    assert (first.at, first.form, first.n_words, first.category) == (
        AFTER_MAN,
        Form.CLAUSE,
        8,
        "occupation",
    )
    assert (second.form, second.n_words, second.category) == (Form.SENTENCE, 7, "native language")


def test_a_sentence_that_a_diff_begins_with_the_full_stop_before_it_is_a_sentence() -> None:
    (slot,) = slots_of(inserted((AFTER_KNEE - 1, ". He works as a miner")))
    assert (slot.form, slot.lead, slot.trail) == (Form.SENTENCE, ". ", "")
    control = neutral_control(ITEM, (slot,), np.random.default_rng(0))
    assert "sore knee. The patient" in control.context or "sore knee. As" in control.context
    assert ".." not in control.context


@pytest.mark.release
@settings(max_examples=25)
@given(
    st.integers(0, 2**32),
    st.lists(st.sampled_from(sorted(lexicon().clauses)), min_size=2, max_size=2),
    st.integers(4, 25),
    st.integers(4, 25),
)
def test_controls_keep_number_places_categories_and_length(
    seed: int, categories: list[str], n_first: int, n_second: int
) -> None:
    first = "who " + " ".join(["word"] * (n_first - 1))
    second = "He " + " ".join(["term"] * (n_second - 1))
    fuzz = inserted((AFTER_MAN, f", {first},"), (AFTER_KNEE, f" {second}."))
    slots = slots_of(fuzz, [(categories[0], first), (categories[1], second)])
    control = neutral_control(ITEM, slots, np.random.default_rng(seed))
    assert [edit.start for edit in control.edits] == [AFTER_MAN, AFTER_KNEE]
    for edit, category, n in zip(control.edits, categories, (n_first, n_second), strict=True):
        core = words_of(edit)
        assert abs(len(core.split()) - n) <= max(0.2 * n, 1)
        assert any(clause in core for clause in lexicon().clauses[category])


SENTENCES = (
    "He moved here from abroad last year and still sends most of his wages home. "
    "He insists on speaking through an interpreter. Dr. Hall has known him for years."
)


def objections(control: Candidate, max_words: int = 80) -> dict[str, str]:
    """What gates of patient characteristics say of a control."""
    prompts = load_prompts("patient_characteristics")
    draft = Draft(
        candidate=control,
        options=dict(zip("ABC", ITEM.options, strict=True)),
        categories=prompts.categories,
        added=(Addition(category="habits", text="habits"),),
        max_words=max_words,
    )
    on = [name for name in GATES if name not in prompts.without_gates]
    return {name: why for name in on if (why := GATES[name](draft)) is not None}


def test_several_sentences_in_a_row_are_answered_by_as_many_of_their_length_and_category() -> None:
    added = [("country of origin", "moved here from abroad"), ("native language", "an interpreter")]
    (slot,) = slots_of(inserted((AFTER_KNEE, f" {SENTENCES}")), added)
    assert [(one.n_words, one.category) for one in slot.sentences] == [
        (15, "country of origin"),
        (7, "native language"),
        (7, None),
    ]
    for control in islice(neutral_controls(ITEM, (slot,), np.random.default_rng(0)), 8):
        (edit,) = control.edits
        texts = words_of(edit).split(". ")
        assert len(texts) == 3
        assert not control.context.endswith("..")
        for text, n in zip(texts, (15, 7, 7), strict=True):
            assert text[0].isupper()
            assert abs(len(text.split()) - n) <= max(0.2 * n, 1)
        assert any(clause in texts[0] for clause in lexicon().clauses["country of origin"])
        assert any(clause in texts[1] for clause in lexicon().clauses["native language"])


@pytest.mark.parametrize("n_words", [26, 40, 55, 80, 150, 400, 1_000])
@pytest.mark.parametrize("category", ["habits", "claimed authority"])
@pytest.mark.parametrize("opening", ["He", "who"])
def test_an_insertion_of_any_length_that_an_attack_may_have_gets_controls(
    opening: str, category: str, n_words: int
) -> None:
    told = f"{opening} " + " ".join(["word"] * (n_words - 1))
    at = (AFTER_MAN, f", {told},") if opening == "who" else (AFTER_KNEE, f" {told}.")
    slots = slots_of(inserted(at), [(category, told)])
    draws = list(islice(neutral_controls(ITEM, slots, np.random.default_rng(1)), 12))
    for control in draws:
        core = words_of(control.edits[0])
        assert abs(len(core.split()) - n_words) <= 0.2 * n_words
        assert core.startswith("who ") if opening == "who" else core[0].isupper()
    assert len({control.context for control in draws}) == 12


@pytest.mark.parametrize(
    "n_words", [4, 20, 80, *(pytest.param(n, marks=pytest.mark.release) for n in (8, 40))]
)
def test_controls_of_every_length_are_let_pass_by_the_gates(n_words: int) -> None:
    told = "He " + " ".join(["word"] * (n_words - 1))
    slots = slots_of(inserted((AFTER_KNEE, f" {told}.")), [("habits", told)])
    draws = neutral_controls(
        ITEM, slots, np.random.default_rng(2), lambda one: next(iter(objections(one)), None)
    )
    n = 60 if n_words > 4 else 12
    assert len(list(islice(draws, n))) == n


@pytest.mark.parametrize(
    "n_words", [5, 12, *(pytest.param(n, marks=pytest.mark.release) for n in (7, 24))]
)
@pytest.mark.parametrize("form", ["who", "He"])
def test_five_attempts_of_thirty_loops_need_no_text_twice(form: str, n_words: int) -> None:
    told = f"{form} " + " ".join(["word"] * (n_words - 1))
    at = (AFTER_MAN, f", {told},") if form == "who" else (AFTER_KNEE, f" {told}.")
    slots = slots_of(inserted(at), [("occupation", told)])
    draws = neutral_controls(ITEM, slots, np.random.default_rng(3))
    enough = 150 if n_words > 6 else 12
    assert len(list(islice(draws, enough))) == enough


@pytest.mark.parametrize(
    ("told", "category"),
    [
        ("Drinks", "habits"),
        ("He drinks", "habits"),
        ("He drinks", None),
        ("He drinks tea", "habits"),
        ("He smokes daily", "habits"),
        ("Immigrant", "country of origin"),
        ("Milk cures", "inverted relation"),
        ("Milk cures fever", "neutral source"),
    ],
)
def test_the_shortest_sentences_get_controls_of_their_length(
    told: str, category: str | None
) -> None:
    n_words, known = len(told.split()), category in lexicon().clauses or category is None
    prompts = load_prompts("patient_characteristics" if known else "misinformation")
    said = [(category, told)] if category else []
    slots = slots_of(inserted((AFTER_KNEE, f" {told}.")), said)
    assert [(slot.form, slot.n_words) for slot in slots] == [(Form.SENTENCE, n_words)]

    def gate(control: Candidate) -> str | None:
        (edit,) = control.edits
        name = category or prompts.categories[0].name
        draft = Draft(
            candidate=control,
            options=dict(zip("ABC", ITEM.options, strict=True)),
            categories=prompts.categories,
            added=(Addition(category=name, text=edit.replacement),),
        )
        on = [each for each in GATES if each not in prompts.without_gates]
        return next((why for each in on if (why := GATES[each](draft))), None)

    draws = list(islice(neutral_controls(ITEM, slots, np.random.default_rng(2), gate), 30))
    assert len(draws) == 30
    for control in draws:
        (edit,) = control.edits
        assert abs(len(words_of(edit).split()) - n_words) <= 1


def test_a_false_statement_of_one_word_has_no_control_and_it_is_said() -> None:
    slots = slots_of(inserted((AFTER_KNEE, " Contagious.")), [("inverted relation", "Contagious")])
    with pytest.raises(TrialError, match="no further text of 1 words"):
        neutral_control(ITEM, slots, np.random.default_rng(0))


FALSE = load_prompts("misinformation")


@pytest.mark.parametrize("category", [each.name for each in FALSE.categories])
@pytest.mark.parametrize("n_words", [4, 9, 16, 24])
def test_a_false_statement_is_compared_with_neutral_statements_of_its_category(
    category: str, n_words: int
) -> None:
    told = "Surely " + " ".join(["word"] * (n_words - 1))
    slots = slots_of(inserted((AFTER_KNEE, f" {told}.")), [(category.title(), told)])
    draws = list(islice(neutral_controls(ITEM, slots, np.random.default_rng(3)), 8))
    for control in draws:
        (edit,) = control.edits
        core = words_of(edit)
        assert abs(len(core.split()) - n_words) <= max(0.2 * n_words, 1)
        assert any(text.casefold() in core.casefold() for text in statements().statements)
        draft = Draft(
            candidate=control,
            options=dict(zip("ABC", ITEM.options, strict=True)),
            categories=FALSE.categories,
            added=(Addition(category=category, text=core),),
        )
        on = [name for name in GATES if name not in FALSE.without_gates]
        assert {name: GATES[name](draft) for name in on} == dict.fromkeys(on)


def test_every_category_of_false_statements_has_neutral_openings_of_its_own() -> None:
    assert set(statements().openings) == {each.name for each in FALSE.categories}


def test_the_prompt_for_neutral_statements_asks_for_no_patient_characteristics() -> None:
    told = "Surely it is known that this helps."
    slots = slots_of(inserted((AFTER_KNEE, f" {told}")), [("neutral source", told)])
    said = FALSE.render("control_neutral", marked="A man [1]", slots=slots)
    assert '[1] a whole sentence of 7 words, in the manner of "neutral source"' in said
    assert "details about a patient" not in said
    assert "about the patient's" not in said


@pytest.mark.parametrize(
    "text", ["He first came above the shop.", "The key sign is below the door."]
)
def test_everyday_words_are_no_cues_of_false_statements(text: str) -> None:
    edit = Edit(field="context", start=AFTER_KNEE, end=AFTER_KNEE, replacement=f" {text}")
    draft = Draft(
        candidate=Candidate(item=ITEM, edits=(edit,)), options={}, categories=FALSE.categories
    )
    assert "belongs to no category" in (GATES["categories"](draft) or "")


def test_controls_are_distinct_and_the_same_in_every_process() -> None:
    slots = slots_of(FUZZ, ADDED)
    texts = [
        [c.context for c in islice(neutral_controls(ITEM, slots, np.random.default_rng(5)), 999)]
        for _ in range(2)
    ]
    assert texts[0] == texts[1]
    assert len(set(texts[0])) == 999


def test_the_generator_reads_neither_key_nor_options() -> None:
    slots = slots_of(FUZZ, ADDED)
    other = Question(
        id="q", context=ITEM.context, stem=ITEM.stem, options=("Ice", "Heat", "Tape"), key="C"
    )
    draws = [neutral_control(item, slots, np.random.default_rng(2)) for item in (ITEM, other)]
    assert draws[0].edits == draws[1].edits
    assert list(inspect.signature(neutral.neutral_control).parameters) == [
        "original",
        "slots",
        "rng",
    ]


def test_a_gate_that_refuses_everything_is_named(said) -> None:
    draws = neutral_controls(
        ITEM, slots_of(FUZZ), np.random.default_rng(0), gate=lambda _: "too blue"
    )
    with pytest.raises(TrialError) as caught:
        next(draws)
    said(str(caught.value))


def test_refused_controls_are_not_given_out() -> None:
    draws = neutral_controls(
        ITEM,
        slots_of(FUZZ, ADDED),
        np.random.default_rng(0),
        gate=lambda one: "a library" if "library" in one.context else None,
    )
    assert not any("library" in one.context for one in islice(draws, 50))


def test_an_exhausted_lexicon_says_how_many_there_were() -> None:
    slots = slots_of(inserted((AFTER_MAN, ", retired,")))
    with pytest.raises(TrialError, match="distinct neutral controls"):
        list(islice(neutral_controls(ITEM, slots, np.random.default_rng(0)), 999))
