"""The nightly gate from Python."""

from __future__ import annotations

from pathlib import Path

from medstress.api.checked import checked
from medstress.api.results import Run
from medstress.comparison.gate_file import locked, read_series, write_series
from medstress.comparison.nightly import Gate, feed_night
from medstress.comparison.runs import run_digest, side_of
from medstress.core.errors import UsageError
from medstress.results.load import open_run


@checked
def nightly(
    baseline: str | Path | Run,
    tonight: str | Path | Run,
    state: str | Path,
    *,
    margin: float = 0.0,
    afresh: bool = False,
) -> Gate:
    """Feed tonight's run to a gate that may be asked every night.

    However many nights there are, builds that are not behind the baseline raise an alarm with
    probability 1/20 at most (docs: nightly).

    Args:
        baseline: the run folder of the baseline.
        tonight: the run folder of tonight's build.
        state: the file that remembers the series; one that does not exist begins a series.
        margin: how far behind does not matter, in [0, 1); the same in every night.
        afresh: True if both victims were sampled anew tonight, so that every item may be bet on
            again; checked as far as the runs show it.

    Returns:
        The night: `night`, `e`, `alarm`, `sentence`, `as_json()`.

    Raises:
        UsageError, StoreError: one sentence; the state stays as it was.
    """
    folders = [each.folder if isinstance(each, Run) else Path(each) for each in (baseline, tonight)]
    if folders[0].resolve() == folders[1].resolve():
        raise UsageError(f"{folders[0]} is given twice: give tonight's run as B")
    path = Path(state)
    with locked(path):
        series = read_series(path)
        with open_run(folders[0]) as one, open_run(folders[1]) as other:
            gate = feed_night(
                series,
                side_of("A", one),
                side_of("B", other),
                margin,
                digests=(run_digest(one), run_digest(other)),
                is_afresh=afresh,
                from_cache=(one.n_from_cache(), other.n_from_cache()),
            )
        write_series(path, gate.series)
    return gate
