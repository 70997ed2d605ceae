"""What attacks and back ends are is declared, and asked of nothing else."""

from pathlib import Path
from typing import Annotated, Literal

import pytest
from pydantic import Field

from medstress.attacks.protocol import (
    PAIRS,
    QUESTIONS,
    TAGGED,
    Attack,
    attack_fault,
    make_attack,
    most_queries,
    parameters,
)
from medstress.core.errors import UsageError
from medstress.core.outcomes import Untargeted
from medstress.core.queries import Predict, ask
from medstress.testing import tiny_questions, tiny_resources

PDWS = {"sampler": "pdws", "n": -20}


@pytest.mark.parametrize(
    ("name", "parameters", "declared"),
    [
        ("entity_substitution", PDWS, {"budget": 8, "needs": {"names"}, "fields": {"options"}}),
        ("entity_substitution", {**PDWS, "variants": "mark"}, {"ends": "valid"}),
        (
            "entity_substitution",
            {"sampler": "nearest", "victim_span": "saliency"},
            {"is_random": False, "needs": {"names", "scores"}},
        ),
        (
            "entity_substitution",
            {"sampler": "exhaustive"},
            {"ends": "all", "is_random": False, "budget": 1_000_000_000, "every_item": False},
        ),
        ("discrete_zoo", {"choices": "as_published"}, {"needs": {"names"}}),
        (
            "medfuzz",
            {"runs": 2, "attempts": 4, "attack_all": True},
            {
                "needs": {"attacker", "judge", "turns"},
                "repeats": 2,
                "budget": 4,
                "every_item": True,
                "is_copy": False,
                "ends": "success",
                "control": "neutral_insertion",
                "reasoning_tokens": 384,
            },
        ),
        (
            "passage_swap",
            {"distractor": "B"},
            {"budget": 1, "is_random": False, "is_judged": False, "fields": {"passage"}},
        ),
        ("passage_distractor", {"says": "contradicting"}, {"needs": set(), "is_judged": False}),
        (
            "swap_noise",
            {},
            {"takes": {QUESTIONS, TAGGED, PAIRS}, "is_copy": True, "ends": "success"},
        ),
        (
            "synonym",
            {"search": "random", "budget": 3},
            {"is_copy": False, "ends": "smallest", "is_random": True},
        ),
    ],
)
def test_what_an_attack_declares_follows_from_its_parameters(name, parameters, declared):
    attack = make_attack(name, parameters)
    assert {key: getattr(attack, key) for key in declared} == declared


@parameters
class Least(Attack):
    """Nothing but what an attack has to have."""

    name = "least"

    def obstacle(self, item, resources):
        return None

    def run(self, item, rng, resources):
        yield from ask([Predict(item.candidate())])


def test_what_an_attack_does_not_say_has_one_default():
    attack, item, resources = Least(), tiny_questions(1)[0], tiny_resources()
    assert attack_fault(attack) is None
    assert attack.goal_for(item) == Untargeted()
    assert attack.validity(None, resources) is None
    assert most_queries(attack, item, resources) == attack.budget == 1
    assert attack.spec() == attack.label_parameters() == {"name": "least", "budget": 1}
    assert attack.with_files(Path()) is attack
    assert (attack.needs, attack.fields, attack.takes) == (set(), set(), {QUESTIONS})
    assert (attack.stream, attack.ends, attack.control) == ("least", "success", "no_op")
    assert (attack.is_random, attack.is_judged, attack.every_item) == (True, True, False)


@pytest.mark.parametrize(
    ("declared", "part"),
    [
        ({"budget": 0}, "budget of 0"),
        ({"budget": "8"}, "budget"),
        ({"needs": frozenset({"name"})}, "did you mean 'names'"),
        ({"needs": {"names"}}, "needs"),
        ({"ends": "never"}, "ends = 'never'"),
        ({"success": "untargeted"}, "success"),
    ],
)
def test_a_malformed_declaration_is_a_fault(declared, part):
    attack = type("Other", (Least,), declared)()
    assert part in (attack_fault(attack) or "")


def test_parameters_are_checked_and_refused_in_one_sentence():
    @parameters
    class Checked(Attack):
        name = "checked"
        budget: Annotated[int, Field(ge=1, le=9)] = 2
        way: Literal["near", "far"] = "near"

        def __post_init__(self):
            if self.way == "far" and self.budget > 5:
                raise ValueError("way = 'far' takes a budget of at most 5")

        obstacle, run = Least.obstacle, Least.run

    assert Checked(way="far", budget=5).spec() == {"name": "checked", "budget": 5, "way": "far"}
    for keys, sentence in (
        ({"budget": 10}, "checked: budget = 10: expected at most 9"),
        ({"budget": "3"}, "checked: budget = '3': expected a whole number"),
        ({"way": "nere"}, "checked: way = 'nere': expected 'near' or 'far'; did you mean 'near'?"),
        ({"budge": 3}, "checked: unknown key 'budge'; did you mean 'budget'?"),
        ({"way": "far", "budget": 6}, "checked: way = 'far' takes a budget of at most 5"),
    ):
        with pytest.raises(UsageError) as caught:
            Checked(**keys)
        assert str(caught.value) == sentence
