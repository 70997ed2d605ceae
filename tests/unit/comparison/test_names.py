"""Intervals for names like these, where few names are shared by many items."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.comparison.names import for_names_like_these
from medstress.stats.paired import unite

N_ITEMS, N_RUNS = 200, 100


@pytest.mark.release
@pytest.mark.parametrize("n_names", [20, 50])
def test_the_interval_covers_what_other_names_would_show(n_names: int) -> None:
    """Two samplers draw from lists of their own; half of all names are lethal, so nothing differs.

    The item test speaks of the names that were drawn, and so errs far more often than .05.
    """
    rng = np.random.default_rng(n_names)
    missed, missed_by_items = 0, 0
    for _ in range(N_RUNS):
        lethal = rng.random((2, n_names)) < 0.5
        drawn = rng.integers(0, n_names, size=(2, N_ITEMS))
        held = ~np.take_along_axis(lethal, drawn, axis=1)
        items = [f"q{i}" for i in range(N_ITEMS)]
        found, _ = for_names_like_these(items, *_told(drawn, held))
        assert found is not None
        missed += not found.low <= 0 <= found.high
        p = unite([(item, *map(bool, held[:, i])) for i, item in enumerate(items)]).p
        missed_by_items += p < 0.05
    assert missed <= 0.12 * N_RUNS  # .05 + 3 standard errors
    assert missed >= 1  # as wide as it has to be, and not much wider
    assert missed_by_items >= 0.12 * N_RUNS


def _told(
    drawn: np.ndarray, held: np.ndarray
) -> tuple[list[tuple[list[str], list[str]]], list[int]]:
    """The names that decide each pair, and its difference."""
    names = [([f"a{a}"], [f"b{b}"]) for a, b in drawn.T]
    return names, [int(b) - int(a) for a, b in held.T]


def test_it_is_wider_than_over_items_alone_and_finds_a_large_difference() -> None:
    names = [([f"n{i % 10}"], [f"n{i % 10}"]) for i in range(200)]
    differences = [-1 if i % 10 < 6 else 0 for i in range(200)]
    found, reason = for_names_like_these([f"q{i}" for i in range(200)], names, differences)
    assert reason is None
    assert found.value == -0.6
    assert found.high < 0
    items = unite([(f"q{i}", d == 0, True) for i, d in enumerate(differences)]).estimate
    assert found.high - found.low > 1.5 * (items.high - items.low)


@pytest.mark.parametrize(
    ("clusters", "names", "differences"),
    [
        (["a", "b"], [(["x"], ["x"]), (["x"], ["x"])], [1, 0]),
        (["a", "b"], [([], []), ([], [])], [1, 0]),
        (["a", "a"], [(["x"], ["x"]), (["y"], ["y"])], [1, 0]),
        (["a", "b"], [(["x"], ["x"]), (["y"], ["y"])], [0, 0]),
    ],
)
def test_without_two_names_items_or_values_there_is_a_reason(
    clusters: list[str], names: list[tuple[list[str], list[str]]], differences: list[int]
) -> None:
    found, reason = for_names_like_these(clusters, names, differences)
    assert found is None
    assert reason
