"""Means of items of one document, against what was planted."""

from __future__ import annotations

import numpy as np
import pytest

from medstress.stats.resampling import item_mean


@pytest.mark.release
def test_means_by_document_cover_what_is_planted() -> None:
    # 60 documents of 1 to 9 items; what a document adds to all of its items is drawn once.
    rng = np.random.default_rng(3)
    n, by_document, by_item = 200, 0, 0
    for _ in range(n):
        units = np.repeat(np.arange(60), rng.integers(1, 10, 60))
        values = np.clip(
            0.5 + rng.normal(0, 0.15, 60)[units] + rng.normal(0, 0.1, len(units)), 0, 1
        )
        one, other = item_mean(values, 0.0, units), item_mean(values, 0.0)
        by_document += one.low <= 0.5 <= one.high
        by_item += other.low <= 0.5 <= other.high
    assert by_document / n >= 0.93 - 3 * np.sqrt(0.93 * 0.07 / n)
    assert by_item / n < 0.8
