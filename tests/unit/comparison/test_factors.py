"""Which one thing differs between two arms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from medstress.comparison.compare import one_factor
from medstress.comparison.factors import also_differs, factors_of, names_of
from medstress.comparison.sides import Arm, match_arms
from medstress.core.errors import UsageError

from .conftest import MANIFEST, manifest_with

ARM = Arm(dataset="sample", group="drugs", victim="mock", attack="random")
TASK = "victims.mock.task"


@pytest.mark.parametrize(
    ("changes", "factor"),
    [
        ({}, "time"),
        ({"versions.torch": "2.2", "versions.python": "3.12"}, "time"),
        ({"parts.settings": {"flip_check": False}}, "time"),
        ({"victims.mock.model": "other", "victims.mock.model_hash": "2"}, "victim"),
        ({"victims.mock.model_hash": "2"}, "version"),
        ({"versions.medstress": "2"}, "version"),
        ({"victims.mock.model": "same weights elsewhere"}, "time"),
        ({f"{TASK}.template": "u"}, "prompt"),
        ({f"{TASK}.answer_by": "text"}, "answer_by"),
        ({f"{TASK}.answer_by": "generate", f"{TASK}.decoding": [9, 1.0]}, "answer_by"),
        ({f"{TASK}.decoding": [9, 0.0]}, "time"),  # letters are not decoded
        ({TASK: {"wrap": "majority", "k": 5, "task": MANIFEST["victims"]["mock"]["task"]}}, "wrap"),
        ({TASK: {"wrap": "few_shot", "task": MANIFEST["victims"]["mock"]["task"]}}, "shots"),
        ({"attacks.random.sampler": "pdws"}, "attack"),
        ({"attacks.random.budget": 8, "attacks.random.sampler": "pdws"}, "attack"),
        ({"parts.groups.drugs": "h", "groups.drugs.embedding": "minilm"}, "names"),
        ({"parts.roles": {"attacker": "2"}}, "role"),
    ],
)
def test_one_thing_that_differs_is_named(changes: Mapping[str, Any], factor: str) -> None:
    assert one_factor([factors_of(MANIFEST, ARM, manifest_with(changes), ARM)])[0] == factor


@pytest.mark.parametrize(
    ("changes", "names"),
    [
        ({f"{TASK}.template": "u", "attacks.random.budget": 8}, ["prompt", "attack"]),
        ({"victims.mock.model_hash": "2", "versions.medstress": "2"}, ["version"]),
        (
            {"victims.mock.model": "x", "victims.mock.model_hash": "2", f"{TASK}.template": "u"},
            None,
        ),
    ],
)
def test_two_things_that_differ_are_refused_and_named(
    changes: Mapping[str, Any], names: list[str] | None, said: Callable[..., None]
) -> None:
    found = factors_of(MANIFEST, ARM, manifest_with(changes), ARM)
    assert names_of(found) == (names or ["victim", "prompt"])
    with pytest.raises(UsageError) as error:
        one_factor([found])
    said(str(error.value), *(names or ["victim", "prompt"]))


def trained(**changes: Any) -> dict[str, Any]:
    """A manifest whose victim was trained in the run."""
    notes = {"model": "base", "models": [{"victim": "mock", "model": "original", "seed": 0}]}
    return manifest_with(
        {
            "training": notes,
            "config.train": {"epochs": 3},
            "victims.mock.model_hash": "2",
            **changes,
        }
    )


def test_trained_models_differ_in_training() -> None:
    longer = trained(**{"victims.mock.model_hash": "3", "config.train": {"epochs": 9}})
    (factor,) = factors_of(trained(), ARM, longer, ARM)
    assert (factor.name, factor.what) == ("training", "'mock' with epochs 3 in A, 9 in B")
    untrained = manifest_with({"victims.mock.model": "base"})
    assert names_of(factors_of(untrained, ARM, trained(), ARM)) == ["training"]
    assert names_of(factors_of(MANIFEST, ARM, trained(), ARM)) == ["victim"]


def test_a_server_that_answers_as_another_model_is_another_version() -> None:
    served = [
        manifest_with({"endpoints": [{"victim": "mock", "answered_as": name}]})
        for name in ("m-1", "m-2")
    ]
    assert names_of(factors_of(served[0], ARM, served[1], ARM)) == ["version"]


def test_libraries_and_settings_are_listed() -> None:
    other = manifest_with({"versions.torch": "2.2", "parts.settings.flip_check": False})
    assert also_differs(MANIFEST, other) == {
        "torch": ["2.1", "2.2"],
        "[experiment] flip_check": ["true", "false"],
    }


def arm(**labels: str) -> Arm:
    """An arm with some labels changed."""
    known = {"dataset": "sample", "group": "drugs", "victim": "mock", "attack": "random"}
    return Arm(**{**known, **labels})


def test_arms_are_matched_by_label_and_single_ones_whatever_their_label() -> None:
    ours = [arm(attack="random"), arm(attack="pdws")]
    theirs = [arm(attack="pdws", victim="other"), arm(attack="nearest", victim="other")]
    assert match_arms(ours, theirs) == [(ours[1], theirs[0])]


def test_arms_with_no_label_in_common_are_refused(said: Callable[..., None]) -> None:
    ours = [arm(victim="a"), arm(victim="b")]
    with pytest.raises(UsageError) as error:
        match_arms(ours, [arm(victim="c")])
    said(str(error.value), "victim", "'a', 'b'", "'c'")
