"""The exchangeable parts of entity substitution, driven by hand."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medstress.attacks import EntitySubstitution
from medstress.attacks.names import distractor_spans, is_within
from medstress.attacks.protocol import most_queries
from medstress.core.errors import TrialError
from medstress.core.hashing import rng_for
from medstress.core.items import Mention, Question
from medstress.core.outcomes import Outcome, Prediction, parse_goal
from medstress.core.text import Edit
from medstress.entities.names import normalise
from medstress.testing import PerturbationTable, tiny_resources

NAMES = ("near", "middle", "far", "Alpha two", "Beta", "DNA x")
H = {name: (i + 1) / 10 for i, name in enumerate(NAMES)} | {"Gamma": 0.2, "Eta": 0.5, "Zeta": 0.4}
SAMPLERS: list[dict[str, Any]] = [
    {"sampler": "random"},
    {"n": -20},
    {"n": 20.0},
    {"n": -200},
    {"n": 200},
    {"sampler": "nearest"},
    {"sampler": "farthest"},
]
SPANS = ["nearest", "random", "saliency"]


def mention(field, start, end, type_="T121"):
    return Mention(field=field, start=start, end=end, type=type_)


ITEM = Question(
    id="q",
    stem="Which?",
    options=("Alpha", "Beta", "some Gamma with Eta here", "Zeta", "A drug of another kind"),
    key="A",
    mentions=(
        mention("A", 0, 5),
        mention("B", 0, 4),
        mention("C", 5, 10),
        mention("C", 16, 19),
        mention("D", 0, 4),
        mention("E", 2, 6, "T047"),
    ),
)
TABLE = PerturbationTable(NAMES, H)
RESOURCES = tiny_resources(TABLE)


EVEN = (math.log(0.2),) * 5


def held(scores=EVEN):
    return Prediction(outcome=Outcome.RIGHT, answer="A", scores=scores)


def walk(attack, item=ITEM, seed=0, resources=RESOURCES):
    """All queries of a search that never succeeds; every answer has the same scores."""
    flow, found = attack.run(item, rng_for(seed, attack.stream, "d", item.id), resources), []
    with suppress(StopIteration):
        step = next(flow)
        while True:
            found += step.queries
            step = flow.send((held((math.log(0.25),) * len(item.letters)),))
    return found


def asked(queries):
    """(option, replacement) of every query that is no probe."""
    return [
        (query.candidate.edits[0].field, query.candidate.edits[0].replacement)
        for query in queries
        if not query.probe
    ]


# What `choices` makes of the keys that are not written (METHODS, section 7).
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, (8, "nearest", "exclude", False, False)),
        ({"choices": "as_published"}, (8, "nearest", "mark", True, False)),
        ({"choices": "as_released"}, (7, "random", "mark", True, True)),
        ({"variants": "mark"}, (8, "nearest", "mark", True, False)),
        ({"variants": "mark", "continue_on_invalid": False}, (8, "nearest", "mark", False, False)),
        (
            {"choices": "as_published", "variants": "exclude"},
            (8, "nearest", "exclude", False, False),
        ),
        (
            {
                "choices": "as_released",
                "budget": 8,
                "victim_span": "saliency",
                "unreadable_is_success": False,
            },
            (8, "saliency", "mark", True, False),
        ),
    ],
)  # fmt: skip
def test_choices_change_defaults_and_what_is_written_wins(given, expected):
    attack = EntitySubstitution(**{"sampler": "random", **given})
    spec = attack.spec()
    names = ("budget", "victim_span", "variants", "continue_on_invalid", "unreadable_is_success")
    assert tuple(spec[name] for name in names) == expected


def test_the_rule_of_exclusion_follows_choices_and_variants():
    rules = {
        (choices, variants): EntitySubstitution(
            sampler="random", choices=choices, variants=variants
        ).rule
        for choices in ("default", "as_published", "as_released")
        for variants in ("exclude", "mark")
    }
    assert rules == {
        ("default", "exclude"): "exclude",
        ("default", "mark"): "mark",
        ("as_published", "exclude"): "exclude",
        ("as_published", "mark"): "key_string",
        ("as_released", "exclude"): "exclude",
        ("as_released", "mark"): "key_string",
    }


def test_labels_name_what_was_written_and_not_what_follows_from_it():
    shown = EntitySubstitution(sampler="random", choices="as_released").label_parameters()
    named = {key for key, value in shown.items() if value is not None}
    assert named == {"name", "sampler", "budget", "goal", "choices", "max_edit_distance"}
    written = EntitySubstitution(sampler="random", variants="mark", victim_span="random")
    assert written.label_parameters()["variants"] == "mark"
    assert written.label_parameters()["victim_span"] == "random"
    assert written.label_parameters()["continue_on_invalid"] is None


@pytest.mark.parametrize(
    ("goal", "outcome", "answer", "reached"),
    [
        (parse_goal("B"), Outcome.WRONG, "B", True),
        (parse_goal("B"), Outcome.WRONG, "C", False),
        (parse_goal("B"), Outcome.UNREADABLE, None, False),
        (parse_goal("B", unreadable=True), Outcome.UNREADABLE, None, True),
        (parse_goal("untargeted"), Outcome.WRONG, "C", True),
        (parse_goal("untargeted"), Outcome.RIGHT, "A", False),
        (parse_goal("untargeted"), Outcome.UNREADABLE, None, False),
        (parse_goal("untargeted", unreadable=True), Outcome.UNREADABLE, None, True),
        (parse_goal("untargeted", unreadable=True), Outcome.RIGHT, "A", False),
        (parse_goal("replaced"), Outcome.WRONG, "C", True),
        (parse_goal("replaced"), Outcome.WRONG, "B", False),
        (parse_goal("replaced"), Outcome.RIGHT, "C", False),  # an edit of the key itself
        (parse_goal("replaced"), Outcome.UNREADABLE, None, False),
        (parse_goal("replaced", unreadable=True), Outcome.UNREADABLE, None, True),
    ],
)
def test_when_a_goal_is_reached(goal, outcome, answer, reached):
    edits = (Edit(field="C", start=0, end=1, replacement="x"),)
    assert goal.reached(Prediction(outcome=outcome, answer=answer), edits) is reached


@pytest.mark.parametrize(
    ("goal", "reason"),
    [
        ("A", "its right answer is A, the target"),
        ("F", "it has no option F, the target"),
        ("B", None),
        ("untargeted", None),
    ],
)
def test_an_item_whose_key_is_the_target_is_not_attackable(goal, reason):
    attack = EntitySubstitution(sampler="nearest", goal=goal)
    assert attack.obstacle(ITEM, RESOURCES) == reason


words = st.lists(st.sampled_from(["Acid", "zinc-oxide", "é", "DNA", "x", "of"]), max_size=3)


@given(st.lists(st.tuples(words, words), min_size=2, max_size=10), st.integers(0, 99))
def test_any_option_with_any_text_around_its_entity_keeps_that_text(frames, seed):
    options, mentions = [], []
    for i, (before, after) in enumerate(frames):
        head = " ".join([*before, ""])
        name = f"Entity{i}"
        options.append(f"{head}{name} {' '.join(after)}".rstrip())
        mentions.append(mention("ABCDEFGHIJ"[i], len(head), len(head) + len(name)))
    item = Question(id="p", stem="?", options=tuple(options), key="A", mentions=tuple(mentions))
    attack = EntitySubstitution(sampler="random", victim_span="random", budget=3)
    table = PerturbationTable(["néar", "Far-off name"], lambda *_: 0.5)
    for query in walk(attack, item, seed, tiny_resources(table)):
        (edit,) = query.candidate.edits
        i = "ABCDEFGHIJ".index(edit.field)
        expected = options[i].replace(f"Entity{i}", edit.replacement)
        assert query.candidate.options == (*options[:i], expected, *options[i + 1 :])
        assert edit.replacement in ("Néar", "Far-off name")


# Rankers of the victim span.
def test_another_victim_span_does_not_shift_the_draws_of_the_sampler():
    for sampler in SAMPLERS:
        nearest, random = (
            asked(walk(EntitySubstitution(**sampler, budget=3, victim_span=span), seed=5))
            for span in ("nearest", "random")
        )
        assert [name.casefold() for _, name in nearest] == [name.casefold() for _, name in random]


def test_a_random_victim_span_is_a_random_distractor_then_a_random_entity_in_it():
    attack = EntitySubstitution(sampler="nearest", budget=1, victim_span="random")
    assert attack.is_random
    found: dict[tuple[str, int], int] = {}
    for seed in range(600):
        (edit,) = walk(attack, seed=seed)[0].candidate.edits
        found[edit.field, edit.start] = found.get((edit.field, edit.start), 0) + 1
    assert found.keys() == {("B", 0), ("C", 5), ("C", 16), ("D", 0)}
    # Shares 1/3, 1/6, 1/6, 1/3; six standard errors.
    assert abs(found["B", 0] - 200) < 70
    assert abs(found["C", 5] - 100) < 55


def test_the_released_script_replaces_a_random_entity_of_the_nearest_option():
    resources = tiny_resources(PerturbationTable(NAMES, H | {"Gamma": 0.01}))
    attack = EntitySubstitution(sampler="nearest", budget=1, choices="as_released")
    starts = {
        walk(attack, seed=seed, resources=resources)[0].candidate.edits[0].start
        for seed in range(40)
    }
    assert starts == {5, 16}
    assert attack.is_random


def test_saliency_deletes_each_span_once_and_replaces_the_one_the_key_leans_on():
    attack = EntitySubstitution(sampler="nearest", budget=8, victim_span="saliency")
    flow = attack.run(ITEM, rng_for(0, "s", "d", "q"), RESOURCES)
    probes, step = [], next(flow)
    while step.queries[0].probe:
        (query,) = step.queries
        probes.append(query.candidate)
        share = 0.1 if query.candidate.options[3] == "" else 0.9
        rest = math.log((1 - share) / 4)
        step = flow.send((held((math.log(share), *(rest,) * 4)),))
    assert [candidate.options[1:4] for candidate in probes] == [
        ("Beta", "some  with Eta here", "Zeta"),
        ("Beta", "some Gamma with Eta here", ""),
        ("", "some Gamma with Eta here", "Zeta"),
        ("Beta", "some Gamma with  here", "Zeta"),
    ]
    assert step.queries[0].candidate.edits[0].field == "D"


def test_a_single_span_is_not_probed():
    item = Question(id="q", stem="?", options=("Alpha", "Beta"), key="A",
                    mentions=(mention("B", 0, 4),))  # fmt: skip
    queries = walk(EntitySubstitution(sampler="nearest", victim_span="saliency"), item)
    assert not any(query.probe for query in queries)


def test_saliency_refuses_a_victim_without_scores_in_one_sentence(said):
    attack = EntitySubstitution(sampler="nearest", victim_span="saliency")
    flow = attack.run(ITEM, rng_for(0, "s", "d", "q"), RESOURCES)
    next(flow)
    with pytest.raises(TrialError) as caught:
        flow.send((held(None),))
    said(str(caught.value))


def test_of_an_unreadable_probe_nothing_is_known():
    attack = EntitySubstitution(sampler="nearest", victim_span="saliency")
    flow = attack.run(ITEM, rng_for(0, "s", "d", "q"), RESOURCES)
    next(flow)
    step = flow.send((Prediction(outcome=Outcome.UNREADABLE, answer=None),))
    while step.queries[0].probe:
        step = flow.send((held(),))
    assert step.queries[0].candidate.edits[0].field == "D"


def test_spans_of_equal_weight_go_to_the_nearest():
    queries = walk(EntitySubstitution(sampler="nearest", victim_span="saliency"))
    assert asked(queries)[0][0] == "C"


def test_names_beyond_the_limit_are_filtered_before_drawing():
    # Beta -> Near, Far: 3 and 4 edits; Zeta -> the same; Gamma, Eta: more or less.
    attack = EntitySubstitution(sampler="farthest", max_edit_distance=3, budget=8)
    for field, name in asked(walk(attack)):
        span = next(m for m in distractor_spans(ITEM, RESOURCES) if m.field == field)
        text = ITEM.option(field)[span.start : span.end]
        assert is_within(("characters", 3), text, name)
    candidate = walk(attack)[0].candidate
    counts = attack.n_excluded(candidate, RESOURCES)
    assert counts["edit_distance"] + len(walk(attack)) == TABLE.allowed(ITEM).size


def test_a_span_that_no_name_may_replace_is_not_ranked():
    table = PerturbationTable(["Bet", "other"], lambda anchor, text: {"Gamma": 0.1}.get(text, 0.5))
    attack = EntitySubstitution(sampler="nearest", max_edit_distance=1)
    assert asked(walk(attack, resources=tiny_resources(table))) == [("B", "Bet")]


def test_an_item_without_any_name_in_reach_is_not_attackable():
    attack = EntitySubstitution(sampler="nearest", max_edit_distance=1)
    assert (
        attack.obstacle(ITEM, RESOURCES)
        == "no name of the vocabulary lies within max_edit_distance"
    )


# What is known of a success.
def test_the_default_rule_refutes_what_it_excludes_and_vouches_for_nothing():
    attack = EntitySubstitution(sampler="nearest", budget=6, choices="as_published")
    found = {}
    for query in walk(attack):
        validity = attack.validity(query.candidate, RESOURCES)
        name = query.candidate.edits[0].replacement
        found[name] = (validity.valid, validity.reason, validity.variant_class)
    assert found["Near"] == (None, "rule", "different")
    assert found["Alpha two"] == (False, "key_plus_words", "key_plus_words")
    assert found["Beta"] == (False, "equal_to_option", "different")


# Exhaustive.
def test_exhaustive_asks_every_name_once_in_ascending_distance():
    attack = EntitySubstitution(sampler="exhaustive")
    assert not attack.is_random
    assert attack.ends == "all"
    assert attack.spec()["budget"] is None
    assert [name for _, name in asked(walk(attack))] == ["Near", "Middle", "Far", "DNA x"]
    assert most_queries(attack, ITEM, RESOURCES) == 4


def test_exhaustive_holds_only_so_many_queries_at_a_time():
    table = PerturbationTable([f"name{i}" for i in range(500)], lambda *_: 0.5)
    attack = EntitySubstitution(sampler="exhaustive")
    flow = attack.run(ITEM, rng_for(0, "s", "d", "q"), tiny_resources(table))
    assert len(next(flow).then) == 127
    assert len(walk(attack, resources=tiny_resources(table))) == 500


# Budgets.
@pytest.mark.parametrize("span", SPANS)
@pytest.mark.parametrize("sampler", SAMPLERS, ids=str)
def test_a_smaller_budget_asks_a_prefix_of_a_larger_one(sampler, span):
    longest = walk(EntitySubstitution(**sampler, victim_span=span, budget=20), seed=3)
    for budget in range(1, 12):
        attack = EntitySubstitution(**sampler, victim_span=span, budget=budget)
        # A budget that probes alone would use up is not touched.
        n = 0 if span == "saliency" and budget <= 4 else min(budget, len(longest))
        assert walk(attack, seed=3) == longest[:n]
        assert most_queries(attack, ITEM, RESOURCES) == n


# No key duplicate is ever drawn, over any vocabulary.
letters = st.sampled_from(["a", "B", "é", "É", "ß", "-", " ", "ae", "s", "'s", "2", "ö"])
texts = st.lists(letters, min_size=1, max_size=6).map("".join).filter(lambda t: t.strip())


@settings(max_examples=30, deadline=None)
@given(
    vocabulary=st.lists(texts, min_size=1, max_size=12, unique=True),
    options=st.lists(texts, min_size=3, max_size=5, unique_by=str.strip),
    seed=st.integers(0, 2**32),
    sampler=st.sampled_from([*SAMPLERS, {"sampler": "exhaustive"}]),
    choices=st.sampled_from(["default", "as_published", "as_released"]),
    variants=st.sampled_from(["exclude", "mark", None]),
)
def test_no_draw_repeats_and_no_key_duplicate_is_ever_drawn(
    vocabulary, options, seed, sampler, choices, variants
):
    from medstress.entities.embeddings import Embedder
    from medstress.entities.perturbations import VectorPerturbationSet
    from medstress.entities.vocabularies import SynonymGroups, vocabulary_of

    embedder = Embedder("ngram")
    names = VectorPerturbationSet(
        vocabulary_of("v", vocabulary), embedder, SynonymGroups("none", "0", [])
    )
    item = Question(
        id="h",
        stem="?",
        options=tuple(options),
        key="A",
        mentions=tuple(
            mention(letter, 0, len(text)) for letter, text in zip("ABCDE", options, strict=False)
        ),
    )
    given = {} if variants is None else {"variants": variants}
    attack = EntitySubstitution(**sampler, choices=choices, **given)
    resources = tiny_resources(names)
    if attack.obstacle(item, resources) is not None:
        return
    drawn = [name for _, name in asked(walk(attack, item, seed, resources))]
    key = normalise(item.key_text)
    others = {normalise(text) for text in options}
    allowed = names.allowed(item, attack.rule).size
    assert len(drawn) == min(allowed, attack.budget)
    assert all(normalise(name) != key for name in drawn)
    if attack.rule != "key_string":
        assert not others & {normalise(name) for name in drawn}
    if attack.rule == "exclude":
        assert {names.variant_class(item, name) for name in drawn} <= {"different"}
    excluded = sum(names.n_excluded(item, attack.rule).values())
    assert excluded + allowed == len(names.names)
