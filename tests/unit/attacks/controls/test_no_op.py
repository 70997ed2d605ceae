"""Edits without meaning: where they are, that they are distinct, and what they never touch."""

from __future__ import annotations

import re
from itertools import islice

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.harmless import NoOp, places, variants
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.protocol import most_queries, never_wrong
from medstress.core.items import Candidate, Question
from medstress.core.seeding import rng_for
from medstress.testing import drive, tiny_questions, tiny_resources

RESOURCES = tiny_resources()
EIGHT = "Which of these drugs treats severe gout best?"


def question(stem, context="", **more):
    options = ("a b c", 'the "d" one')
    return Question(id="q", stem=stem, context=context, options=options, key="A", **more)


def singles(item):
    """Context and stem after every single edit."""
    edits = (edit for place in places(item) for edit in place)
    found = (Candidate(item=item, edits=(edit,)) for edit in edits)
    return [f"{each.context}|{each.stem}" for each in found]


def drawn(item, budget, seed=0):
    """Everything that is asked of a victim that never errs."""
    queries = drive(NoOp(budget=budget), item, RESOURCES, seed=seed).queries
    return [query.candidate for query in queries]


@pytest.mark.parametrize(
    ("stem", "n"), [("Drug of choice is", 63 + 1 + 9 + 27), ("Severe gout of toes", 100)]
)
def test_a_question_of_four_words_has_more_than_four_times_the_default_budget(stem, n):
    item = question(stem)
    assert NoOp().n_variants(item, RESOURCES) == n >= 4 * NoOp().budget
    assert most_queries(NoOp(), item, RESOURCES) == 8
    assert most_queries(NoOp(budget=1000), item, RESOURCES) == n


def test_a_larger_budget_begins_with_the_draws_of_a_smaller_one():
    item = question(EIGHT)
    assert drawn(item, 20)[:8] == drawn(item, 8)
    assert drawn(item, 8) != drawn(item, 8, seed=1)


def test_each_number_of_edits_comes_first_equally_often():
    for text in ("Drug of choice is", f"{EIGHT} {EIGHT}"):
        found = places(question(text))
        sizes = [len(next(variants(found, np.random.default_rng(seed)))) for seed in range(600)]
        for size in (1, 2, 3):
            assert abs(sizes.count(size) - 200) < 4 * 600**0.5 / 2


def test_white_space_comes_between_words_and_not_between_digits():
    gaps = [singles(question("took 10 000 mg of 2.5 or 1,000"))[i::3] for i in range(3)]
    assert gaps[0] == [
        "|took  10 000 mg of 2.5 or 1,000",
        "|took 10 000  mg of 2.5 or 1,000",
        "|took 10 000 mg  of 2.5 or 1,000",
        "|took 10 000 mg of  2.5 or 1,000",
        "|took 10 000 mg of 2.5  or 1,000",
        "|took 10 000 mg of 2.5 or  1,000",
    ]
    assert gaps[1] == [each.replace("  ", "   ") for each in gaps[0]]
    assert gaps[2] == [each.replace("  ", "\n") for each in gaps[0]]


@pytest.mark.parametrize(
    ("stem", "after"),
    [
        ("Which?", "which?"),
        ("which?", "Which?"),
        ("“What?”", "“what?”"),
        ("WHAT?", None),
        ("Heparin?", None),
        ("A?", None),
        ("All-trans?", "all-trans?"),
        ("Whichever?", None),
    ],
)
def test_the_letter_case_of_a_word_that_opens_the_stem_changes(stem, after):
    changed = [
        text[1:] for text in singles(question(stem)) if text[1:].casefold() == stem.casefold()
    ]
    assert changed == ([] if after is None else [after])


