"""What a run has cost: calls, tokens, time and money, by who is paid."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from medstress.analyses.run import Run
from medstress.analyses.shown import Field, Shown, Table, column, label, table
from medstress.store.counts import Price


@dataclass(frozen=True, slots=True, kw_only=True)
class Paid:
    """Computed calls of one model or role."""

    payer: str
    """The model's label, or the role as `role.attacker`."""
    calls: int
    tokens_in: int
    tokens_out: int
    usd: float | None
    """In US dollars, at the prices of the experiment; None without a price."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Performance(Shown):
    """What all processes of a run have used up."""

    wall_seconds: float
    queries_per_second: float | None
    calls: int
    """Computed calls, those ahead that were never consumed included."""
    calls_from_cache: int
    """Answers that another run had bought."""
    tokens_forwarded: int | None
    """Tokens that a local model read, after prefixes were shared; None if nobody counted."""
    tokens_naive: int | None
    """Tokens that it would have read without."""
    usd: float | None
    """Of all that has a price; None without any price."""
    spending: Sequence[Paid]
    title = "Cost"

    def tables(self) -> Sequence[Table]:
        """Calls and tokens by payer."""
        return [table("spending", "Calls and tokens", self.spending, SPENDING)]


class PerformanceOfRun:
    """What a run has cost."""

    name = "performance"

    def compute(self, run: Run) -> Performance:
        """Add up stored calls, and price their tokens."""
        stored: Mapping[str, Any] = run.manifest.get("performance") or {}
        seconds = float(stored.get("wall_seconds") or 0.0)
        asked = sum(trial.queries.asked for trial in run.trials)
        prices = prices_of(run.manifest)
        spending = paid(run, prices)
        return Performance(
            wall_seconds=seconds,
            queries_per_second=asked / seconds if seconds else None,
            calls=sum(one.calls for one in spending),
            calls_from_cache=run.folder.n_from_cache,
            tokens_forwarded=stored.get("tokens_forwarded"),
            tokens_naive=stored.get("tokens_naive"),
            usd=sum(one.usd or 0.0 for one in spending) if prices else None,
            spending=spending,
        )


PERFORMANCE = PerformanceOfRun()
SPENDING: Sequence[Field[Paid]] = (
    column("Paid to", lambda paid: label(paid.payer)),
    column("Calls", lambda paid: paid.calls, "count"),
    column("Tokens in", lambda paid: paid.tokens_in, "count", key="tokens_in"),
    column("Tokens out", lambda paid: paid.tokens_out, "count", key="tokens_out"),
    column("US dollars", lambda paid: paid.usd, "number", key="usd"),
)


def prices_of(manifest: Mapping[str, Any]) -> dict[str, Price]:
    """Return the price of every model and role that has one, by payer."""
    roles = {f"role.{name}": entry for name, entry in (manifest.get("roles") or {}).items()}
    return {
        payer: Price(usd_in=entry["price_in"], usd_out=entry["price_out"])
        for payer, entry in {**manifest["victims"], **roles}.items()
        if entry.get("price_in") is not None
    }


def paid(run: Run, prices: Mapping[str, Price]) -> list[Paid]:
    """Return what each model and role was paid for, over all trials."""
    sums: dict[str, list[int]] = defaultdict(lambda: [0, 0, 0])
    for one in run.folder.spending:
        added = one.n_calls, one.tokens_in, one.tokens_out
        sums[one.payer] = [a + b for a, b in zip(sums[one.payer], added, strict=True)]
    return [
        Paid(
            payer=payer,
            calls=calls,
            tokens_in=tokens_in,
            tokens_out=tokens_out,
            usd=prices[payer].usd(tokens_in, tokens_out) if payer in prices else None,
        )
        for payer, (calls, tokens_in, tokens_out) in sorted(sums.items())
    ]
