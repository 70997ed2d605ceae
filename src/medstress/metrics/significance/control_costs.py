"""The cost of a significance test's controls in calls, and how many `max_calls` buys."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.metrics.significance.families import Null
from medstress.metrics.significance.hardness import Statistic

TURNS = 3
"""Calls of one conversation with a victim: reasoning, confidences, answer. An unreadable reply is
asked for once more, which is not counted here."""
MAX_CALLS = 2_000
"""Default of the most calls per success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCost:
    """The most that one control costs."""

    n_looks: int
    """Conversations until the control is found: attempts of its loop; 0 without a loop."""
    n_texts: int
    """Texts that a role writes for it; 0 with the lexicon."""
    statistic: Statistic
    """The statistic that estimates T."""

    @property
    def n_conversations(self) -> int:
        """Conversations with the victim: the attempts, and the fresh samples of T."""
        return self.n_looks + self.statistic.n_samples

    @property
    def of_t(self) -> int:
        """t: calls that estimate one T."""
        return TURNS * self.statistic.n_samples

    @property
    def n_calls(self) -> int:
        """Calls to the victim and to the role that writes: K (3 + g) + t for a loop."""
        return TURNS * self.n_conversations + self.n_texts

    def bought(self, max_calls: int) -> int:
        """Return the controls that a success can have: floor((max_calls - t) / (K (3 + g) + t)).

        T of the success is paid first. T of the clean item is shared by all successes on it and
        is not included.

        >>> cost_of(Null.MATCHED, 5, Statistic.KEY_PROBABILITY).bought(2_000)
        66
        >>> cost_of(Null.MATCHED, 5, Statistic.KEY_PROBABILITY, written=True).bought(2_000)
        56
        >>> cost_of(Null.MATCHED, 5, Statistic.SHARE_CORRECT).bought(2_000)
        25
        """
        return max(0, (max_calls - self.of_t) // self.n_calls)

    def needed(self, n_controls: int) -> int:
        """Return the `max_calls` that buys this many controls."""
        return n_controls * self.n_calls + self.of_t

    def too_dear(self, max_calls: int) -> str:
        """Return why `max_calls` buys no control.

        >>> cost_of(Null.NEUTRAL, 5, Statistic.KEY_PROBABILITY).too_dear(10)[:39]
        'max_calls = 10 buys no control: one tak'
        """
        return (
            f"max_calls = {max_calls} buys no control: one takes up to {self.n_calls} calls and T "
            f"of the success {self.of_t}, so give at least {self.needed(1)}"
        )


def cost_of(
    null: Null, attempts: int, statistic: Statistic, *, written: bool = False
) -> ControlCost:
    """Return the most that one control of a null costs.

    Args:
        null: the null, which says what a control is.
        attempts: attempts of a loop: K of the attack.
        statistic: the statistic that estimates T.
        written: True if a role writes neutral insertions.
    """
    n_looks, n_texts = (attempts, attempts) if null is Null.MATCHED else (0, 1)
    return ControlCost(n_looks=n_looks, n_texts=n_texts if written else 0, statistic=statistic)
