"""Means that are no shares, and means for names like these: planted truths and odd inputs."""

import numpy as np
import pytest

from medstress.stats.estimate import quantile
from medstress.stats.paired import difference, difference_of_names, mean, tango
from medstress.stats.resampling import Drawn, bootstrapped, item_mean
from medstress.stats.shares import Numbers

N_ITEMS, N_SEEDS, N_RUNS = 200, 3, 100
ITEMS = np.repeat(np.arange(N_ITEMS), N_SEEDS)[None]


def nets(rng: np.random.Generator, rates: tuple[float, float, float], shared: float) -> Numbers:
    """A's net loss minus B's: flips of A, of B, and of a control of each, in clusters of seeds.

    A seed takes its luck from its item with the probability `shared`.
    """
    size = (4, N_ITEMS, N_SEEDS)
    of_item = np.broadcast_to(rng.random((4, N_ITEMS, 1)), size)
    luck = np.where(rng.random(size) < shared, of_item, rng.random(size))
    limits = np.array([rates[0], rates[1], rates[2], rates[2]])[:, None, None]
    a, b, control_a, control_b = (luck < limits).astype(float)
    return np.asarray(((a - control_a) - (b - control_b)).ravel())


@pytest.mark.parametrize(
    ("rates", "shared"), [((0.05, 0.05, 0.01), 0.6), ((0.01, 0.01, 0.0), 1.0), ((0.3, 0.2, 0), 1.0)]
)
def test_the_interval_covers_planted_nets_and_the_test_keeps_its_size(rates, shared):
    rng = np.random.default_rng(3)
    planted, covered, rejected = rates[0] - rates[1], 0, 0
    for _ in range(N_RUNS):
        shown = mean(nets(rng, rates, shared), ITEMS, 2.0)
        low, high = shown.estimate.low, shown.estimate.high
        assert high is not None
        covered += low <= planted <= high
        rejected += shown.p < 0.05
        assert (shown.p < 0.05) == (not low <= 0 <= high)
    assert covered >= 0.9 * N_RUNS
    assert planted or rejected <= 0.1 * N_RUNS
    assert not planted or rejected > 0.5 * N_RUNS


@pytest.mark.parametrize("n_names", [20])
def test_the_interval_covers_what_other_names_would_show(n_names):
    """Two samplers draw from lists of their own; half of all names are lethal, so nothing differs.

    The item test speaks of the names that were drawn, and so errs far more often than .05.
    """
    rng = np.random.default_rng(n_names)
    missed = missed_by_items = 0
    items = np.arange(N_ITEMS)
    for _ in range(100):
        lethal = rng.random((2, n_names)) < 0.5
        drawn = rng.integers(0, n_names, size=(2, N_ITEMS))
        held = ~np.take_along_axis(lethal, drawn, axis=1)
        names = [frozenset({f"a{a}", f"b{b}"}) for a, b in drawn.T]
        shown = difference_of_names(held[1].astype(float) - held[0], items, names, n_names)
        low, high = shown.estimate.low, shown.estimate.high
        assert high is not None
        assert (shown.p < 0.05) == (not low <= 0 <= high)
        missed += shown.p < 0.05
        missed_by_items += (difference(held[1], held[0], items[None]).p or 1) < 0.05
    assert missed <= 12  # .05 + 3 standard errors
    assert missed >= 1  # as wide as it has to be, and not much wider
    assert missed_by_items >= 12


@pytest.mark.parametrize(
    ("items", "names", "values", "n_names"),
    [
        ([0, 1], ["x", "x"], [1, 0], 1),
        ([0, 1], ["", ""], [1, 0], 0),
        ([0, 0], ["x", "y"], [1, 0], 2),
        ([0, 1], ["x", "y"], [0, 0], 2),
    ],
)
def test_without_two_names_items_or_values_there_is_a_reason(items, names, values, n_names):
    shown = difference_of_names(
        np.array(values, dtype=float),
        np.array(items),
        [frozenset({x} - {""}) for x in names],
        n_names,
    )
    assert (shown.estimate.low, shown.p) == (None, None)
    assert shown.estimate.method


@pytest.mark.parametrize(("n", "level"), [(30, 0.95), (60, 0.9), (500, 0.99)])
def test_where_all_resamples_agree_a_difference_has_tangos_interval(n, level):
    drawn, z = Drawn(n, "documents", (-1.0, 1.0)), quantile(level)
    assert drawn.ends(1.0, level) == pytest.approx(tango(n, 0, n, z), abs=1e-9)
    assert drawn.ends(-1.0, level) == pytest.approx(tango(0, n, n, z), abs=1e-9)
    assert drawn.ends(0.0, level)[1] == pytest.approx(z * z / (n + z * z))
    assert drawn.ends(0.0, level)[0] == -drawn.ends(0.0, level)[1]


@pytest.mark.parametrize("limits", [(-1.0, 1.0), (-2.0, 2.0), (-1.0, 2.0)])
@pytest.mark.parametrize("value", [0.05, -0.05, 0.8])
def test_p_where_all_resamples_agree_is_that_of_the_interval(limits, value):
    drawn = Drawn(40, "documents", limits)
    end = drawn.ends(value, 1 - drawn.p(value))[0 if value > 0 else 1]
    assert end == pytest.approx(0.0, abs=1e-6)
    assert drawn.p(0.0) == 1.0


def test_shares_and_scores_on_which_all_resamples_agree_have_one_rule():
    alike = bootstrapped(1.0, np.ones(2_000), 300, "", Drawn(60, "60 documents", (0.0, 1.0)))
    shown = item_mean(np.ones(60))
    assert (alike.low, alike.high) == (shown.low, shown.high)
    assert alike.n == 300
    # At another level no narrower than the rule makes it.
    for level in (0.95, 0.99, 0.9995):
        low, _ = Drawn(60, "", (0.0, 1.0)).ends(1.0, level)
        assert alike.at(level).low <= low + 1e-12
        assert alike.at(level).low == pytest.approx(low, abs=0.03)
    assert bootstrapped(1.0, np.ones(2_000), 300, "").low is None


@pytest.mark.parametrize("n_seeds", [1, 3, 20])
def test_four_items_lost_in_every_seed_are_four(n_seeds):
    units = np.repeat(np.arange(4), n_seeds)[None]
    held = np.ones(4 * n_seeds, dtype=bool)
    assert difference(held, ~held, units).p == pytest.approx(0.125)
