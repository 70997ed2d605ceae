"""Families of significance tests: adjusted p-values, what can be attained, the histogram."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from medstress.metrics.old_stats.multiplicity import benjamini_hochberg

LEVEL = 0.05
"""A single success is called significant if p is no larger."""
FALSE_DISCOVERY_RATE = 0.10
"""Adjusted p-values up to this are called discoveries."""
N_BINS = 20


class Null(StrEnum):
    """What a control is: an edit that should not work, found in the given way."""

    MATCHED = "matched"
    """The result of the attack's own loop, attempts until an error, with neutral insertions; a
    loop that held counts as easier than anything."""
    NEUTRAL = "neutral"
    """One neutral insertion (the paper's)."""

    @property
    def counts_attacked(self) -> bool:
        """Whether p-values are adjusted over all attacked items, with p = 1 for those that held,
        and not over successes alone: the null must define how an item holds."""
        return self is Null.MATCHED

    @property
    def level_among_successes(self) -> float:
        """The largest share of successes without any effect that reached p <= .05 in simulations.

        See docs/significance.md (validation/medfuzz_test.py). Attacks select hard insertions,
        so a null that does not select its controls in the same way rejects too often if insertions
        differ in how hard they are.
        """
        return 0.42 if self is Null.MATCHED else 0.26

    @property
    def caution(self) -> str:
        """A warning about p-values of this null."""
        of = "holds its level over attacked items; " if self.counts_attacked else ""
        most = self.level_among_successes
        return f"{of}among successes without effect up to {most:.2f} reach p <= {LEVEL:g}"


class Adjust(StrEnum):
    """How p-values are adjusted for the number of tests in their family."""

    BH = "bh"
    """Benjamini and Hochberg: controls the share of false discoveries."""
    HOLM = "holm"
    """Holm: controls the probability of any false discovery."""
    NONE = "none"
    """Not adjusted, as in the paper; results are labelled so."""

    @property
    def level(self) -> float:
        """A p-value adjusted in this way is a discovery if it is no larger than this."""
        return FALSE_DISCOVERY_RATE if self is Adjust.BH else LEVEL

    @property
    def guarantee(self) -> str:
        """The guarantee that the level gives, in words."""
        return {
            Adjust.BH: f"at a false discovery rate of {self.level:g}",
            Adjust.HOLM: f"at a family-wise error rate of {self.level:g}",
            Adjust.NONE: f"at p <= {self.level:g}, not adjusted for the number of tests",
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Attainable:
    """What a family of tests can show at best, known before anything is asked.

    >>> Attainable(n_tested=40, n_family=40, p_min=1 / 31).n_needed
    13
    >>> Attainable(n_tested=40, n_family=40, p_min=1 / 31, method=Adjust.NONE).n_needed
    1
    """

    n_tested: int
    """Successes that are tested."""
    n_family: int
    """Tests in the family; those that are not tested cannot be discoveries."""
    p_min: float
    """Smallest p-value of one test."""
    method: Adjust = Adjust.BH
    """How p-values are adjusted."""
    repeated: bool = False
    """True if texts of controls repeat, so that more controls do not lower `p_min`."""

    @property
    def adjusted(self) -> float:
        """Smallest adjusted p-value; by Benjamini and Hochberg, with all tested ones at `p_min`."""
        return min(1.0, self.p_min * self._factor)

    @property
    def n_needed(self) -> int:
        """How many successes must reach `p_min` for one to be a discovery."""
        if self.method is not Adjust.BH:
            return 1
        return math.ceil(self.p_min * self.n_family / self.method.level - 1e-9)

    @property
    def controls_needed(self) -> int:
        """Controls per success with which a discovery is possible."""
        return math.ceil(self._factor / self.method.level - 1e-9) - 1

    @property
    def _factor(self) -> float:
        if self.method is Adjust.NONE:
            return 1.0
        return self.n_family / (self.n_tested if self.method is Adjust.BH else 1)


def shortfall(best: Attainable, max_calls: Callable[[int], int] | None = None) -> str | None:
    """Return why a family cannot show anything, and what would help; None if it can.

    Args:
        best: what the family can show.
        max_calls: controls -> the `max_calls` that buys them; None if their number is fixed.

    >>> shortfall(Attainable(n_tested=10, n_family=10, p_min=1 / 6))[:56]
    'with 5 controls no adjusted p-value can fall below 0.167'
    """
    if best.adjusted <= best.method.level:
        return None
    needed = best.controls_needed
    n_controls = round(1 / best.p_min) - 1
    different = " different" if best.repeated else ""
    remedy = f"--controls {needed} or more"
    if best.repeated:
        remedy = f"texts for {needed} controls that do not repeat (another `generator`)"
    elif max_calls is not None:
        remedy = f"max_calls = {max_calls(needed)} ({needed} controls a success)"
    return (
        f"with {n_controls}{different} controls no adjusted p-value can fall below "
        f"{best.adjusted:.3g} ({best.n_tested} successes in a family of {best.n_family}), so "
        f"nothing can be found {best.method.guarantee}: it takes {remedy}"
    )


def adjust(p_values: Sequence[float], n_family: int, method: Adjust = Adjust.BH) -> list[float]:
    """Adjust the tested successes' p-values within their family.

    Args:
        p_values: p-values of the tested successes.
        n_family: tests in the family; those that are not tested get p = 1.
        method: Benjamini and Hochberg, Holm, or not at all.

    >>> [round(p, 6) for p in adjust([0.01, 0.02], 4)]
    [0.04, 0.04]
    >>> [round(p, 6) for p in adjust([0.01, 0.02], 4, Adjust.HOLM)]
    [0.04, 0.06]

    References:
        Holm, "A simple sequentially rejective multiple test procedure", 1979.
    """
    if method is Adjust.NONE:
        return list(p_values)
    rest = [1.0] * (n_family - len(p_values))
    if method is Adjust.HOLM:
        return _holm([*p_values, *rest])[: len(p_values)]
    return benjamini_hochberg([*p_values, *rest])[: len(p_values)]


def _holm(p_values: Sequence[float]) -> list[float]:
    """Adjust by Holm: the i-th smallest becomes max over j <= i of (m - j + 1) p_(j), at most 1."""
    m, most, found = len(p_values), 0.0, [0.0] * len(p_values)
    for i, at in enumerate(sorted(range(m), key=p_values.__getitem__)):
        most = max(most, min(1.0, (m - i) * p_values[at]))
        found[at] = most
    return found


def histogram(p_values: Sequence[float]) -> list[int]:
    """Count p-values in `N_BINS` bins of equal width; p = 1 is in the last.

    >>> histogram([0.01, 0.05, 1.0])[:2], histogram([1.0])[-1]
    ([2, 0], 1)
    """
    counts = [0] * N_BINS
    for p in p_values:
        # Bins are closed on the right, so that the first holds what is significant at the level.
        counts[max(math.ceil(p * N_BINS - 1e-9) - 1, 0)] += 1
    return counts
