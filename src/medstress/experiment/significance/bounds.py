"""Upper bounds on what tests ask, known before anything is asked."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.analyses.families import TURNS, Statistic
from medstress.experiment.significance.controls import MAX_DRAWS, MAX_ROUNDS
from medstress.experiment.significance.settings import Settings

TURNS_AT_MOST = 5
"""Calls of a conversation if both confidences and answer have to be repaired."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Upper bounds on conversations, calls and votes; bounds add up with +."""

    n_conversations: int = 0
    """Conversations with victims."""
    n_written: int = 0
    """Controls that the attacker writes, if every reply is readable at once."""
    n_votes: int = 0
    """Votes of judges on controls."""

    def __add__(self, other: Bound) -> Bound:
        return Bound(
            n_conversations=self.n_conversations + other.n_conversations,
            n_written=self.n_written + other.n_written,
            n_votes=self.n_votes + other.n_votes,
        )

    @property
    def in_words(self) -> str:
        """The bounds as text for the user."""
        n = self.n_conversations
        text = (
            f"at most {n:,} conversations with the victims ({TURNS * n:,} calls, "
            f"{TURNS_AT_MOST * n:,} if every reply has to be repaired)"
        )
        if self.n_written:
            text += (
                f", {self.n_written:,} calls to the attacker for controls (up to "
                f"{MAX_ROUNDS * self.n_written:,} if it repeats itself)"
            )
        return f"{text} and {self.n_votes:,} votes of judges" if self.n_votes else text


def bound_of(attempts: int, settings: Settings, *, votes: int = 0) -> Bound:
    """Return the most that the test of one success asks.

    The statistic that estimates T is only known once the victim answers, so the bound holds for
    both. It includes T of the clean item, although successes on one item share it.

    Args:
        attempts: K of the attack.
        settings: settings of the test.
        votes: votes of judges on one control; 0 without a panel.
    """
    bound = Bound()
    for statistic in Statistic:
        cost = settings.cost(attempts, statistic)
        n = settings.plan(cost).most
        if n < 1:
            continue  # nothing is asked if `max_calls` buys no control
        # Without loops, new controls are drawn for those that judges refuse.
        drawn = n * (cost.n_looks or (MAX_DRAWS if votes else 1))
        bound = Bound(
            n_conversations=max(
                bound.n_conversations, n * cost.n_conversations + 2 * statistic.n_samples
            ),
            n_written=max(bound.n_written, drawn if cost.n_texts else 0),
            n_votes=max(bound.n_votes, drawn * votes),
        )
    return bound
