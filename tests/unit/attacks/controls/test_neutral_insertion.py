"""Neutral insertions: where they stand, that they are distinct, and what they never say."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice

import pytest
from numpy.random import default_rng

from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.harmless import NeutralInsertion, insertions, lexicon
from medstress.attacks.controls.paraphrase import facts_of
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.variants import digits, in_random_order
from medstress.core.items import Candidate, Mention, Question
from medstress.testing import drive, tiny_questions, tiny_resources

RESOURCES = tiny_resources()


def question(stem, context="", **more):
    return Question(id="q", stem=stem, context=context, options=("a", "b"), key="A", **more)


def texts(item, n, seed=0, **keys):
    drawn = NeutralInsertion(**keys).variants(item, default_rng(seed), RESOURCES)
    found = list(islice(drawn, n))
    return [f"{each.context}|{each.stem}" for each in found]


@pytest.mark.parametrize(
    ("context", "stem", "expected"),
    [
        ("", "Why?", ["|X. Why?"]),
        ("He fell.", "Why?", ["He fell. X.|Why?"]),
        ("He fell. He rose.", "Why?", ["He fell. X. He rose.|Why?", "He fell. He rose. X.|Why?"]),
        ("", "He fell. Why?", ["|He fell. X. Why?"]),
        ("See Fig. 2. Then E.", "coli grew. Why?", ["See Fig. 2. X. Then E.|coli grew. Why?",
                                                    "See Fig. 2. Then E.|coli grew. X. Why?"]),
    ],
)  # fmt: skip
def test_sentences_stand_between_two_sentences(context, stem, expected):
    item = question(stem, context)
    made = [
        Candidate(item=item, edits=(replace(edit, replacement=edit.replacement.format("X.")),))
        for edit in insertions(item)
    ]
    assert [f"{each.context}|{each.stem}" for each in made] == expected


def test_an_entity_is_never_split():
    item = question("A. Bcd grew. Why?", "St. Xy", mentions=(
        Mention(field="context", start=0, end=6, type="T1"),
        Mention(field="stem", start=0, end=6, type="T1"),
    ))  # fmt: skip
    assert [(edit.field, edit.start) for edit in insertions(item)] == [("stem", 13)]


def test_variants_are_distinct_and_exhausted_without_repeats():
    item = question("Why?", "He fell.")
    n = NeutralInsertion().n_variants(item, RESOURCES)
    assert n == len(lexicon()) >= 4 * 8
    assert len(set(texts(item, 10_000))) == n
    assert NeutralInsertion(sentences=3).n_variants(item, RESOURCES) == n * (n - 1) * (n - 2)
    assert len(set(texts(item, 3000, sentences=3))) == 3000


def test_the_lexicon_says_nothing_of_people_findings_numbers_or_denials():
    bad = re.compile(
        r"\d|\b(?:no|not|never|without|patient|he|she|man|woman|pain|drug|left|right|day|year)\b",
        re.IGNORECASE,
    )
    assert [text for text in lexicon() if bad.search(text)] == []
    assert [text for text in lexicon() if facts_of(text) != ((), {})] == []
    assert len(set(lexicon())) == len(lexicon()) == 6 * 48


def test_beside_medfuzz_every_variant_is_an_attempt_of_about_thirty_words():
    arm = control_arm(NeutralInsertion(), MedFuzz(attempts=4))
    item = tiny_questions(1)[0]
    asked = drive(arm, item, RESOURCES).queries
    assert [query.attempt for query in asked] == [1, 2, 3, 4]
    words = [len(query.candidate.edits[0].replacement.split()) for query in asked]
    assert 20 <= min(words) <= max(words) <= 45
    assert "attacker" not in arm.needs


def test_every_order_of_a_small_pool_is_drawn_and_a_huge_one_is_no_trouble():
    orders = [tuple(in_random_order(3, default_rng(seed))) for seed in range(1200)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert max(abs(n - 200) for n in counts) < 60
    huge = list(islice(in_random_order(10**60, default_rng(0)), 500))
    assert len(set(huge)) == 500
    assert max(huge) > 10**59
    assert digits(10**5, [10] * 6) == [0, 0, 0, 0, 0, 1]