@pytest.mark.parametrize(
    ("stem", "after"),
    [
        ("Name it.", "Name it"),
        ("The drug is", "The drug is."),
        ("The drug (oral)", "The drug (oral)."),
        ("Which drug?", None),
        ("The drug is:", None),
        ("The drug is ____", None),
        ("Its pH is 7", None),
        ("Its pH is 7.", None),
        ("Given at 8 a.m.", None),
        ("See the fig.", None),
        ("Which strain of E.", None),
    ],
)
def test_a_full_stop_moves_only_where_it_says_nothing(stem, after):
    texts = [text[1:] for text in singles(question(stem)) if "  " not in text]
    changed = [text for text in texts if not re.search(r"\n|^[a-z]", text)]
    assert changed == ([] if after is None else [after])


def test_quotation_marks_become_typographic_and_back_but_no_apostrophe_and_no_inch():
    item = question("Heparin?", "A \"red\" ('x') Crohn's 5\" cut, “blue”")
    changed = [text.split("|")[0] for text in singles(item) if not re.search("  |\n", text)]
    assert changed == [
        "A “red\" ('x') Crohn's 5\" cut, “blue”",
        "A \"red” ('x') Crohn's 5\" cut, “blue”",
        'A "red" (‘x\') Crohn\'s 5" cut, “blue”',
        'A "red" (\'x’) Crohn\'s 5" cut, “blue”',
        'A "red" (\'x\') Crohn\'s 5" cut, "blue”',
        'A "red" (\'x\') Crohn\'s 5" cut, “blue"',
    ]


@settings(max_examples=100, deadline=None)
@given(
    stem=st.text("ab 12.\"'“”’?().", min_size=1).filter(str.strip),
    context=st.text("ab 12.\"'“”’?\n"),
)
def test_words_and_numbers_options_and_passage_are_never_touched(stem, context):
    item = question(stem, context, passage='A "long" passage.')

    def said(text):
        return re.findall(r"\w+", text.casefold())

    for edits in islice(variants(places(item), np.random.default_rng(0)), 20):
        after = Candidate(item=item, edits=edits)
        assert said(after.stem) == said(stem)
        assert said(after.context) == said(context)
        assert (after.context, after.stem) != (context, stem)
        assert (after.options, after.passage) == (item.options, item.passage)


def test_half_of_a_controls_edits_are_in_the_field_that_the_attack_edits():
    item = tiny_questions(1)[0]
    attack = EntitySubstitution(sampler="random", budget=8)
    arm = control_arm(NoOp(), attack)
    assert arm.fields == {"context", "stem", "options"}
    inside = total = 0
    for seed in range(150):
        rng = rng_for(seed, attack.stream, "d", item.id)
        one = arm.at(item, rng_for(seed, attack.stream, "d", item.id), RESOURCES)
        (edited,) = {q.candidate.edits[0].field for q in never_wrong(attack, item, rng, RESOURCES)}
        queries = never_wrong(one, item, rng_for(seed, "no_op", "d", item.id), RESOURCES)
        for edits in [query.candidate.edits for query in islice(queries, 8)]:
            assert {edit.field for edit in edits} <= {"context", "stem", edited}
            if len(edits) == 1:  # of more some would repeat a place, of which an option has few
                total += 1
                inside += edits[0].field == edited
    assert abs(inside - total / 2) < 4 * total**0.5 / 2


@pytest.mark.parametrize(
    ("option", "texts"),
    [
        ("Aspirin", {"aspirin", "Aspirin."}),
        ("Give it.", {"give it.", "Give it", "Give  it.", "Give   it.", "Give\nit."}),
        ("IgA", {"IgA."}),
        ("Co", {"Co."}),
        ("B-cell", {"B-cell."}),
        ("heparin 5", {"Heparin 5", "heparin  5", "heparin   5", "heparin\n5"}),
    ],
)
def test_in_an_option_gaps_full_stop_and_first_letter_change(option, texts):
    item = Question(id="q", stem="?", options=("zinc", option), key="A")
    made = (Candidate(item=item, edits=(e,)) for place in places(item, "B") for e in place)
    assert {candidate.options[1] for candidate in made} == texts
    twin = Question(id="q", stem="?", options=(f"{option.swapcase()}", option), key="A")
    assert places(twin, "B") == [], "of two such options an edit could make one"
