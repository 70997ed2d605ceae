"""What attacks and back ends are is declared in their traits, and asked of nothing else."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import medstress
from medstress.attacks.protocol import (
    PAIRS,
    QUESTIONS,
    TAGGED,
    Attack,
    AttackTraits,
    SearchOn,
    attack_fault,
    make_attack,
)
from medstress.backends.mock import MockBackend
from medstress.backends.options import BackendOptions
from medstress.core import registry
from medstress.core.calls import Backend
from medstress.core.outcomes import Replaced, Targeted, Untargeted
from medstress.core.registry import backend_fault
from medstress.testing import ScriptedBackend, tiny_questions, tiny_resources

SOURCE = Path(medstress.__file__).parent
PDWS = {"sampler": "pdws", "n": -20}


@pytest.mark.parametrize(
    ("name", "parameters", "declared"),
    [
        ("entity_substitution", PDWS, {"budget": 8, "puts_one_name": True}),
        (
            "entity_substitution",
            {**PDWS, "variants": "mark"},
            {"search_on": SearchOn.INVALID, "may_be_refuted": True},
        ),
        (
            "entity_substitution",
            {"sampler": "nearest", "victim_span": "saliency"},
            {"deterministic": True, "needs_scores": "by its parameters"},
        ),
        (
            "entity_substitution",
            {"sampler": "exhaustive"},
            {"search_on": SearchOn.ALWAYS, "deterministic": True, "budget": 1_000_000_000},
        ),
        ("discrete_zoo", {}, {"needs_scores": "answers = 'soft'", "deterministic": False}),
        ("discrete_zoo", {"choices": "as_published"}, {"needs_scores": None}),
        (
            "medfuzz",
            {"runs": 2, "attempts": 4, "attack_all": True, "gate_mode": "mark"},
            {
                "needs_entities": False,
                "needs_names": True,
                "roles": {"attacker": True, "judge": False},
                "repeats": 2,
                "budget": 4,
                "attack_all": True,
                "search_on": SearchOn.INVALID,
                "in_turns": True,
                "reasoning_tokens": 384,
            },
        ),
        ("medfuzz", {"gates": []}, {"roles": {"attacker": True}, "needs_names": False}),
        (
            "no_op",
            {},
            {"budget": 8, "needs_entities": False, "edits_only": {"context", "stem"}},
        ),
        (
            "passage_swap",
            {"distractor": "B"},
            {"budget": 1, "deterministic": True, "changes_evidence": True},
        ),
        (
            "passage_distractor",
            {"budget": 2},
            {"budget": 2, "needs_passages": True, "changes_evidence": False},
        ),
        (
            "passage_distractor",
            {"says": "contradicting"},
            {"needs_passages": False, "changes_evidence": True, "edits_only": {"passage"}},
        ),
        ("passage_other", {}, {"needs_passages": True, "deterministic": False}),
        ("passage_none", {}, {"deterministic": True, "needs_entities": False}),
        (
            "swap_noise",
            {},
            {
                "item_kinds": {QUESTIONS, TAGGED, PAIRS},
                "is_static": True,
                "search_on": SearchOn.NEVER,
            },
        ),
        (
            "synonym",
            {"search": "random", "budget": 3},
            {"is_static": False, "search_on": SearchOn.SMALLER, "deterministic": False},
        ),
    ],
)
def test_what_an_attack_declares_follows_from_its_parameters(
    name: str, parameters: dict[str, Any], declared: dict[str, Any]
) -> None:
    traits = make_attack(name, parameters).traits
    assert {key: getattr(traits, key) for key in declared} == declared


@pytest.mark.parametrize("name", sorted(registry.ATTACKS))
def test_every_attack_is_built_from_its_class_and_has_traits(name: str) -> None:
    attack = make_attack(name, PDWS if name == "entity_substitution" else {})
    assert attack_fault(attack) is None
    draws_names = name in ("entity_substitution", "discrete_zoo", "same_type")
    assert QUESTIONS in attack.traits.item_kinds
    assert attack.traits.needs_entities == draws_names


class Least(Attack):
    """Nothing but what an attack has to have."""

    traits = AttackTraits(stream="least", budget=3)

    def spec(self) -> dict[str, Any]:
        return {"name": "least"}

    def obstacle(self, item: Any, resources: Any) -> str | None:
        return None

    def run(self, item: Any, rng: Any, resources: Any) -> Any:
        yield from ()


def test_what_an_attack_does_not_say_has_one_default() -> None:
    attack, item, resources = Least(), tiny_questions(1)[0], tiny_resources()
    assert attack_fault(attack) is None
    assert attack.goal_for(item) == Untargeted()
    assert attack.validity(None, resources) is None
    assert attack.n_excluded(None, resources) is None
    assert attack.supported(None) is None
    n_allowed = resources.perturbations.allowed(item).size
    assert attack.most_queries(item, resources) == min(3, n_allowed)
    assert attack.label_parameters() == {"name": "least"}
    assert attack.with_files(Path()) is attack


@pytest.mark.parametrize(
    ("told", "goal"),
    [
        ({"goal": "B"}, Targeted("B")),
        ({"goal": "replaced", "unreadable_is_success": True}, Replaced(unreadable=True)),
        ({"goal": Targeted("C")}, Targeted("C")),
    ],
)
def test_a_goal_is_a_text_of_the_experiment_or_an_object(told: dict[str, Any], goal: Any) -> None:
    class Aimed(Least):
        traits = AttackTraits(stream="aimed", budget=1, **told)

    assert Aimed().goal_for(None) == goal


def test_back_ends_say_what_they_answer_and_have_a_default_for_the_rest() -> None:
    for backend in (MockBackend(), ScriptedBackend(), registry.open_backend("mock", OPTIONS)):
        assert backend_fault(backend) is None
        assert isinstance(backend, Backend)
        assert (backend.traits.workers, backend.traits.structured) == (1, False)
        assert (backend.counters, backend.endpoint) == ({}, None)
        backend.expect({"answered_as": "whoever"})
        backend.close()


OPTIONS = BackendOptions(base=Path())


def asked_by_name() -> Iterator[str]:
    """Places in the source that look up an attribute of an attack or a back end by its name."""
    for folder in ("scheduler", "experiment", "store", "training", "testing"):
        for path in (SOURCE / folder).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text("utf-8"))):
                if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                    about = ast.unparse(node.args[0]).lower() if node.args else ""
                    if node.func.id in ("getattr", "hasattr") and about.endswith(
                        ("attack", "attacks", "backend", "perturbation")
                    ):
                        yield f"{path.name}:{node.lineno}"


def test_nothing_looks_up_an_attribute_of_an_attack_or_a_back_end_by_name() -> None:
    assert list(asked_by_name()) == []
