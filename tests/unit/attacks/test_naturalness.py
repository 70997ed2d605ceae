"""How odd an option reads with another name in it, and the filter on it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from medstress.attacks import EntitySubstitution
from medstress.attacks.controls.arm import control_arm
from medstress.attacks.controls.same_type import SameType
from medstress.attacks.discrete_zoo.attack import DiscreteZoo
from medstress.attacks.naturalness import REASONS, Natural, oddities, parse_naturalness
from medstress.attacks.naturalness.english import is_plural, takes_an
from medstress.core.errors import UsageError
from medstress.core.items import Mention, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask
from medstress.core.seeding import rng_for
from medstress.core.text import copy_case, copy_case_as_released
from medstress.testing import PerturbationTable, tiny_resources

PARALYSIS = "Paralysis of the facial muscles"


def odd(option: str, name: str, recase: Any = copy_case) -> dict[str, float]:
    """Reasons and weights of an option `before [name] after` with another name in the brackets."""
    start, end = option.index("["), option.index("]") - 1
    text = option.replace("[", "").replace("]", "")
    found = oddities(text, start, end, [name], recase)
    assert tuple(found) == REASONS
    return {reason: round(float(values[0]), 2) for reason, values in found.items() if values[0]}


@pytest.mark.parametrize(
    ("option", "name", "expected"),
    [
        ("[Anemia] of old age", "17", {"form"}),
        ("Vitamin [K]", "D", set()),
        # Articles: by sound, not by letter; only where the author's own fits.
        ("an [ulcer] of it", "bite", {"article"}),
        ("a [bite] of it", "ulcer", {"article"}),
        ("an [ulcer]", "uric", {"article"}),
        ("a [CT]", "MRI", {"article"}),
        ("an [MRI]", "ECG", set()),
        ("an [hour]", "host", {"article"}),
        ("a [ulcer]", "bite", set()),
        ("a [scar]", "moles", {"article", "number"}),
        ("the [scar]", "the mole", {"article"}),
        # Number: of the head, worse beside a word that shows it.
        ("[Gout]", "Tumors", {"number"}),
        ("[Tumors] are", "Gout", {"number"}),
        ("[Gout]", "Rabies", set()),
        ("[Abscess of lungs]", "Tumor of necks", set()),
        ("[Injury]", "Metastases", {"number"}),
        # Capitals.
        ("[aspirin]", "DNA", {"capitals"}),
        ("some [gouts]", "Crohn's", {"capitals", "number"}),
        ("[Aspirin]", "mRNA", {"capitals"}),
        ("[Warfarin]", "Folates", {"number"}),
        ("[Warfarin]", "WARFARINE", {"capitals"}),
        ("[WARFARIN]", "ACYCLOVIR", set()),
        ("[Lactic acid]", "Citric Acid", {"capitals"}),
        ("[Lactic Acid]", "Citric Acid", set()),
        # Words that stand twice.
        ("[Palsy] of the facial nerve", "Facial", {"repeated_word"}),
        ("[Facial palsy] of the facial nerve", "Facial ulcer", set()),
        ("[Gout]", "Gout", set()),
        ("[Hepatic cyst]", "Hepatic cirrhosis, hepatics", {"repeated_word", "form"}),
        # Form: brackets, commas, slashes, words of codings; nothing that the option had.
        ("[Gout]", "Gout (acute)", {"form"}),
        ("[Gout] (acute)", "Ulcer (old)", set()),
        ("[Anemia]", "Anemia, aplastic", {"form"}),
        ("[Sulfa]", "Sulfa/urea", {"form"}),
        ("[Gout]", "Ulcer NOS", {"form"}),
    ],
)
def test_each_oddity_is_found_and_named(option: str, name: str, expected: set[str]) -> None:
    assert odd(option, name).keys() - {"length"} == expected


@pytest.mark.parametrize(
    ("option", "name", "reason", "weight"),
    [
        ("[Tumors]", "Gout", "number", 0.4),
        ("[Tumors] are seen", "Gout", "number", 1.0),
        ("[Gout] is seen", "Tumors", "number", 1.0),
        ("many [tumors]", "gout", "number", 1.0),
        ("[Gout]", "Ulcer NOS", "form", 1.0),
        ("[Gout]", "Ulcer (old), NOS", "form", 1.8),
        ("[Gout]", "Hydrogen", "length", 0.35),  # twice the characters, as many words
        ("[Gout]", "Hyd sodi", "length", 0.69),  # twice of both
        ("[Hyd sodi]", "Gout", "length", 0.69),
    ],
)
def test_oddities_weigh_what_the_definition_says(
    option: str, name: str, reason: str, weight: float
) -> None:
    assert odd(option, name)[reason] == weight


def test_lower_case_throughout_breaks_acronyms_too() -> None:
    assert odd("[aspirin]", "DNA", copy_case_as_released)["capitals"] == 1


def test_the_issues_example_is_odd_and_does_not_pass() -> None:
    found = odd("[Paralysis] of the facial muscles", "Facial nerve injuries")
    assert found == {"number": 0.4, "repeated_word": 1.0, "length": 0.33}
    assert not Natural().passes(PARALYSIS, 0, 9, ["Facial nerve injuries"], copy_case)[0]
    assert Natural().reasons(PARALYSIS, 0, 9, ["facial nerve injuries", "weakness"], copy_case) == [
        "repeated_word",
        None,
    ]


@pytest.mark.parametrize(
    "option",
    [
        "[Paralysis] of the facial muscles",
        "an [MRI] of the brain",
        "a [ulcer]",
        "the [facial nerve] of the facial muscles",
        "[HIV, NOS (old/new)]",
        "many [Crohn's diseases] are",
    ],
)
def test_a_text_with_its_own_name_is_never_odd(option: str) -> None:
    assert odd(option, option[option.index("[") + 1 : option.index("]")]) == {}


def test_many_names_at_once_are_as_odd_as_each_alone() -> None:
    names = ["gout", "DNA x", "facial nerve injuries", "an ulcer", "Citric Acid, NOS", "x" * 60]
    at_once = oddities(PARALYSIS, 0, 9, names)
    for i, name in enumerate(names):
        alone = oddities(PARALYSIS, 0, 9, [name])
        assert {reason: values[i] for reason, values in at_once.items()} == {
            reason: values[0] for reason, values in alone.items()
        }


def test_rules_of_english() -> None:
    assert [takes_an(name) for name in ("H2 blocker", "UV light", "eunuch", "8-MOP", "18-F")] == [
        *(True, False, False, True, True)
    ]
    plural = ("injuries", "vertebrae", "fibromata", "facial nerve injuries of it", "masses")
    assert all(map(is_plural, plural))
    singular = ("ascites", "virus", "paralysis", "Addison's", "HIV", "gas", "injury of nerves", "")
    assert not any(map(is_plural, singular))


# The filter, as an option of attacks.
def question(*options: str) -> Question:
    """A question with a name that ends before " of" in every option."""
    return Question(
        id="q",
        stem="Which?",
        options=options,
        key="A",
        mentions=tuple(
            Mention(field="ABCD"[i], start=0, end=text.index(" of"), type="T121")
            for i, text in enumerate(options)
        ),
    )


ITEM = question("Spasm of the neck", PARALYSIS)
BAD = {
    "facial nerve injuries": "repeated_word",
    "muscle tone": "repeated_word",
    "tumor, NOS": "form",
    "tumors of the Great vessels": "number",
    "tumor of the skin with ulcers and nails that bleeds when it is hit on a hard edge": "length",
}
GOOD = ["weakness", "tumor", "skin tumors"]
RESOURCES = tiny_resources(PerturbationTable([*BAD, *GOOD, "Spasm of the neck"]))


def drawn(attack: Any, item: Question = ITEM) -> list[Any]:
    """The candidates that an attack asks of a victim that never errs."""
    flow, found = attack.run(item, rng_for(0, "s", "d", "q"), RESOURCES), []
    held = Prediction(outcome=Outcome.RIGHT, answer="A", scores=(-1.0, -1.0))
    try:
        step = next(flow)
        while True:
            queries = step.queries if isinstance(step, Ask) else ()
            found += [query.candidate for query in queries if query.candidate.edits]
            step = flow.send((held,) * max(len(queries), 1))
    except StopIteration:
        return found


ATTACKS: list[Any] = [
    EntitySubstitution(sampler="random", naturalness=True),
    EntitySubstitution(n=-20, naturalness=True),
    EntitySubstitution(sampler="farthest", naturalness=True),
    DiscreteZoo(naturalness=True),
]


@pytest.mark.parametrize("attack", ATTACKS)
def test_attacks_draw_natural_names_alone(attack: Any) -> None:
    names = [each.edits[0].replacement.lower() for each in drawn(attack)]
    assert sorted(names) == sorted(GOOD)
    assert attack.most_queries(ITEM, RESOURCES) == len(GOOD)
    assert attack.obstacle(ITEM, RESOURCES) is None
    assert len(drawn(EntitySubstitution(sampler="exhaustive", naturalness=True))) == len(GOOD)
    unfiltered = drawn(replace(attack, naturalness=False))
    assert len(unfiltered) == len(GOOD) + len(BAD)


@pytest.mark.parametrize("attack", ATTACKS[1:2] + ATTACKS[-1:])
def test_random_names_beside_an_attack_follow_its_filter(attack: Any) -> None:
    arm = control_arm(SameType(), attack)
    asked = drawn(arm)
    assert sorted(each.edits[0].replacement.lower() for each in asked) == sorted(GOOD)


@pytest.mark.parametrize("attack", ATTACKS)
def test_names_left_out_are_counted_by_what_weighs_most(attack: Any) -> None:
    counts = attack.n_excluded(drawn(attack)[0], RESOURCES)
    expected = {"repeated_word": 2, "number": 1, "form": 1, "length": 1}
    assert {reason: counts[reason] for reason in REASONS if reason in counts} == expected
    assert sum(counts.values()) == len(BAD) + 1  # the last repeats the key
    plain = replace(attack, naturalness=False)
    assert not plain.n_excluded(drawn(attack)[0], RESOURCES).keys() & set(REASONS)


def test_beyond_the_edit_distance_comes_first() -> None:
    attack = EntitySubstitution(sampler="random", naturalness=True, max_edit_distance=9)
    candidate = drawn(attack)[0]
    allowed = RESOURCES.perturbations.allowed(ITEM)
    counts = attack.n_excluded(candidate, RESOURCES)
    assert counts["edit_distance"] >= 1
    left_out = counts["edit_distance"] + sum(counts.get(reason, 0) for reason in REASONS)
    assert left_out + len(drawn(attack)) == allowed.size


ONLY_ODD = replace(
    ITEM,
    options=("Spasm of the neck", "Skins of the tumor weakness"),
    mentions=(Mention(field="B", start=0, end=5, type="T121"),),
)


@pytest.mark.parametrize("attack", ATTACKS)
def test_an_item_without_a_natural_name_is_not_attackable_and_says_why(attack: Any) -> None:
    why = "no name of the vocabulary leaves its option natural (naturalness)"
    strict = replace(attack, naturalness={"grammar": 0, "form": 0})
    assert strict.obstacle(ONLY_ODD, RESOURCES) == why
    assert strict.most_queries(ONLY_ODD, RESOURCES) == 0
    far = replace(strict, max_edit_distance=1)
    assert far.obstacle(ONLY_ODD, RESOURCES).endswith("max_edit_distance")
    assert replace(attack, naturalness=False).obstacle(ONLY_ODD, RESOURCES) is None


def test_the_filter_stands_in_the_spec_with_its_limits_and_without_it_nothing_does() -> None:
    for make in (EntitySubstitution, DiscreteZoo):
        keys: dict[str, Any] = {"sampler": "random"} if make is EntitySubstitution else {}
        assert "naturalness" not in make(**keys).spec()
        assert "naturalness" not in make(**keys).label_parameters()
        limits = {"grammar": Natural().grammar, "form": Natural().form}
        made = make(**keys, naturalness=True)
        assert made.spec()["naturalness"] == limits
        assert make(**keys, naturalness=limits).spec() == made.spec()
        assert replace(made, budget=3).spec()["naturalness"] == limits
        part = make(**keys, naturalness={"form": 2})
        assert part.spec()["naturalness"] == {"form": 2}
    assert parse_naturalness({"form": 2}, "a") == Natural(grammar=float("inf"), form=2)


@pytest.mark.parametrize(
    "value",
    ["filter", 1, {}, {"grammar": -1}, {"form": True}, {"form": float("nan")}, {"size": 1}, None],
)
def test_other_values_are_refused(value: Any, said: Any) -> None:
    with pytest.raises(UsageError) as caught:
        parse_naturalness(value, "swap")
    said(str(caught.value), "naturalness")


def test_what_no_filter_can_do_is_said(said: Any) -> None:
    with pytest.raises(UsageError) as caught:
        EntitySubstitution(sampler="random", naturalness={"perplexity_ratio": 2})
    said(str(caught.value), "perplexity_ratio")
    with pytest.raises(UsageError) as caught:
        EntitySubstitution(sampler="random", naturalness=True, field="stem")
    said(str(caught.value), "'stem'")
