"""Verdicts of planted tables, one for each."""

from __future__ import annotations

import pytest

from medstress.metrics.old_stats.power import detectable
from medstress.metrics.old_stats.verdicts import (
    BETTER,
    DIFFERENT_BUT_WITHIN,
    EQUIVALENT,
    NO_WORSE,
    UNDECIDED,
    WORSE,
    judge,
)


def pairs(b: int, c: int, n: int, seeds: int = 1):
    """n items, of which b only the first hits and c only the second, alike under every seed."""
    return [(f"q{i}", i < b, i >= n - c) for i in range(n) for _ in range(seeds)]


@pytest.mark.parametrize(
    ("b", "c", "n", "margin", "verdict"),
    [
        (30, 8, 200, None, BETTER),
        (8, 30, 200, None, WORSE),
        (8, 30, 200, 0.05, WORSE),
        (20, 18, 200, None, UNDECIDED),
        (20, 18, 200, 0.02, UNDECIDED),
        (20, 18, 200, 0.1, EQUIVALENT),
        (22, 12, 200, 0.05, NO_WORSE),
        (30, 8, 200, 0.2, DIFFERENT_BUT_WITHIN),
        (8, 30, 200, 0.2, DIFFERENT_BUT_WITHIN),
        (0, 0, 200, None, UNDECIDED),
        (0, 0, 200, 0.05, EQUIVALENT),
    ],
)
def test_each_verdict_has_its_table(
    b: int, c: int, n: int, margin: float | None, verdict: str
) -> None:
    found = judge(pairs(b, c, n), margin)
    assert found.verdict == verdict
    low, high = found.estimate.low or 0, found.estimate.high or 0
    assert found.interval90 is not None
    assert low < found.interval90[0] < found.interval90[1] < high
    assert ((found.p or 1) < 0.05) == (low > 0 or high < 0)


def test_repeating_every_pair_under_five_seeds_changes_no_verdict() -> None:
    """By pairs alone 5 x (12 against 5) of 40 would be better (p < .001)."""
    alone, fivefold = judge(pairs(12, 5, 40), None), judge(pairs(12, 5, 40, seeds=5), None)
    assert alone.verdict == fivefold.verdict == UNDECIDED
    assert fivefold.estimate.n == 200
    assert fivefold.smallest_effect == pytest.approx(alone.smallest_effect, rel=0.05)


def test_the_smallest_effect_is_what_the_pairs_detect_at_their_discordance() -> None:
    found = judge(pairs(20, 10, 200), None)
    assert found.smallest_effect == pytest.approx(detectable(200, 0.15), rel=0.02)


def test_without_a_pair_there_is_no_verdict_but_a_reason() -> None:
    found = judge([], 0.05)
    assert (found.verdict, found.p, found.interval90, found.smallest_effect) == (None,) * 4
    assert found.estimate.value is None
    assert found.estimate.method == "no pair"


@pytest.mark.parametrize("margin", [0.0, -0.1, 1.0, float("nan")])
def test_a_margin_outside_0_to_1_is_refused(margin: float) -> None:
    with pytest.raises(ValueError, match="margin between 0 and 1"):
        judge(pairs(3, 1, 10), margin)
