"""What a run says of itself beside its verdict, in print and in a notebook."""

from __future__ import annotations

from collections.abc import Iterator

from medstress.report.criteria import verdict
from medstress.report.overview import failure_lines, n_failed, state
from medstress.report.section import Source
from medstress.results.formats import plural


def told(source: Source) -> Iterator[str]:
    """Yield whether criteria are met, whether the run is complete, and what failed."""
    if judged := verdict(source.keyed):
        yield judged
    yield state(source.keyed)
    failed, allowed = n_failed(source.keyed), source.manifest["config"]["experiment"]["max_failed"]
    if failed > allowed:
        yield (
            f"{plural(failed, 'trial')} failed (max_failed = {allowed}), so the numbers do not "
            "count: mend the cause, then run the same again with retry_failed=True."
        )
    yield from failure_lines(source.keyed_trials, source.keyed)
