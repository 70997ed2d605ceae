"""Agreement against published examples, and where chance alone explains it."""

import numpy as np
import pytest

from medstress.stats.agreement import MISSING, agreement


def test_krippendorffs_alpha_with_gaps():
    # Krippendorff, "Computing Krippendorff's alpha-reliability", 2011, example C: nominal .743.
    gap = MISSING
    coders = [
        (1, 2, 3, 3, 2, 1, 4, 1, 2, gap, gap, gap),
        (1, 2, 3, 3, 2, 2, 4, 1, 2, 5, gap, 3),
        (gap, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, gap),
        (1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, gap),
    ]
    ratings = [tuple(units) for units in zip(*coders, strict=True)]
    assert agreement(ratings, range(12)).krippendorff.value == pytest.approx(0.743, abs=5e-4)


def test_raters_who_always_say_the_same_have_no_coefficient():
    found = agreement([(0, 0)] * 9, range(9))
    assert found.raw.value == 1.0
    assert found.krippendorff.value is None


def test_independent_raters_agree_by_chance_alone():
    rng = np.random.default_rng(0)
    ratings = [(int(a), int(b)) for a, b in rng.random((400, 2)) < 0.8]
    found = agreement(ratings, range(400))
    assert found.raw.value > 0.6
    assert found.krippendorff.low < 0 < found.krippendorff.high


def test_cases_of_one_item_are_drawn_together():
    ratings = [(0, 0), (0, 1), (1, 1), (1, 1), (0, 0), (1, 0)] * 4
    apart = agreement(ratings, range(24)).krippendorff
    together = agreement(ratings, [i // 6 for i in range(24)]).krippendorff
    assert apart.value == together.value
    # Four items that look alike say nothing of other items.
    assert together.low is None
    assert apart.low is not None
