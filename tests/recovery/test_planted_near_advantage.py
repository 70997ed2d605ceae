"""Synonyms among near names that no table knows: the share that survives, and its error."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
LIMIT = 0.92


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    """The simulation behind docs/results/validity.md."""
    monkeypatch.syspath_prepend(str(FOLDER))
    yield importlib.import_module("simulated_near")
    sys.modules.pop("simulated_near", None)


@pytest.mark.parametrize("seed", [0, 1])
def test_labels_and_bounds_hold_the_share_that_was_planted(
    simulated: ModuleType, seed: int
) -> None:
    found = simulated.cell(0.1, 100, runs=6, n_items=200, seed=seed)
    assert found.truth == pytest.approx(0.47, abs=0.01)
    assert found.exists >= 5 / 6
    assert found.bounded == 1
    assert found.coverage >= 4 / 6
    assert found.width < 1.5


@pytest.mark.release
@pytest.mark.timeout(1200)
def test_every_planted_share_and_number_of_labels_is_covered(simulated: ModuleType) -> None:
    for found in simulated.cells(100):
        assert found.bounded == pytest.approx(1, abs=0.01), found
        if found.estimated >= 0.2:
            error = (0.05 * 0.95 / (found.runs * found.estimated)) ** 0.5
            assert found.coverage >= LIMIT - 3 * error, found
