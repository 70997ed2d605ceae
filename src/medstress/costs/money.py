"""Money before spending: the estimate, the bound, and where `max_usd` stops a run."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medstress.experiment.plan.plan import Prepared
from medstress.experiment.plan.spending import all_prices, usd_of
from medstress.store.earlier_answers import spent_in

_ROOM = 2
"""A proposed limit is so many times the estimate."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Spent:
    """What a whole run is expected to spend."""

    about: float
    """US dollars, estimated; roles included."""
    most: float | None
    """Their bound; None if there is none."""
    if_long: float | None = None
    """What it would be if every written answer were as long as `max_new_tokens` allows; None if its
    length is measured or known."""
    n_queries: float
    """Expected queries of all victims."""
    free: Sequence[str]
    """Victims without a price."""


def money_lines(spent: Spent, prepared: Prepared, folder: Path | None) -> Iterator[str]:
    """Yield a line on the money of a run, and one on where it stops.

    Args:
        spent: what the whole run is expected to spend.
        prepared: the experiment.
        folder: folder of the run; what it has spent so far counts.
    """
    prices = all_prices(prepared.experiment)
    if not prices:
        yield "money: unknown (no victim has price_in and price_out)"
        return
    bound = "no bound" if spent.most is None else f"at most ${_up(spent.most):,.2f} (bound)"
    without = f"; without {', '.join(spent.free)}, which have no price" if spent.free else ""
    long = ""
    if spent.if_long is not None:
        long = f", up to {dollars(spent.if_long)} if every answer takes max_new_tokens"
    yield f"money: about {dollars(spent.about)} (estimate){long}; {bound}{without}"
    so_far = 0.0 if folder is None else usd_of(spent_in(folder), prices)
    yield _limit(spent, prepared.experiment.experiment.max_usd, so_far)


def _limit(spent: Spent, max_usd: float | None, so_far: float) -> str:
    """Say what happens at `max_usd`."""
    already = f", {dollars(so_far)} of it spent already" if so_far else ""
    if max_usd is None:
        proposed = _rounded(max(_ROOM * spent.about, spent.if_long or 0.0))
        until = (
            "nothing stops this" if spent.most is None else "nothing stops this before the bound"
        )
        proposal = f"; --set experiment.max_usd={proposed:g} would" if proposed else ""
        return f"no max_usd: {until}{proposal}"
    stops = f"max_usd stops this at {dollars(max_usd)} (and what is in flight){already}"
    if spent.most is not None and spent.most <= max_usd:
        return f"{stops}; it is not below the bound, so nothing is left out"
    if max_usd >= spent.about:
        perhaps = ""
        if spent.if_long is not None and spent.if_long > max_usd:
            perhaps = ", but long answers would"
        return f"{stops}; the estimate does not reach it{perhaps}"
    share = max_usd / spent.about
    part = f"about {share * 100:.0f} % of the estimate, {share * spent.n_queries:,.0f} of "
    return (
        f"{stops}: after {part}{spent.n_queries:,.0f} queries; the same command with a higher "
        "max_usd goes on from there"
    )


def dollars(usd: float) -> str:
    """Return US dollars as shown: cents count only from one dollar on.

    >>> dollars(12.345), dollars(0.0126), dollars(0.0)
    ('$12.35', '$0.0126', '$0.00')
    """
    return f"${usd:,.4f}" if 0 < usd < 1 else f"${usd:,.2f}"


def _up(usd: float) -> float:
    """Return a bound in whole cents that is not below it."""
    return math.ceil(usd * 100 - 1e-9) / 100


def _rounded(usd: float) -> float:
    """Return an amount to two digits."""
    return float(f"{usd:.2g}")
