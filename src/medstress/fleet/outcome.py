"""What becomes of leased work: said before its first call, and counted at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from medstress.core.words import plural


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How the shards ended."""

    n_done: int
    """Shards that ended with their last trial."""
    n_limited: int
    """Those that a cap of the run ended."""
    n_deaths: int
    """Leases that ended with their worker."""
    n_lost: int
    """Answers known to be lost with them, which were bought again."""
    n_lost_at_most: int
    """The most calls that may have been bought again: what a worker did since it last reported is
    not known."""
    n_keepers: int
    """Keepers that were started in place of one that was gone."""


def outcome_of(overview: Mapping[str, Any], n_keepers: int) -> Outcome:
    """Return how the shards ended.

    Args:
        overview: the keeper's.
        n_keepers: see `Outcome`.
    """
    counts = overview["counts"]
    return Outcome(
        n_done=counts["done"],
        n_limited=counts["limited"] + counts["open"],
        n_deaths=overview["deaths"],
        n_lost=overview["lost"],
        n_lost_at_most=max(overview["lost"], overview["deaths"] * overview["unshipped"]),
        n_keepers=n_keepers,
    )


def lost_counts(outcome: Outcome) -> dict[str, int]:
    """Return what the run keeps of its lost workers."""
    return {
        "leases_lost": outcome.n_deaths,
        "calls_lost": outcome.n_lost,
        "calls_lost_at_most": outcome.n_lost_at_most,
    }


def lost_line(outcome: Outcome) -> str:
    """Return what was paid again because workers were lost."""
    return (
        f"{plural(outcome.n_deaths, 'lease')} ended with the worker: {outcome.n_lost:,} to "
        f"{plural(outcome.n_lost_at_most, 'call')} were paid again, and are in no other count of "
        "calls, tokens or dollars"
    )


def model_line(n_models: int, workers: str, _: int) -> str:
    """Return how models are shared out, and what the loss of a worker costs."""
    return (
        f"{plural(n_models, 'model')} to train among {workers}; if a worker is lost, its model is "
        "trained anew by another"
    )


def promise_line(n_shards: int, ship_every: int, workers: str, n_held: int) -> str:
    """Return what may be paid beyond a cap, and what may be paid twice.

    Args:
        n_shards: into how many parts the plan is cut.
        ship_every: calls after which a shard's ledger travels.
        workers: how many, in words.
        n_held: the most calls of a worker that are in flight.
    """
    return (
        f"{plural(n_shards, 'shard')} among {workers}; max_queries is never exceeded; "
        f"tokens and dollars may be by what is in flight, at most {plural(n_held, 'call')} a "
        f"worker; if a worker is lost, at most {plural(ship_every + n_held, 'call')} "
        "are paid again"
    )
