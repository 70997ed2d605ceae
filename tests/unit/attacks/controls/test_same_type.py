"""Random names in the spans of an attack: which names, where, and where it is no control."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from medstress.attacks import DiscreteZoo, EntitySubstitution, MedFuzz
from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.harmless import NoOp, OptionShuffle, Repeat
from medstress.attacks.controls.same_type import SameType
from medstress.attacks.noise import SwapNoise
from medstress.attacks.passages import PassageSwap
from medstress.attacks.protocol import most_queries, never_wrong
from medstress.core.hashing import rng_for
from medstress.core.outcomes import Outcome, Prediction, Replaced, Targeted
from medstress.testing import tiny_questions, tiny_resources

RESOURCES = tiny_resources()
ITEMS = tiny_questions(6)
PDWS = EntitySubstitution(n=-3.0)


def asked(attack, item, seed=0):
    """What is asked of a victim that never errs, with the stream the scheduler gives."""
    rng = rng_for(seed, f"{attack.stream}/g", "d", item.id, 0)
    return list(never_wrong(attack, item, rng, RESOURCES))


@pytest.mark.parametrize("item", ITEMS)
def test_on_its_own_it_is_random_sampling_on_the_nearest_span(item):
    assert asked(SameType(), item) == asked(EntitySubstitution(sampler="random"), item)
    assert asked(SameType(budget=30), item)[:8] == asked(SameType(), item)
    variants = SameType().variants(
        item, rng_for(0, "entity_substitution/g", "d", item.id, 0), RESOURCES
    )
    assert list(islice(variants, 8)) == [query.candidate for query in asked(SameType(), item)]


@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize(
    "attack",
    [
        PDWS,
        replace(PDWS, victim_span="random", budget=5),
        replace(PDWS, victim_span="saliency"),
        replace(PDWS, max_edit_distance=8),
        EntitySubstitution(n=-3.0, choices="as_published"),
        EntitySubstitution(n=-3.0, choices="as_released"),
        EntitySubstitution(sampler="nearest", victim_span="random", goal="replaced"),
    ],
)
def test_beside_an_attack_it_asks_in_the_same_span_as_often_and_only_allowed_names(attack, item):
    arm = control_arm(SameType(), attack)
    if attack.obstacle(item, RESOURCES) is not None:
        assert arm.obstacle(item, RESOURCES) is not None
        return
    theirs, ours = asked(attack, item), asked(arm, item)
    assert len(ours) == len(theirs) <= most_queries(arm, item, RESOURCES)
    assert arm.fills(item, RESOURCES)
    spans = [(edit.field, edit.start, edit.end) for q in theirs for edit in q.candidate.edits]
    assert spans == [(e.field, e.start, e.end) for q in ours for e in q.candidate.edits]
    assert asked(replace(attack, sampler="random", n=None), item) == ours
    names = [q.candidate.edits for q in ours]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("word_ranking", ["random", "importance", "given"])
def test_beside_discrete_zoo_it_asks_random_names_at_the_same_entities(word_ranking):
    item = ITEMS[0]
    zoo = DiscreteZoo(budget=20, word_ranking=word_ranking)
    theirs, ours = asked(zoo, item), asked(control_arm(SameType(), zoo), item)
    spans = [[(q.probe, q.candidate.edits[0].field) for q in each] for each in (theirs, ours)]
    assert spans[0] == spans[1]
    assert len(ours) == 20
    edits = [query.candidate.edits for query in ours]
    assert len(set(edits)) == len(edits)


@pytest.mark.parametrize(
    ("attack", "why"),
    [
        (EntitySubstitution(sampler="random"), "it is that attack"),
        (EntitySubstitution(sampler="random", victim_span="random"), "it is that attack"),
        (EntitySubstitution(sampler="exhaustive"), "every name"),
        (MedFuzz(), "no entity"),
        (SwapNoise(), "no entity"),
        (PassageSwap(), "no entity"),
        (PDWS, None),
        (DiscreteZoo(), None),
    ],
)
def test_it_says_where_it_is_no_control(attack, why):
    found = SameType().unfit(attack)
    assert found is None if why is None else why in str(found)


WRONG = {x: Prediction(outcome=Outcome.WRONG, answer=x) for x in "ABCD"}


def goal_beside(control, attack, item=ITEMS[0], seed=0):
    rng = rng_for(seed, f"{attack.stream}/g", "d", item.id, 0)
    return control_arm(control, attack).at(item, rng, RESOURCES).goal_for(item)


def test_replaced_is_for_a_control_the_option_that_the_attack_edits_in_that_trial():
    one = replace(PDWS, goal="replaced")  # the key is A
    (field,) = {query.candidate.edits[0].field for query in asked(one, ITEMS[0])}
    for control in (NoOp(), Repeat(), OptionShuffle()):
        goal = goal_beside(control, one)
        assert goal == Replaced(options=frozenset({field}))
        assert [x for x in "BCD" if goal.reached(WRONG[x], ())] == [field]
    anywhere = replace(one, victim_span="random")
    for seed in range(8):
        edited = {query.candidate.edits[0].field for query in asked(anywhere, ITEMS[0], seed)}
        assert goal_beside(NoOp(), anywhere, seed=seed) == Replaced(options=frozenset(edited))
    # It may be any that is probed.
    probed = replace(one, victim_span="saliency")
    assert goal_beside(NoOp(), probed) == Replaced(options=frozenset("BCD"))
    # Random names edit an option themselves: the one that was edited counts, as for the attack.
    assert goal_beside(SameType(), anywhere) == Replaced()
    assert goal_beside(NoOp(), replace(PDWS, goal="B")) == Targeted("B")
