"""The attack driven by hand: no model, no mock, no scheduler."""

from __future__ import annotations

from dataclasses import replace

import pytest

from medstress.attacks import EntitySubstitution
from medstress.attacks.entity_substitution import nearest_span
from medstress.core.errors import UsageError
from medstress.core.hashing import rng_for
from medstress.core.items import Mention, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask
from medstress.testing import PerturbationTable, tiny_resources

HELD = Prediction(outcome=Outcome.RIGHT, answer="A")
FLIPPED = Prediction(outcome=Outcome.WRONG, answer="B", reached_goal=True)
H = {"near": 0.1, "middle": 0.5, "far": 0.9, "Beta": 0.3, "Gamma": 0.2, "gamma cell": 0.6}


def mention(field, start, end, type_="T121"):
    return Mention(field=field, start=start, end=end, type=type_)


ITEM = Question(
    id="q",
    stem="Which?",
    options=("Alpha", "Beta", "some Gamma blocker", "Delta"),
    key="A",
    mentions=(
        mention("A", 0, 5),
        mention("B", 0, 4),
        mention("C", 5, 10),
        mention("D", 0, 5, "T047"),
        mention("stem", 0, 5),
    ),
)
RESOURCES = tiny_resources(PerturbationTable(["middle", "near", "far"], H))


def start(resources=RESOURCES, item=ITEM, **given):
    attack = EntitySubstitution(**given)
    return attack.run(item, rng_for(0, attack.stream, "d", item.id), resources)


def asked(step):
    """The third option of every query, then of what is announced."""
    assert isinstance(step, Ask)
    return [query.candidate.options[2] for query in (*step.queries, *step.then)]


def test_nearest_asks_in_ascending_distance_and_announces_the_rest():
    flow = start(sampler="nearest", budget=3)
    step = next(flow)
    assert len(step.queries) == 1
    assert asked(step) == ["some Near blocker", "some Middle blocker", "some Far blocker"]
    assert asked(flow.send((HELD,))) == ["some Middle blocker", "some Far blocker"]
    assert asked(flow.send((HELD,))) == ["some Far blocker"]
    with pytest.raises(StopIteration) as stop:
        flow.send((HELD,))
    assert stop.value.value is None


def test_a_success_ends_the_search_with_its_candidate():
    flow = start(sampler="nearest", budget=3)
    next(flow)
    second = flow.send((HELD,))
    with pytest.raises(StopIteration) as stop:
        flow.send((FLIPPED,))
    assert stop.value.value == second.queries[0].candidate


def test_a_wrong_answer_that_misses_the_goal_does_not_end_the_search():
    flow = start(sampler="nearest", budget=2)
    next(flow)
    wrong = Prediction(outcome=Outcome.WRONG, answer="B", reached_goal=False)
    assert asked(flow.send((wrong,))) == ["some Middle blocker"]


def test_announced_queries_are_the_very_ones_asked_later():
    flow = start(sampler="nearest", budget=3)
    first = next(flow)
    second = flow.send((HELD,))
    assert second.queries[0] is first.then[0]


def test_arms_share_their_stream():
    one = EntitySubstitution(sampler="random", budget=1)
    other = EntitySubstitution(sampler="pdws", n=3, budget=9)
    assert one.stream == other.stream
    assert one.is_random


def test_the_nearest_typed_distractor_entity_is_the_victim_span():
    assert nearest_span(ITEM, RESOURCES) == mention("C", 5, 10)
    swapped = tiny_resources(PerturbationTable(["near"], H | {"Beta": 0.1}))
    assert nearest_span(ITEM, swapped) == mention("B", 0, 4)


@pytest.mark.parametrize("h", [{"Beta": 0.2}, {"Gamma": float("nan"), "Beta": float("nan")}])
def test_the_first_option_wins_where_distances_tie_or_are_undefined(h):
    resources = tiny_resources(PerturbationTable(["near"], H | h))
    assert nearest_span(ITEM, resources) == mention("B", 0, 4)


@pytest.mark.parametrize(
    ("mentions", "names", "reason"),
    [
        ((), ["near"], "no wrong option mentions an entity of type drugs"),
        (
            (mention("A", 0, 5), mention("stem", 0, 5), mention("B", 0, 4, "T047")),
            ["near"],
            "no wrong option mentions an entity of type drugs",
        ),
        ((mention("B", 0, 4),), ["ALPHA"], "no name of the vocabulary may replace it"),
        ((mention("B", 0, 4),), ["near"], None),
    ],
    ids=["no mention", "key, stem and another type", "no name left", "attackable"],
)
def test_what_cannot_be_attacked_is_told_before_any_query(mentions, names, reason):
    item = Question(id="q", stem="Which?", options=("Alpha", "Beta"), key="A", mentions=mentions)
    resources = tiny_resources(PerturbationTable(names))
    assert EntitySubstitution(sampler="nearest").obstacle(item, resources) == reason


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"sampler": "pwds", "n": 1}, "sampler"),
        ({"sampler": 3}, "sampler"),
        ({}, "sampler 'pdws' needs its exponent"),
        ({"sampler": "random", "n": 1}, "sampler 'random' takes no n"),
        *(({"n": n}, "n") for n in (201, float("nan"), "1", True)),
        *(({"n": 1, "budget": budget}, "budget") for budget in (0, 1001, 2.0, "8")),
        ({"sampler": "random", "victim_span": "nearst"}, "victim_span"),
        *(({"n": 1, "goal": goal}, "goal") for goal in ("K", 1)),
        *(({"n": 1, "max_edit_distance": v}, "max_edit_distance") for v in (-1, {"words": 3})),
        ({"sampler": "exhaustive", "budget": 8}, "sampler 'exhaustive' takes no budget"),
        ({"sampels": "random", "n": 1}, "unknown key 'sampels'; did you mean 'sampler'?"),
    ],
)
def test_parameters_out_of_range_are_refused(given, key):
    with pytest.raises(UsageError) as caught:
        EntitySubstitution(**given)
    assert str(caught.value).startswith(f"entity_substitution: {key}")
    assert len(given) != 1 or str(*given.values()) in str(caught.value)


READ = replace(
    ITEM,
    passage="Alpha works where Beta and Gamma Alpha fail.",
    mentions=(
        mention("B", 0, 4),
        mention("passage", 0, 5),
        mention("passage", 18, 22),
        mention("passage", 27, 38),
    ),
)


def test_entities_of_a_text_are_replaced_but_not_those_of_the_key():
    step = next(start(item=READ, sampler="nearest", budget=2, field="passage"))
    assert [query.candidate.passage for query in (*step.queries, *step.then)] == [
        "Alpha works where Near and Gamma Alpha fail.",
        "Alpha works where Middle and Gamma Alpha fail.",
    ]
    attack = EntitySubstitution(sampler="random", field="passage")
    assert attack.spec()["field"] == "passage"
    assert attack.obstacle(READ, RESOURCES) is None
    assert attack.obstacle(ITEM, RESOURCES) == "no passage mentions an entity of type drugs"


def test_a_default_field_is_no_part_of_labels_and_an_odd_one_is_refused(said):
    assert EntitySubstitution(sampler="random").label_parameters()["field"] is None
    for keys, part in (({"field": "pasage"}, "'passage'"), ({"goal": "replaced"}, "'replaced'")):
        with pytest.raises(UsageError) as caught:
            EntitySubstitution(sampler="random", **{"field": "stem", **keys})
        said(str(caught.value), part)
