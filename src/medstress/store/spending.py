"""Computed calls and tokens by victim and role: the basis of all costs."""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass

from medstress.core.calls import FROM_CACHE

MILLION = 1_000_000
VICTIM = "victim"
_SPENDING = f"""
SELECT COALESCE(o.role, '{VICTIM}'), a.victim, COUNT(*), TOTAL(s.tokens_in), TOTAL(s.tokens_out),
       TOTAL(s.seconds)
FROM answers s
LEFT JOIN (SELECT DISTINCT key, role FROM calls WHERE role != '{VICTIM}') o ON o.key = s.key
JOIN trials t ON t.id = s.trial JOIN arms a ON a.id = t.arm
GROUP BY 1, 2 ORDER BY 1, 2
"""

_TOTALS = "SELECT COUNT(*), TOTAL(tokens_in), TOTAL(tokens_out) FROM answers WHERE trial > ?"


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """The price of a model's tokens."""

    usd_in: float
    """US dollars per million tokens read."""
    usd_out: float
    """US dollars per million tokens written."""

    def usd(self, tokens_in: float, tokens_out: float) -> float:
        """Return the price of these tokens in US dollars.

        >>> Price(usd_in=1.0, usd_out=4.0).usd(1_000_000, 500_000)
        3.0
        """
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Spending:
    """Computed calls of one victim, or of one role in the trials against it."""

    role: str
    """`victim`, or a role such as `attacker`."""
    victim: str
    """Label of the victim."""
    n_calls: int
    """Computed answers, including calls ahead that were never consumed."""
    tokens_in: int
    """Tokens read."""
    tokens_out: int
    """Tokens written."""
    seconds: float
    """Seconds that workers spent on them."""

    @property
    def payer(self) -> str:
        """Whose price applies: the victim's label, or the role."""
        return self.victim if self.role == VICTIM else f"role.{self.role}"


def read_spending(db: sqlite3.Connection) -> list[Spending]:
    """Return everything that a run has computed, over all its processes.

    A role's answer that no trial has consumed yet counts as the victim's.
    """
    return [
        Spending(
            role=role,
            victim=victim,
            n_calls=n,
            tokens_in=int(tokens_in),
            tokens_out=int(tokens_out),
            seconds=seconds,
        )
        for role, victim, n, tokens_in, tokens_out, seconds in db.execute(_SPENDING)
    ]


def read_totals(db: sqlite3.Connection) -> tuple[int, int, int]:
    """Return the numbers of computed calls, and of tokens that they read and wrote."""
    calls, tokens_in, tokens_out = db.execute(_TOTALS, (FROM_CACHE,)).fetchone()
    return int(calls), int(tokens_in), int(tokens_out)
