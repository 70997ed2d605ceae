"""Which successes are asked again, alone in their batch."""

from __future__ import annotations

from typing import Literal, TypeAlias

from medstress.core.hashing import content_hash
from medstress.core.outcomes import Prediction

FlipChecks: TypeAlias = bool | Literal["sample"]
"""Of all successes, of none, or of a random share and all near the margin."""
SHARE = 0.2
"""Share of all trials whose success `sample` asks again, whatever its margin."""


def in_sample(trial: str) -> bool:
    """Whether a trial is in the random share, decided by the hash that is its id.

    >>> 0.15 < sum(in_sample(str(n)) for n in range(1000)) / 1000 < 0.25
    True
    """
    return int(content_hash(["flip check", trial])[-8:], 16) < SHARE * 16**8


def margin_of(answer: Prediction) -> float | None:
    """Return log P(best) minus log P(second best option); None without scores.

    An answer with one score, such as a similarity, has none.
    """
    if answer.scores is None or len(answer.scores) < 2:
        return None
    best, second = sorted(answer.scores, reverse=True)[:2]
    return best - second


def is_checked(checks: FlipChecks, trial: str, answer: Prediction | None, near: float) -> bool:
    """Whether a trial's success is asked again.

    Args:
        checks: the setting of the run.
        trial: the trial's id.
        answer: the answer that was a success.
        near: the largest margin, in nats, at which `sample` asks every success again.
    """
    if checks != "sample":
        return checks
    margin = None if answer is None else margin_of(answer)
    return in_sample(trial) or (margin is not None and margin <= near)
