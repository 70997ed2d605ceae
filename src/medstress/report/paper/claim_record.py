"""One claim of Xian et al. (2025) as it was tested in one place of a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

from medstress.metrics.claims import MARGIN, Finding, inside
from medstress.metrics.contrasts import Effect
from medstress.metrics.estimates import unknown
from medstress.report.paper.arms import Arm, baseline
from medstress.results.formats import decimal

ALL_VICTIMS = "all victims"
"""Stands for the victim where a claim is about several."""
CHECK = 11
"""Number of the claim that is a check of the run rather than one of the paper's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """One claim in one place: a line of `claims.csv`."""

    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: str
    """Label of the victim, or `all victims`."""
    arms: str
    """Rules of the attacks: `default`, `marked` (variants of the key are asked), or in words."""
    claim: int
    """Number of the claim (docs: figures and recipes)."""
    statement: str
    """The claim."""
    quantity: str
    """What the effect is."""
    budget: int | None
    """Queries an item it is about; None where none in particular."""
    effect: Effect
    """Estimate and p-value."""
    p_adjusted: float | None = None
    """`effect.p`, adjusted by Benjamini-Hochberg over the whole table."""
    verdict: Finding
    """What the interval says."""
    caution: str = ""
    """What a reader must know of this place."""


Judge: TypeAlias = Callable[[Any], Finding]
"""What an interval says of a claim."""

CLOSE: Judge = partial(inside, low=-MARGIN, high=MARGIN)
"""Whether two rates are close to each other."""


def untested(reason: str) -> Effect:
    """An effect that the run does not tell, and why."""
    return Effect(estimate=unknown(reason))


def caution_of(arms: Sequence[Arm]) -> str:
    """What to know of a victim that guesses or cannot be read; nothing of others."""
    clean = baseline(arms)
    if not clean.guesses:
        return clean.unread
    told = (
        f"not above chance (accuracy {decimal(clean.accuracy.value)}, chance "
        f"{decimal(clean.chance)}): ASR cannot be told from guessing"
    )
    return f"{clean.unread}, and the others are {told}" if clean.unread else told
