"""Which stored queries probe the victim, and are never a success."""

from __future__ import annotations

import json

from medstress.store.codec import decode_edits
from medstress.store.reader import RunReader, StoredExchange


class Probes:
    """Finds the queries that probe the victim, for example for the span that matters.

    A trial notes its probes when it ends. Before that, probes of the shipped attacks are recognised
    by their edits, which delete a span.
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
