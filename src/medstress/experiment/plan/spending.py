"""Prices, what a run has used up, and the limits that end it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from medstress.core.calls import Answer, Backend
from medstress.core.errors import UsageError
from medstress.engine.progress import Limits
from medstress.experiment.file.config import LIMITS, Experiment, VictimTable, victim_labels
from medstress.experiment.plan.plan import Prepared, Usage
from medstress.experiment.plan.roles import RolePart, tables_of
from medstress.store.counts import Price, Spending
from medstress.store.run_store import RunStore
from medstress.tasks.victim import Victim


def payers(experiment: Experiment) -> dict[str, VictimTable]:
    """Return the table of every victim, by label, and of every role, by `role.NAME`."""
    tables = experiment.victim
    victims: dict[str, VictimTable] = dict(zip(victim_labels(tables), tables, strict=True))
    return victims | {f"role.{k}": table for k, table in tables_of(experiment.role).items()}


def all_prices(experiment: Experiment) -> dict[str, Price]:
    """Return the price of every victim and role that has one, by payer."""
    return {
        payer: Price(usd_in=table.price_in, usd_out=table.price_out)
        for payer, table in payers(experiment).items()
        if table.price_in is not None and table.price_out is not None
    }


def check_prices(experiment: Experiment) -> None:
    """Check that `max_usd` can be enforced.

    Raises:
        UsageError: a price is missing; names the victim or role.
    """
    if experiment.experiment.max_usd is None:
        return
    prices, roles = all_prices(experiment), {f"role.{name}" for name in tables_of(experiment.role)}
    for payer, table in payers(experiment).items():
        is_role = payer in roles
        is_free = table.backend != "openai" and (is_role or prices.keys() - roles)
        if payer not in prices and not is_free:
            raise UsageError(
                f"max_usd cannot be kept: {f'[{payer}]' if is_role else f'victim {payer!r}'} has "
                "no price; give price_in and price_out, US dollars per million tokens (0 where it "
                "costs nothing)"
            )


def usage_of(store: RunStore, prepared: Prepared) -> Usage:
    """Return what the folder's run has used up so far."""
    n_queries, n_tokens = store.computed_totals()
    prices = all_prices(prepared.experiment)
    # Summing by payer sorts every answer, so it is skipped when nothing has a price.
    usd = usd_of(store.spending(), prices) if prices else 0.0
    seconds = store.manifest().get("performance", {}).get("wall_seconds", 0.0)
    return Usage(n_queries=n_queries, n_tokens=n_tokens, usd=usd, seconds=seconds)


def usd_of(spending: Iterable[Spending], prices: Mapping[str, Price]) -> float:
    """Return the price of stored calls in US dollars; calls without a price cost nothing."""
    return sum(
        prices[each.payer].usd(each.tokens_in, each.tokens_out)
        for each in spending
        if each.payer in prices
    )


def limits_of(store: RunStore, prepared: Prepared) -> Limits:
    """Return when the run must stop, given what it and other runs of the command have used."""
    settings = prepared.experiment.experiment
    so_far, elsewhere = usage_of(store, prepared), prepared.portion.used
    caps = prepared.portion.caps or {name: getattr(settings, name) for name in LIMITS}
    max_seconds = caps.get("max_seconds")
    prices = all_prices(prepared.experiment)
    # Where roles and victims share a back end, the dearest counts during the run.
    own: dict[int, list[Price]] = {}
    asked: list[Victim | RolePart] = [*prepared.victims, *prepared.roles]
    for part in asked:
        own.setdefault(id(part.backend), []).extend(filter(None, [prices.get(part.label)]))

    def usd(backend: Backend, answer: Answer) -> float:
        known = own.get(id(backend), [])
        return max((price.usd(answer.tokens_in, answer.tokens_out) for price in known), default=0.0)

    left = (max_seconds or math.inf) - so_far.seconds - elsewhere.seconds
    return Limits(
        until=None if max_seconds is None else prepared.started + left,
        trial_seconds=settings.trial_seconds or None,
        drain_seconds=prepared.drain_seconds,
        max_queries=caps.get("max_queries"),
        max_tokens=caps.get("max_tokens"),
        max_usd=caps.get("max_usd"),
        n_queries=so_far.n_queries + elsewhere.n_queries,
        n_tokens=so_far.n_tokens + elsewhere.n_tokens,
        n_usd=so_far.usd + elsewhere.usd,
        usd_of=usd,
    )


def reached(store: RunStore, prepared: Prepared) -> list[str]:
    """Return the limits that a folder has used up, of a shard its parts; if none is used up to the
    end, because what is left does not hold a query, those that it has."""
    used, caps = usage_of(store, prepared), prepared.portion.caps
    if caps is None:
        return []
    spent = {
        "max_queries": used.n_queries,
        "max_tokens": used.n_tokens,
        "max_usd": used.usd,
        "max_seconds": used.seconds,
    }
    return [name for name, cap in caps.items() if spent[name] >= cap] or list(caps)
