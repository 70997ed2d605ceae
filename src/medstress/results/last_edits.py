"""The edits that an analysis looks at: of a success, else of what was asked last."""

from __future__ import annotations

from collections.abc import Iterable

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_flipped, success_edits
from medstress.results.export import Probes
from medstress.store.reader import RunReader


def last_edits(reader: RunReader, trials: Iterable[TrialRow]) -> dict[str, str]:
    """Return trial id -> edits, as JSON: of the first success, else of the last query asked."""
    wanted = {row.trial_id: success_edits(row) for row in trials if is_flipped(row)}
    others = {row.trial_id for row in trials} - wanted.keys()
    if others:
        names = {row: name for row, (name, _) in reader.trial_numbers().items() if name in others}
        probes = Probes(reader)
        for trial, query, edits in reader.attack_edits():
            if trial in names and not probes.marks(trial, query, edits):
                wanted[names[trial]] = edits
    return wanted
