"""Made-up runs for the tables and figures of the papers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="session")
def made_up() -> ModuleType:
    name = "paper_made_up"
    if name not in sys.modules:
        spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name("made_up.py"))
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    return sys.modules[name]


@pytest.fixture(scope="session")
def grid(made_up):
    """One query; the greater |n|, the more items flip; at n = 20 only even items do."""

    def outcome(i, spec):
        n = spec["n"] or 0.0
        limit = 20 + abs(n) / 4
        return 1 if i < limit and (n != 20 or i % 2 == 0) else None

    attacks = {"random": made_up.substitution("random")}
    attacks |= {
        f"pdws n={n}": made_up.substitution("pdws", float(n)) for n in (-40, -20, -5, 5, 20)
    }
    return made_up.MadeUp(
        attacks, outcome, groups=[("drugs", "drugs", "ngram"), ("diseases", "diseases", "ngram")]
    )


@pytest.fixture(scope="session")
def scaling(made_up):
    """Thirty queries under two embeddings; the second is one query faster."""

    def outcome(i, spec):
        if spec["sampler"] == "nearest":
            return i % 30 + 1
        return None if i % 3 == 0 else i % 12 + 1

    attacks = {
        "random": made_up.substitution("random", budget=30),
        "near": made_up.substitution("pdws", -20.0, budget=30),
        "nearest": made_up.substitution("nearest", budget=30),
        "zoo 3": {"name": "discrete_zoo", "budget": 30, "candidates": 3, "sampler": None},
        "zoo 10": {"name": "discrete_zoo", "budget": 30, "candidates": 10, "sampler": None},
    }
    groups = [("a", "diseases", "minilm"), ("b", "diseases", "ngram")]
    return made_up.MadeUp(attacks, outcome, groups=groups)
