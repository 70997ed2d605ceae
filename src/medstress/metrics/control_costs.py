"""What the controls of a significance test cost in calls, and how many `max_calls` buys."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.metrics.hardness import Statistic
from medstress.metrics.significance import Null

TURNS = 3
"""Calls of one conversation with a victim: reasoning, confidences, answer. A reply that cannot be
read is asked for once more, which comes on top."""
MAX_CALLS = 2_000
"""Calls of one success, unless the user says otherwise."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlCost:
    """The most that one control takes."""

    n_looks: int
    """Conversations until the control is found: attempts of its loop; 0 where there is none."""
    n_texts: int
    """Texts that a role writes for it; 0 with the lexicon."""
    statistic: Statistic
    """What T is estimated by."""

    @property
    def n_conversations(self) -> int:
        """With the victim: the attempts, and the fresh samples of T."""
        return self.n_looks + self.statistic.n_samples

    @property
    def of_t(self) -> int:
        """t: calls of one T."""
        return TURNS * self.statistic.n_samples

    @property
    def n_calls(self) -> int:
        """With the victim and the role that writes, K (3 + g) + t for a loop."""
        return TURNS * self.n_conversations + self.n_texts

    def bought(self, max_calls: int) -> int:
        """Controls that a success can have: N = floor((max_calls - t) / (K (3 + g) + t)).

        T of the success comes off first. T of the clean item is asked once for all successes on
        it and comes on top.

        >>> cost_of(Null.MATCHED, 5, Statistic.KEY_PROBABILITY).bought(2_000)
        66
        >>> cost_of(Null.MATCHED, 5, Statistic.KEY_PROBABILITY, written=True).bought(2_000)
        56
        >>> cost_of(Null.MATCHED, 5, Statistic.SHARE_CORRECT).bought(2_000)
        25
        """
        return max(0, (max_calls - self.of_t) // self.n_calls)

    def needed(self, n_controls: int) -> int:
        """The `max_calls` that buys so many controls."""
        return n_controls * self.n_calls + self.of_t

    def too_dear(self, max_calls: int) -> str:
        """Why `max_calls` buys no control, where it buys none.

        >>> cost_of(Null.NEUTRAL, 5, Statistic.KEY_PROBABILITY).too_dear(10)[:39]
        'max_calls = 10 buys no control: one tak'
        """
        return (
            f"max_calls = {max_calls} buys no control: one takes up to {self.n_calls} calls and T "
            f"of the success {self.of_t}, so give at least {self.needed(1)}"
        )


def cost_of(
    null: Null, attempts: int, statistic: Statistic, *, written: bool = False, used: int = 1
) -> ControlCost:
    """The most that one control of a null takes.

    Args:
        null: what a control is.
        attempts: of a loop: K of the attack, times the loops of a control.
        statistic: what T is estimated by.
        written: whether a role writes neutral insertions.
        used: attempts of the attack until its success, for `best_of_k`.
    """
    if null in (Null.MATCHED, Null.FLIPPED):
        n_looks = n_texts = attempts
    elif null is Null.BEST_OF_K:
        n_looks = n_texts = used
    else:
        n_looks, n_texts = 0, 1
    is_written = null is Null.PARAPHRASE or (written and null is not Null.SCRAMBLED)
    return ControlCost(n_looks=n_looks, n_texts=n_texts if is_written else 0, statistic=statistic)
