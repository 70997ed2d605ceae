"""Money: prices, what a run has spent, and the limits that end it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from medstress.calls import Answer, Backend
from medstress.errors import UsageError
from medstress.experiment.config import Experiment, VictimTable
from medstress.experiment.labels import victim_labels
from medstress.experiment.prepared import Prepared
from medstress.experiment.roles import tables_of
from medstress.scheduler.progress import Limits
from medstress.store.run_store import RunStore
from medstress.store.spending import Spending

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """What tokens of a model cost."""

    usd_in: float
    """US dollars for a million tokens read."""
    usd_out: float
    """US dollars for a million tokens written."""

    def usd(self, tokens_in: float, tokens_out: float) -> float:
        """The price of so many tokens."""
        return (tokens_in * self.usd_in + tokens_out * self.usd_out) / MILLION


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a run has used up, over all its processes."""

    n_queries: int
    """Computed calls."""
    n_tokens: int
    """Their tokens."""
    usd: float
    """Their price, at the prices of now; 0 where there is none."""
    seconds: float
    """How long its processes asked, the one that runs left out until it ends."""


def prices_of(tables: Iterable[VictimTable]) -> dict[str, Price]:
    """The price of every victim that has one, by label."""
    tables = list(tables)
    return {
        label: Price(usd_in=table.price_in, usd_out=table.price_out)
        for label, table in zip(victim_labels(tables), tables, strict=True)
        if table.price_in is not None and table.price_out is not None
    }


def all_prices(experiment: Experiment) -> dict[str, Price]:
    """The price of every victim and role that has one, by who pays."""
    roles = {
        f"role.{name}": Price(usd_in=table.price_in, usd_out=table.price_out)
        for name, table in tables_of(experiment.role).items()
        if table.price_in is not None and table.price_out is not None
    }
    return prices_of(experiment.victim) | roles


def check_prices(experiment: Experiment) -> None:
    """Refuse a limit of money that could not be kept.

    Raises:
        UsageError: naming the victim whose price is missing.
    """
    tables = experiment.victim
    if experiment.experiment.max_usd is None:
        return
    prices = prices_of(tables)
    for name, role in tables_of(experiment.role).items():
        if role.backend == "openai" and f"role.{name}" not in all_prices(experiment):
            raise UsageError(
                f"max_usd cannot be kept: [role.{name}] has no price; give price_in and "
                "price_out, US dollars per million tokens (0 where it costs nothing)"
            )
    for label, table in zip(victim_labels(tables), tables, strict=True):
        if label not in prices and (table.backend == "openai" or not prices):
            raise UsageError(
                f"max_usd cannot be kept: victim {label!r} has no price; give price_in and "
                "price_out, US dollars per million tokens (0 where it costs nothing)"
            )


def spent(store: RunStore, prepared: Prepared) -> Spent:
    """What the folder's run has used up so far."""
    n_queries, n_tokens = store.computed_totals()
    prices = all_prices(prepared.experiment)
    # Without a price nothing costs money, and adding up by payer sorts every answer.
    usd = usd_of(store.spending(), prices) if prices else 0.0
    seconds = store.manifest().get("performance", {}).get("wall_seconds", 0.0)
    return Spent(n_queries=n_queries, n_tokens=n_tokens, usd=usd, seconds=seconds)


def usd_of(spending: Iterable[Spending], prices: Mapping[str, Price]) -> float:
    """The money of stored calls; those without a price cost nothing."""
    return sum(
        prices[each.payer].usd(each.tokens_in, each.tokens_out)
        for each in spending
        if each.payer in prices
    )


def limits_of(store: RunStore, prepared: Prepared) -> Limits:
    """When the run has to stop, given what it and the other runs of its command have used up."""
    settings = prepared.experiment.experiment
    so_far, elsewhere = spent(store, prepared), prepared.portion
    prices = all_prices(prepared.experiment)
    # Where a role shares a victim's back end, the victim's price holds while the run goes on.
    backends = {part.label: part.backend for part in prepared.roles}
    backends |= {victim.label: victim.backend for victim in prepared.victims}
    of_backend = {id(backends[label]): prices[label] for label in backends if label in prices}

    def usd(backend: Backend, answer: Answer) -> float:
        price = of_backend.get(id(backend))
        return 0.0 if price is None else price.usd(answer.tokens_in, answer.tokens_out)

    left = (settings.max_seconds or math.inf) - so_far.seconds - elsewhere.seconds
    return Limits(
        until=None if settings.max_seconds is None else prepared.started + left,
        trial_seconds=settings.trial_seconds,
        drain_seconds=prepared.drain_seconds,
        max_queries=settings.max_queries,
        max_tokens=settings.max_tokens,
        max_usd=settings.max_usd,
        n_queries=so_far.n_queries + elsewhere.n_queries,
        n_tokens=so_far.n_tokens + elsewhere.n_tokens,
        n_usd=so_far.usd + elsewhere.usd,
        usd_of=usd,
    )


def describe_spending(
    spending: Iterable[Spending], manifest: Mapping[str, Any]
) -> tuple[float | None, list[dict[str, Any]]]:
    """US dollars in all, None where nothing has a price; and what each victim and role used."""
    known = {
        label: Price(usd_in=each["price_in"], usd_out=each["price_out"])
        for label, each in {
            **manifest.get("victims", {}),
            **{f"role.{name}": each for name, each in manifest.get("roles", {}).items()},
        }.items()
        if each.get("price_in") is not None
    }
    rows: list[dict[str, Any]] = [
        {
            "payer": each.payer,
            "victim": each.victim,
            "calls": each.n_calls,
            "tokens_in": each.tokens_in,
            "tokens_out": each.tokens_out,
            "usd": known[each.payer].usd(each.tokens_in, each.tokens_out)
            if each.payer in known
            else None,
        }
        for each in spending
    ]
    usd = sum((float(row["usd"] or 0.0) for row in rows), 0.0)
    return (usd if known else None), rows
