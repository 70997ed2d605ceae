"""Neutral insertions: where they stand, that they are distinct, and what they never say."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import islice
from typing import Any

import pytest
from numpy.random import default_rng

from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.harmless import NeutralInsertion, insertions, lexicon
from medstress.attacks.controls.rewording import facts_of
from medstress.attacks.medfuzz.attack import MedFuzz
from medstress.attacks.variants import digits, in_random_order
from medstress.core.calls import Decoding
from medstress.core.errors import UsageError
from medstress.core.items import Candidate, Mention, Question
from medstress.testing import tiny_questions, tiny_resources

RESOURCES = tiny_resources()


def question(stem: str, context: str = "", **more: Any) -> Question:
    return Question(id="q", stem=stem, context=context, options=("a", "b"), key="A", **more)


def texts(item: Question, n: int, seed: int = 0, **keys: int) -> list[str]:
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
def test_sentences_stand_between_two_sentences(
    context: str, stem: str, expected: list[str]
) -> None:
    item = question(stem, context)
    made = [
        Candidate(item=item, edits=(replace(edit, replacement=edit.replacement.format("X.")),))
        for edit in insertions(item)
    ]
    assert [f"{each.context}|{each.stem}" for each in made] == expected


def test_an_entity_is_never_split() -> None:
    item = question("A. Bcd grew. Why?", "St. Xy", mentions=(
        Mention(field="context", start=0, end=6, type="T1"),
        Mention(field="stem", start=0, end=6, type="T1"),
    ))  # fmt: skip
    assert [(edit.field, edit.start) for edit in insertions(item)] == [("stem", 13)]


def test_variants_are_distinct_and_exhausted_without_repeats() -> None:
    item = question("Why?", "He fell.")
    n = NeutralInsertion().n_variants(item, RESOURCES)
    assert n == len(lexicon()) >= 4 * 8
    assert len(set(texts(item, 10_000))) == n
    assert NeutralInsertion(sentences=3).n_variants(item, RESOURCES) == n * (n - 1) * (n - 2)
    assert len(set(texts(item, 3000, sentences=3))) == 3000


def test_how_many_are_taken_changes_none_of_them() -> None:
    item = question("Why?", "He fell. He rose.")
    assert texts(item, 40)[:8] == texts(item, 8) != texts(item, 8, seed=1)


def test_a_variant_is_the_item_with_sentences_of_the_lexicon_more() -> None:
    item = tiny_questions(1)[0]
    for query in islice(
        NeutralInsertion(sentences=2).variants(item, default_rng(0), RESOURCES), 50
    ):
        (edit,) = query.edits
        assert edit.start == edit.end
        one, two = (f"{each}." for each in edit.replacement.strip().removesuffix(".").split(". "))
        assert {one, two} <= set(lexicon())
        assert one != two


def test_the_lexicon_says_nothing_of_people_findings_numbers_or_denials() -> None:
    bad = re.compile(
        r"\d|\b(?:no|not|never|without|patient|he|she|man|woman|pain|drug|left|right|day|year)\b",
        re.IGNORECASE,
    )
    assert [text for text in lexicon() if bad.search(text)] == []
    assert [text for text in lexicon() if facts_of(text) != ((), {})] == []
    assert len(set(lexicon())) == len(lexicon()) == 6 * 48


def test_beside_medfuzz_every_variant_is_an_attempt_of_about_thirty_words() -> None:
    arm = control_arm(NeutralInsertion(), MedFuzz(attempts=4))
    item = tiny_questions(1)[0]
    resources = tiny_resources()
    flow = arm.run(item, default_rng(0), resources)
    step: Any = next(flow)
    asked = []
    from medstress.core.outcomes import Outcome, Prediction

    held = Prediction(outcome=Outcome.RIGHT, answer=item.key)
    while True:
        asked += step.queries
        try:
            step = flow.send((held,))
        except StopIteration:
            break
    assert [query.attempt for query in asked] == [1, 2, 3, 4]
    words = [len(query.candidate.edits[0].replacement.split()) for query in asked]
    assert 20 <= min(words) <= max(words) <= 45
    assert "attacker" not in arm.needs
    assert Decoding() not in resources.roles.values()


@pytest.mark.parametrize("n", [0, 9, True, "2"])
def test_a_number_of_sentences_out_of_range_is_refused(n: Any) -> None:
    with pytest.raises(UsageError, match="sentences: expected"):
        NeutralInsertion(sentences=n)


def test_every_order_of_a_small_pool_is_drawn_and_a_huge_one_is_no_trouble() -> None:
    orders = [tuple(in_random_order(3, default_rng(seed))) for seed in range(1200)]
    counts = [orders.count(order) for order in set(orders)]
    assert len(counts) == 6
    assert max(abs(n - 200) for n in counts) < 60
    huge = list(islice(in_random_order(10**60, default_rng(0)), 500))
    assert len(set(huge)) == 500
    assert max(huge) > 10**59
    assert digits(10**5, [10] * 6) == [0, 0, 0, 0, 0, 1]
