"""The result of testing one claim of Xian et al. (2025) in one place of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from medstress.metrics.contrasts import Effect
from medstress.metrics.old_stats.estimates import unknown
from medstress.papers.arms import Arm, baseline
from medstress.papers.claims.verdicts import MARGIN, Finding, inside
from medstress.results.formats import decimal

ALL_VICTIMS = "all victims"
"""Victim label of a claim about several victims."""
CHECK = 11
"""Number of the claim that checks the run; the paper does not make it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimResult:
    """One claim in one place; one line of `claims.csv`."""

    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: str
    """Label of the victim, or `all victims`."""
    arms: str
    """Rules of the attacks: `default`, `marked` (variants of the key are asked), or a list."""
    claim: int
    """Number of the claim (docs: figures and recipes)."""
    statement: str
    """The claim."""
    quantity: str
    """What the effect measures."""
    budget: int | None
    """Queries per item; None if the claim is about no particular budget."""
    effect: Effect
    """Estimate and p-value."""
    p_adjusted: float | None = None
    """`effect.p` after Benjamini-Hochberg adjustment over the whole table."""
    verdict: Finding
    """Whether the interval supports the claim."""
    caution: str = ""
    """A warning about the victim; empty if there is none."""


Judge: TypeAlias = Callable[[Any], Finding]
"""Turns an estimate with its interval into the verdict on a claim."""

CLOSE: Judge = partial(inside, low=-MARGIN, high=MARGIN)
"""Judges whether two rates are close to each other."""


def untested(reason: str) -> Effect:
    """Return an effect without a value, and the reason why it was not tested."""
    return Effect(estimate=unknown(reason))


def caution_of(arms: Sequence[Arm]) -> str:
    """Return a warning if the victim guesses or its answers cannot be read, else ""."""
    clean = baseline(arms)
    if not clean.guesses:
        return clean.unreadable_note
    guessing = (
        f"not above chance (accuracy {decimal(clean.accuracy.value)}, chance "
        f"{decimal(clean.chance)}): ASR cannot be told from guessing"
    )
    return (
        f"{clean.unreadable_note}, and the others are {guessing}"
        if clean.unreadable_note
        else guessing
    )
