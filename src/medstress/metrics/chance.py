"""The accuracy of guessing, and whether a victim is better."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean
from typing import Any

from scipy.stats import binomtest

from medstress.core.rows import TrialRow
from medstress.metrics.counts import (
    clean_items,
    first_of_each_item,
    is_answered,
    is_eligible,
    is_readable,
)
from medstress.metrics.old_stats.estimates import wilson_ends

_MOST_OF_ONE_LETTER = 10
_METHOD = "exact binomial test against chance, greater; each item once"
_AT_WORST = f"{_METHOD}, failed answers as wrong"


def chance_level(items: Sequence[tuple[int, str]]) -> float | None:
    """Return the better of two ways to guess: at random, or always the commonest letter.

    chance = max(mean of 1/options, share of the most frequent key letter). The second is
    measured on the same items, so on few items it is high: the test is then conservative.

    Args:
        items: number of options and letter of the key, for each distinct item.

    Returns:
        A probability in [0, 1]; None without items or if they have no options (entities, pairs).

    >>> chance_level([(4, "A"), (4, "B"), (4, "C"), (4, "D")])
    0.25
    >>> chance_level([(4, "A"), (4, "A"), (4, "A"), (4, "D")])
    0.75
    """
    if not items or any(n_options == 0 for n_options, _ in items):
        return None
    at_random = fmean(1 / n_options for n_options, _ in items)
    commonest = max(Counter(key for _, key in items).values()) / len(items)
    return max(at_random, commonest)


def is_too_few(n: int, level: float) -> bool:
    """Return whether so few items would not tell a victim from guessing even if all were right.

    Where all keys are one letter, no number of items would; then fewer than ten are too few.

    >>> is_too_few(2, 0.5), is_too_few(20, 0.5), is_too_few(1, 1.0), is_too_few(50, 1.0)
    (True, False, True, False)
    """
    if level >= 1:
        return n < _MOST_OF_ONE_LETTER
    return wilson_ends(n, n)[0] <= level


def is_by_letter(trials: Sequence[TrialRow]) -> bool:
    """Return True if `chance_of` is that of always answering the commonest letter of the key."""
    level = chance_of(trials)
    items = first_of_each_item(filter(is_answered, trials))
    return level is not None and level > fmean(1 / row.n_options for row in items)


def chance_of(trials: Sequence[TrialRow]) -> float | None:
    """Return the chance level over the items that accuracy is measured on."""
    items = first_of_each_item(filter(is_answered, trials))
    return chance_level([(row.n_options, row.key) for row in items])


def binomial_above(k: int, n: int, level: float | None) -> float | None:
    """Return P(at least k right of n | each right with probability `level`).

    None if there is nothing to test.

    >>> binomial_above(2, 2, 0.5)
    0.25
    """
    if n == 0 or level is None:
        return None
    return float(binomtest(k, n, level, alternative="greater").pvalue)


def above_chance(trials: Sequence[TrialRow]) -> dict[str, Any]:
    """Test whether the clean items are answered better than by chance.

    Each item enters once, with its first seed: the clean answer does not depend on the seed.
    Unreadable and failed answers count at their worst, as not right. If all are unreadable,
    nothing is tested, because none of them is a guess.

    Returns:
        `p`, the one-sided exact p-value (None without readable answers), and `method`.
    """
    items = clean_items(trials)
    if not any(map(is_readable, items)):
        return {"p": None, "method": _METHOD}
    p = binomial_above(sum(map(is_eligible, items)), len(items), chance_of(trials))
    return {"p": p, "method": _METHOD if all(map(is_answered, items)) else _AT_WORST}
