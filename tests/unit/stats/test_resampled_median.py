"""Medians of resamples."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.stats.resampling import RESAMPLES, item_weights, resampled_median


@pytest.mark.parametrize("m", [1, 2, 7, 12])
def test_medians_of_resamples_are_those_of_numpy(m: int) -> None:
    values = np.random.default_rng(m).normal(size=m).round(1)
    drawn = [np.median(np.repeat(values, weights)) for weights in item_weights(m)]
    found = resampled_median(values)
    assert found.shape == (RESAMPLES,)
    assert found == pytest.approx(np.array(drawn))
