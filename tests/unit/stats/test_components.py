"""Components of variance: balanced tables by hand, planted components, designs that say nothing."""

import numpy as np
import pytest
from numpy.typing import NDArray

from medstress.stats.components import Components, components


def table(p: NDArray[np.float64], rng: np.random.Generator) -> Components:
    """Components of 0/1 draws with these probabilities, shape (items, seeds)."""
    n, s = p.shape
    items, seeds = np.divmod(np.arange(n * s), s)
    flips = rng.random(n * s) < p.ravel()
    found = components(flips, {"items": items.tolist(), "seeds": seeds.tolist()})
    assert found is not None
    return found


def mean_of(rng_seed: int, items: float, seeds: float, runs: int = 60) -> dict[str, float]:
    """Mean estimates over runs of 150 items and 8 seeds with effects of these deviations."""
    rng = np.random.default_rng(rng_seed)
    found = []
    for _ in range(runs):
        a = items * rng.choice([-1, 1], (150, 1))
        b = seeds * rng.choice([-1, 1], (1, 8))
        found.append(table(0.5 + a + b, rng).variances)
    return {name: float(np.mean([each[name] for each in found])) for name in found[0]}


@pytest.mark.parametrize(("items", "seeds"), [(0.3, 0.0), (0.0, 0.2), (0.25, 0.2), (0.0, 0.0)])
def test_planted_components_are_found(items: float, seeds: float) -> None:
    found = mean_of(7, items, seeds)
    assert found["items"] == pytest.approx(items**2, abs=0.006)
    assert found["seeds"] == pytest.approx(seeds**2, abs=0.008)
    assert found["rest"] == pytest.approx(0.25 - items**2 - seeds**2, abs=0.012)


def test_balanced_data_give_the_analysis_of_variance() -> None:
    y = np.array([[0, 0, 1], [1, 1, 1], [0, 1, 1], [0, 0, 0]], dtype=float)
    n, s = y.shape
    rows, columns, whole = y.mean(1), y.mean(0), y.mean()
    between = s * ((rows - whole) ** 2).sum() / (n - 1)
    across = n * ((columns - whole) ** 2).sum() / (s - 1)
    rest = ((y - rows[:, None] - columns + whole) ** 2).sum() / ((n - 1) * (s - 1))
    found = components(y.ravel(), {"items": "aaabbbcccddd", "seeds": "xyz" * 4})
    assert found is not None
    assert found.variances["items"] == pytest.approx((between - rest) / s)
    assert found.variances["seeds"] == pytest.approx((across - rest) / n)
    assert found.variances["rest"] == pytest.approx(rest)


def test_missing_cells_do_not_bias_the_components() -> None:
    rng, found = np.random.default_rng(2), []
    for _ in range(80):
        p = 0.5 + 0.25 * rng.choice([-1, 1], (120, 1)) + 0.15 * rng.choice([-1, 1], (1, 8))
        kept = rng.random(p.shape) < np.linspace(0.3, 1, 8)  # later seeds hold more items
        items, seeds = np.nonzero(kept)
        flips = rng.random(items.size) < p[kept]
        each = components(flips, {"items": items.tolist(), "seeds": seeds.tolist()})
        assert each is not None
        found.append((each.variances["items"], each.variances["seeds"]))
    assert np.mean(found, axis=0) == pytest.approx([0.0625, 0.0225], abs=0.006)


def test_the_half_width_is_the_spread_of_means_over_new_items_and_seeds() -> None:
    rng = np.random.default_rng(4)
    means, widths = [], []
    for _ in range(300):
        p = 0.5 + 0.25 * rng.choice([-1, 1], (40, 1)) + 0.2 * rng.choice([-1, 1], (1, 10))
        flips = rng.random(p.shape) < p
        items, seeds = np.divmod(np.arange(400), 10)
        found = components(flips.ravel(), {"items": items.tolist(), "seeds": seeds.tolist()})
        assert found is not None
        means.append(flips.mean())
        widths.append(found.half_width())
    assert np.mean(widths) == pytest.approx(1.96 * np.std(means), rel=0.1)


def test_twice_as_many_levels_cost_the_same_and_narrow_what_they_cause() -> None:
    rng = np.random.default_rng(9)
    items = table(0.5 + 0.4 * rng.choice([-1, 1], (100, 1)) + np.zeros((1, 8)), rng)
    seeds = table(0.5 + 0.4 * np.tile([-1, 1], 4)[None] + np.zeros((100, 1)), rng)
    assert items.half_width(items=2) < 0.75 * items.half_width()
    assert items.half_width(seeds=2) > 0.95 * items.half_width()
    assert seeds.half_width(seeds=2) < 0.75 * seeds.half_width()
    assert seeds.half_width(items=2) > 0.95 * seeds.half_width()


@pytest.mark.parametrize(
    "factors",
    [
        {"items": "aabb", "seeds": "xxxx"},  # one seed
        {"items": "abcd", "seeds": "xyxy"},  # items cannot be told from the rest
        {"items": "aabb", "seeds": "xxyy"},  # each item has its own seed
    ],
)
def test_designs_that_cannot_tell_factors_apart_give_nothing(factors: dict[str, str]) -> None:
    assert components([0, 1, 1, 0], factors) is None


def test_components_that_come_out_negative_are_0() -> None:
    found = components([0, 1, 1, 0], {"items": "aabb", "seeds": "xyxy"})
    assert found is not None
    assert (found.variances["items"], found.variances["seeds"]) == (0, 0)
    assert found.variances["rest"] > 0
