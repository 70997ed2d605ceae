"""What a reader of a shard, or of a run merged from shards, has to know."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from medstress.results.formats import plural
from medstress.store.shards import SHARDS, shard_of


def shard_lines(manifest: Mapping[str, Any]) -> Iterator[str]:
    """Yield sentences about a shard, or about answers that two shards of a run disagree on."""
    if (shard := shard_of(manifest)) is not None:
        yield (
            f"shard {shard.number} of {shard.of}: all numbers are of this shard's items; tests, "
            "analyses and verdicts are of the merged run (`medstress merge`)"
        )
    if n := manifest.get(SHARDS, {}).get("answered_otherwise", 0):
        yield (
            f"{n} calls were bought by two shards and answered differently, as a model does whose "
            "answers depend on the batch; each trial keeps the answer that it was judged by"
        )

    yield from lost_lines(manifest.get("performance", {}))


def lost_lines(performance: Mapping[str, Any]) -> Iterator[str]:
    """Yield a sentence about calls that were paid again because workers were lost."""
    if n := performance.get("leases_lost", 0):
        yield (
            f"{plural(n, 'lease')} ended with the worker: {performance['calls_lost']:,} to "
            f"{plural(performance['calls_lost_at_most'], 'call')} were paid again, and are in no "
            "other count of calls, tokens or dollars"
        )


def lost_calls(performance: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of lost workers in a run's summary; empty if there are none."""
    names = ("leases_lost", "calls_lost", "calls_lost_at_most")
    return {name: performance[name] for name in names if name in performance}


def bought_twice(manifest: Mapping[str, Any]) -> dict[str, int]:
    """Return the counts of a merged run's summary; empty for other runs."""
    told = manifest.get(SHARDS, {})
    return {name: told[name] for name in ("bought_twice", "answered_otherwise") if name in told}
