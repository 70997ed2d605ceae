"""The most that tests can ask, known before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.experiment.significance.panel import MAX_ROUNDS
from medstress.experiment.significance.settings import Settings
from medstress.experiment.significance.writer import MAX_ROUNDS as TIMES_ASKED
from medstress.metrics.control_costs import TURNS
from medstress.metrics.hardness import Statistic

TURNS_AT_MOST = 5
"""Calls of a conversation whose confidences and answer both have to be repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """The most of everything; sums up with +."""

    n_conversations: int = 0
    """With victims."""
    n_written: int = 0
    """Replies of the attacker that hold a control, each read at once."""
    n_votes: int = 0
    """Of judges on controls."""

    def __add__(self, other: Bound) -> Bound:
        return Bound(
            n_conversations=self.n_conversations + other.n_conversations,
            n_written=self.n_written + other.n_written,
            n_votes=self.n_votes + other.n_votes,
        )

    @property
    def told(self) -> str:
        """In words."""
        n = self.n_conversations
        told = (
            f"at most {n:,} conversations with the victims ({TURNS * n:,} calls, "
            f"{TURNS_AT_MOST * n:,} where every reply has to be repaired)"
        )
        if self.n_written:
            told += (
                f", {self.n_written:,} calls to the attacker for controls (up to "
                f"{TIMES_ASKED * self.n_written:,} where it repeats itself)"
            )
        return f"{told} and {self.n_votes:,} votes of judges" if self.n_votes else told


def bound_of(attempts: int, used: int, settings: Settings, *, votes: int = 0) -> Bound:
    """The most that the test of one success asks.

    What estimates T is known once the victim answers, so the bound holds for all three
    statistics. T of the clean item is in it, though successes on one item share it.

    Args:
        attempts: K of the attack.
        used: attempts until its success.
        settings: of the test.
        votes: of judges on one control; 0 where no panel votes.
    """
    found = Bound()
    for statistic in Statistic:
        cost = settings.cost(attempts, used, statistic)
        n = settings.plan(cost).most
        if n < 1:
            continue  # nothing is asked where `max_calls` buys no control
        # Where there is no loop, further controls are drawn for those that judges refuse.
        drawn = n * (cost.n_looks or (MAX_ROUNDS if votes else 1))
        found = Bound(
            n_conversations=max(
                found.n_conversations, n * cost.n_conversations + 2 * statistic.n_samples
            ),
            n_written=max(found.n_written, drawn if cost.n_texts else 0),
            n_votes=max(found.n_votes, drawn * votes),
        )
    return found
