"""Intervals and tests equal those of scipy and statsmodels (docs/statistics.md names them)."""

import numpy as np
import pytest
from scipy.optimize import brentq, minimize_scalar
from scipy.stats import binomtest, f_oneway, false_discovery_control

from medstress.stats.estimate import benjamini_hochberg, holm, wilson
from medstress.stats.paired import tango
from medstress.stats.shares import design_effect, linearised_effect, mean_size


@pytest.mark.parametrize(("k", "n"), [(0, 7), (1, 40), (37, 82), (199, 200), (250, 500)])
def test_the_interval_of_a_share_is_scipys(k, n):
    ends = binomtest(k, n).proportion_ci(method="wilson")
    assert (wilson(k, n).low, wilson(k, n).high) == pytest.approx((ends.low, ends.high), abs=1e-12)


def test_the_intraclass_correlation_of_the_design_effect_is_that_of_the_analysis_of_variance():
    rng = np.random.default_rng(0)
    for shape in (0.5, 1.0, 4.0):
        sizes = rng.integers(2, 9, 30)
        groups = [rng.random(m) < rng.beta(shape, shape) for m in sizes]
        hits, counts = np.array([float(one.sum()) for one in groups]), sizes.astype(float)
        f, k = float(f_oneway(*groups).statistic), mean_size(counts)
        size = (counts.sum() - k) / (len(counts) - 1)
        icc = min(max((f - 1) / (f - 1 + size), 0.0), 1.0)
        expected = max(1.0, linearised_effect(hits, counts), 1 + (k - 1) * icc)
        assert design_effect(hits, counts) == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize(("b", "c", "n"), [(9, 3, 40), (1, 6, 30), (5, 5, 100), (0, 4, 25)])
def test_the_interval_of_a_paired_difference_inverts_the_score_statistic(b, c, n):
    z = 1.959963984540054

    def excess(x):
        """The squared statistic at x, its nuisance found by maximising the likelihood, less z."""

        def loss(q):  # q of the second kind, q + x of the first
            parts = ((b, q + x), (c, q), (n - b - c, 1 - 2 * q - x))
            return -sum(m * np.log(max(p, 1e-300)) for m, p in parts if m)

        bounds = (max(0.0, -x) + 1e-12, (1 - x) / 2 - 1e-12)
        q = minimize_scalar(loss, bounds=bounds, method="bounded", options={"xatol": 1e-12}).x
        return (b - c - n * x) ** 2 / (n * (2 * q + x - x * x)) - z * z

    at = (b - c) / n
    low, high = tango(b, c, n, z)
    assert low == pytest.approx(brentq(excess, -0.999, at - 1e-9), abs=2e-4)
    assert high == pytest.approx(brentq(excess, at + 1e-9, 0.999), abs=2e-4)


def test_adjusted_p_values_are_those_of_statsmodels_and_scipy():
    from statsmodels.stats.multitest import multipletests  # with pandas: seconds to import

    p = np.random.default_rng(1).random(25) ** 2
    np.testing.assert_allclose(holm(p.tolist()), multipletests(p, method="holm")[1], atol=1e-12)
    np.testing.assert_allclose(
        benjamini_hochberg(p.tolist()), false_discovery_control(p), atol=1e-12
    )
