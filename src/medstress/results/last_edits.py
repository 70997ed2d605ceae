"""The edits that trials asked about, without those that only probe, and the last of them."""

from __future__ import annotations

import json
from collections.abc import Iterable

from medstress.core.rows import TrialRow
from medstress.metrics.counts import is_flipped, success_edits
from medstress.store.codec import decode_edits
from medstress.store.reader import RunReader, StoredExchange


class Probes:
    """Finds the queries that probe the victim, for example for the span that matters.

    A trial notes its probes when it ends. For unfinished trials and those of earlier versions,
    probes of the shipped attacks are recognised by their edits, which delete a span.
    """

    def __init__(self, reader: RunReader) -> None:
        self._noted: set[tuple[int, int]] = set()
        self._deletes: set[int] = set()
        for trial, text, noted in reader.probes():
            self._noted.update((trial, query) for query in noted or ())
            spec = json.loads(text)
            if spec.get("victim_span") == "saliency" or spec.get("word_ranking") == "importance":
                self._deletes.add(trial)

    def holds(self, row: StoredExchange, edits: str | None) -> bool:
        """True if a call belongs to a probe; `edits` are those of its query."""
        if row.purpose != "attack" or row.role != "victim" or row.query is None:
            return False
        return self.marks(row.trial, row.query, edits)

    def marks(self, trial: int, query: int, edits: str | None) -> bool:
        """True if a perturbed query of a trial is a probe; `edits` are its edits."""
        if trial in self._deletes and edits is not None:
            return not any(edit.replacement for edit in decode_edits(edits))
        return (trial, query) in self._noted


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
