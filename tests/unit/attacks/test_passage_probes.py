"""Probes of the passage: what they ask, where they cannot, and what they declare."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from medstress.attacks.passages import PassageDistractor, PassageNone, PassageOther, PassageSwap
from medstress.attacks.protocol import most_queries
from medstress.core.hashing import rng_for
from medstress.core.items import Candidate, Question
from medstress.core.resources import Passages, Resources
from medstress.core.text import named_at
from medstress.testing import tiny_resources

PASSAGE = "Gout hurts. Aspirin is bad, e.g. at night. Never give ASPIRIN or aspirins."
ITEM = Question(
    id="q",
    passage=PASSAGE,
    stem="What makes gout worse?",
    options=("warfarin", "aspirin", "Iron salts", "zinc"),
    key="B",
)
OTHERS = (
    PASSAGE,
    "Zinc helps colds. Warfarin thins blood! Aspirin and zinc meet.",
    "Iron  salts are dark. Iron saltsum is none.",
    "Aspirin again, with warfarin.",
)
RESOURCES = replace(tiny_resources(), passages=Passages.of([*OTHERS, "", OTHERS[1]]))
NONE: Resources = tiny_resources()


def asked(attack, item=ITEM, seed=0):
    assert attack.obstacle(item, RESOURCES) is None
    flow = attack.run(item, rng_for(seed, attack.stream, "d", item.id), RESOURCES)
    step: Any = next(flow)
    found = [query.candidate for query in (*step.queries, *step.then)]
    assert len(found) <= most_queries(attack, item, RESOURCES) <= attack.budget
    return found


def test_a_swap_puts_the_distractor_wherever_the_key_was_named_in_its_case():
    attack = PassageSwap(distractor="A")
    (found,) = asked(attack)
    assert found.passage == (
        "Gout hurts. Warfarin is bad, e.g. at night. Never give Warfarin or aspirins."
    )
    assert (found.options, found.stem) == (ITEM.options, ITEM.stem)
    (dark,) = asked(PassageSwap(distractor="C"))
    assert "Iron salts is bad" in dark.passage


def test_the_distractor_of_a_swap_is_drawn_evenly_by_the_seed():
    attack = PassageSwap()
    names = [asked(attack, seed=seed)[0].edits[0].replacement for seed in range(300)]
    assert Counter(names).keys() == {"Warfarin", "Iron salts", "Zinc"}
    assert all(abs(n - 100) < 35 for n in Counter(names).values())


def test_a_key_inside_a_longer_option_is_not_swapped():
    item = replace(
        ITEM,
        passage="Iron dextran is given. Iron is not.",
        options=("iron", "iron dextran", "zinc"),
        key="A",
    )
    (found,) = asked(PassageSwap(), item)
    assert found.passage == "Iron dextran is given. Zinc is not."
    inside = replace(item, passage="Only iron dextran is given.")
    assert PassageSwap().obstacle(inside, NONE) == "its passage does not name the right answer"


@pytest.mark.parametrize(
    ("attack", "item", "why"),
    [
        *(
            (attack, replace(ITEM, passage=" "), "it has no passage")
            for attack in (PassageSwap(), PassageDistractor(), PassageOther(), PassageNone())
        ),
        (
            PassageSwap(),
            replace(ITEM, passage="Aspirins."),
            "its passage does not name the right answer",
        ),
        (
            PassageSwap(distractor="B"),
            ITEM,
            "its right answer is B, the wrong option of this attack",
        ),
        (PassageSwap(distractor="E"), ITEM, "it has no option E, the wrong option of this attack"),
        (
            PassageSwap(distractor="D"),
            replace(ITEM, passage="Aspirin or zinc."),
            "its passage names the wrong option already, so a swap would support neither",
        ),
        (
            PassageSwap(),
            replace(ITEM, metadata={"passage_decides": False}),
            "its passage does not decide the question, so there is no evidence to change",
        ),
        (
            PassageDistractor(),
            replace(ITEM, options=("lead", "aspirin", "gold", "tin")),
            "no other passage has a sentence that names a wrong option and not the right answer",
        ),
        (
            PassageDistractor(says="contradicting"),
            replace(ITEM, passage="Aspirins."),
            "no sentence of its passage names the right answer",
        ),
        (
            PassageOther(),
            replace(ITEM, options=("a", "is", "Iron", "and", "Zinc"), key="B", passage="x"),
            None,
        ),
    ],
)
def test_where_a_probe_has_nothing_to_do_it_says_why(attack, item, why):
    assert attack.obstacle(item, RESOURCES) == why


def test_a_true_sentence_names_a_distractor_and_not_the_key():
    attack = PassageDistractor()
    found = asked(attack)
    added = [each.passage.removeprefix(PASSAGE) for each in found]
    assert all(each.passage.startswith(PASSAGE) for each in found)
    assert set(added) == {" Zinc helps colds.", " Warfarin thins blood!", " Iron  salts are dark."}
    assert {each.passage for each in asked(PassageDistractor(budget=1), seed=0)} == {
        found[0].passage
    }
    orders = {tuple(each.passage for each in asked(attack, seed=seed)) for seed in range(60)}
    assert len(orders) == 6
    assert attack.validity(found[0], RESOURCES).valid is None


def test_a_true_sentence_does_not_point_back_to_a_text_that_is_not_there():
    others = [PASSAGE, "Colds are common. It is treated with zinc.", "Zinc helps in colds."]
    resources = replace(tiny_resources(), passages=Passages.of(others))
    attack = PassageDistractor()
    step: Any = next(attack.run(ITEM, rng_for(0, attack.stream, "d", "q"), resources))
    (query,) = (*step.queries, *step.then)
    assert query.candidate.passage.endswith("Zinc helps in colds.")


def test_a_contradiction_repeats_the_first_sentence_about_the_key_with_a_distractor():
    attack = PassageDistractor(says="contradicting")
    added = {each.passage.removeprefix(PASSAGE) for each in asked(attack)}
    assert added == {
        f" {name} is bad, e.g. at night." for name in ("Warfarin", "Iron salts", "Zinc")
    }
    assert attack.validity(asked(attack)[0], RESOURCES).reason == "evidence_changed"


def test_another_passage_never_names_the_key_and_comes_from_the_data_set():
    attack = PassageOther()
    found = {asked(attack, seed=seed)[0].passage for seed in range(40)}
    assert found == {OTHERS[2]}
    zinc = replace(ITEM, key="D")
    passages = Counter(asked(attack, zinc, seed)[0].passage for seed in range(200))
    assert passages.keys() == {OTHERS[2], OTHERS[3]}
    assert abs(passages[OTHERS[2]] - 100) < 35


@pytest.mark.parametrize(
    "attack",
    [PassageSwap(), PassageDistractor(says="contradicting"), PassageOther(), PassageNone()],
    ids=repr,
)
def test_a_lost_answer_is_refuted_where_the_evidence_is_changed(attack):
    assert not attack.is_judged
    assert attack.fields == {"passage"}
    found = attack.validity(Candidate(item=ITEM), RESOURCES)
    assert (found.valid, found.reason) == (False, "evidence_changed")


def test_passages_are_sorted_by_content_without_empty_and_repeated_ones():
    assert Passages.of(OTHERS).texts == Passages.of(reversed([*OTHERS, *OTHERS, " "])).texts
    assert len(Passages.of(OTHERS).texts) == 4
    passages = Passages.of(OTHERS)
    assert {passages.texts[i] for i in passages.naming("zinc")} == {OTHERS[1]}


@pytest.mark.parametrize(
    ("text", "name", "found"),
    [
        ("Iron\nsalts", "iron salts", ["Iron\nsalts"]),
        ("pre-iron", "iron", ["iron"]),
        ("environ", "iron", []),
        ("(+)-lead and lead", "(+)-lead", ["(+)-lead"]),
        ("anything", "  ", []),
    ],
)
def test_a_name_is_found_as_whole_words(text, name, found):
    assert [text[start:end] for start, end in named_at(text, name)] == found
