"""The verdict of a comparison: what holds however failed answers would have ended."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from medstress.metrics.old_stats.verdicts import (
    BETTER,
    DIFFERENT_BUT_WITHIN,
    EQUIVALENT,
    NO_WORSE,
    UNDECIDED,
    WORSE,
)

LEVEL = 0.05
"""What an adjusted p-value has to lie below for *better* and *worse*."""
NOTHING = "nothing to compare"
"""The verdict without a pair."""
FAIL: Final = "fail"
"""What an undecided comparison does to the exit code, if it does not pass."""

_DIFFERS = frozenset({BETTER, WORSE})


def claims_of(verdict: str | None, value: float | None) -> frozenset[str]:
    """Return everything that a verdict of `judge` says, strongest and weakest alike.

    >>> sorted(claims_of("different but within it", -0.01))
    ['equivalent within the margin', 'no worse than the margin', 'worse']
    """
    if verdict is None or verdict == UNDECIDED:
        return frozenset()
    if verdict == DIFFERENT_BUT_WITHIN:
        return frozenset({EQUIVALENT, NO_WORSE, WORSE if (value or 0.0) < 0 else BETTER})
    if verdict in (BETTER, EQUIVALENT):
        return frozenset({verdict, NO_WORSE})
    return frozenset({verdict})


def verdict_of(claims: Sequence[frozenset[str]], p_adjusted: float | None) -> str:
    """Return the strongest verdict that every way to settle failed answers allows.

    *Better* and *worse* also need an adjusted p-value below .05. Equivalence and *no worse* need
    no adjustment: where a decision rests on several rows, all of them have to show it.

    Args:
        claims: `claims_of` the pairs as read, settled for A, and settled for B.
        p_adjusted: the p-value, adjusted over the family.

    >>> verdict_of([frozenset({"worse"})], 0.2)
    'undecided'
    """
    if not claims:
        return NOTHING
    held = frozenset.intersection(*claims)
    if p_adjusted is None or p_adjusted >= LEVEL:
        held -= _DIFFERS
    if held & _DIFFERS:
        (differs,) = held & _DIFFERS
        return DIFFERENT_BUT_WITHIN if EQUIVALENT in held else differs
    return next((each for each in (EQUIVALENT, NO_WORSE) if each in held), UNDECIDED)


def fails(verdict: str, margin: float | None, on_undecided: str) -> bool:
    """Return True if a row's verdict is one to stop at (exit code 3).

    Without a margin only *worse* is. With one, everything that does not show B to be no worse
    than the margin; `on_undecided = "pass"` lets undecided through.
    """
    if verdict == WORSE or margin is None:
        return verdict == WORSE
    if verdict in (UNDECIDED, NOTHING):
        return on_undecided == FAIL
    return False


def worst(verdicts: Sequence[str]) -> str:
    """Return the verdict of all rows together: the one that a decision has to heed.

    >>> worst(["better", "undecided"]), worst(["better", "worse"])
    ('undecided', 'worse')
    """
    order = (WORSE, NOTHING, UNDECIDED, NO_WORSE, DIFFERENT_BUT_WITHIN, EQUIVALENT, BETTER)
    return next((each for each in order if each in verdicts), NOTHING)
