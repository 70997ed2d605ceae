"""What stands here is quick: `make quick` runs this folder while one works.

Rows of trials, by hand and at random, are shared by tests of metrics, papers, transfer and tuning.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import fields
from typing import Any

import pytest
from hypothesis import strategies as st

from medstress.core.outcomes import Verdict
from medstress.core.rows import TrialRow
from medstress.core.validity import VARIANT_CLASSES
from medstress.metrics import LEDGER_FIELDS, RowKey

BUDGETS = {"random": 4, "pdws": 4, "nearest": 4}


def make(**given: Any) -> TrialRow:
    """A held trial of attack `random` on q1, except for what is given."""
    values: dict[str, Any] = dict.fromkeys(field.name for field in fields(TrialRow))
    values |= {
        "run": "r",
        "dataset": "sample",
        "group": "drugs",
        "victim": "mock",
        "attack": "random",
        "attack_spec": "{}",
        "arm": "attack",
        "unit": "item",
        "item_id": "q1",
        "item_hash": "h",
        "seed": 0,
        "repeat": 0,
        "verdict": Verdict.HELD,
        "n_options": 4,
        "key": "A",
        "edits": "[]",
        "n_asked": 0,
        "n_paid": 0,
        "n_cached": 0,
        "n_failed": 0,
        "n_unreadable": 0,
    }
    if given.get("verdict") is Verdict.FLIPPED:
        values |= {"first_success": 1, "replacement": "aspirin", "variant_class": "different"}
        values |= {"valid": True, "validity_reason": "panel"}
    values |= given
    if values["valid"] is not False and "first_unrefuted_success" not in given:
        at = given.get("first_valid_success", values["first_success"])
        values["first_unrefuted_success"] = at
    if values["valid"] and "first_valid_success" not in given:
        at = values["first_unrefuted_success"]
        values["first_valid_success"] = at or values["first_success"]
    values["trial_id"] = "/".join(
        str(values[name]) for name in ("dataset", "group", "victim", "attack", "seed", "item_id")
    )
    return TrialRow(**values)


def ledgers_of(trials: list[TrialRow]) -> dict[RowKey, dict[str, int]]:
    """The ledgers that agree with the trials."""
    found: dict[RowKey, dict[str, int]] = defaultdict(lambda: dict.fromkeys(LEDGER_FIELDS, 0))
    for row in trials:
        ledger = found[row.dataset, row.group, row.victim, row.attack, row.seed]
        for name in ("asked", "paid", "cached", "failed"):
            ledger[name] += getattr(row, f"n_{name}")
        ledger["baseline"] += row.verdict != Verdict.NOT_ATTACKABLE
    return dict(found)


@st.composite
def trials_at_random(draw: st.DrawFn) -> list[TrialRow]:
    """Any prefix of a run of two victims, three attacks (one deterministic), two seeds."""
    cells = [
        (victim, attack, seed, item)
        for victim in ("mock", "other")
        for attack, seeds in (("random", (0, 1)), ("pdws", (0, 1)), ("nearest", (None,)))
        for seed in seeds
        for item in range(4)
    ]
    chosen = draw(st.lists(st.sampled_from(cells), unique=True, max_size=24))
    return [draw(_trial(*cell)) for cell in chosen]


@st.composite
def _trial(draw: st.DrawFn, victim: str, attack: str, seed: int | None, item: int) -> TrialRow:
    verdict = draw(st.sampled_from(Verdict))
    paid, cached, failed = (draw(st.integers(0, 2)) for _ in range(3))
    given: dict[str, Any] = {
        "victim": victim,
        "attack": attack,
        "seed": seed,
        "item_id": f"q{item}",
        "key": "ABAC"[item],
        "n_options": 4,
        "verdict": verdict,
        "n_asked": paid + cached + failed,
        "n_paid": paid,
        "n_cached": cached,
        "n_failed": failed,
        "n_unreadable": draw(st.integers(0, 2)),
    }
    if verdict is Verdict.FAILED:
        given["at"] = draw(st.sampled_from(["baseline", "attack"]))
    if verdict is Verdict.FLIPPED:
        given["first_success"] = draw(st.integers(1, BUDGETS[attack]))
        given["replacement"] = draw(st.sampled_from(["aspirin", "Aspirin", "ibuprofen", "zinc"]))
        given["variant_class"] = draw(st.sampled_from(VARIANT_CLASSES))
        given["valid"] = draw(st.sampled_from([True, False, None]))
        given["repeats"] = draw(st.sampled_from([True, False, None]))
    return make(**given)


@pytest.fixture(scope="session")
def trial() -> Callable[..., TrialRow]:
    return make


@pytest.fixture(scope="session")
def ledgers() -> Callable[[list[TrialRow]], dict[RowKey, dict[str, int]]]:
    return ledgers_of


@pytest.fixture(scope="session")
def budgets() -> dict[str, int]:
    return BUDGETS


@pytest.fixture(scope="session")
def some_trials() -> st.SearchStrategy[list[TrialRow]]:
    return trials_at_random()


@pytest.fixture(autouse=True)
def without_torch() -> Iterator[None]:
    """Fail a test that loads torch, which alone takes seconds; spaCy loads it too."""
    before = "torch" in sys.modules
    yield
    if "torch" in sys.modules and not before:
        pytest.fail("this test loads torch; tests of models stand in tests/local_models")
