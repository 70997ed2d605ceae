"""Answers of the run's own ledger and, where runs share them, of others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from medstress.calls import FROM_CACHE, Answer, Failure, ModelIdentity, Reply
from medstress.scheduler.lane import Batch
from medstress.scheduler.ledger import Ledger


class SharedAnswers(Protocol):
    """Answers of other runs; see `medstress.store.shared_cache`."""

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Kept answers."""

    def keep(self, model: ModelIdentity, answers: Mapping[bytes, Answer], seconds: float) -> None:
        """Keep computed answers, each of which took so long."""


class KnownAnswers:
    """Looks where an answer may be already.

    Args:
        ledger: of this run.
        shared: of other runs; None where they share nothing.
    """

    def __init__(self, ledger: Ledger, shared: SharedAnswers | None) -> None:
        self._ledger = ledger
        self._shared = shared

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Reply]:
        """Answers of those keys that have one; what other runs had is copied into this one."""
        found: dict[bytes, Reply] = dict(self._ledger.lookup(keys))
        missing = [key for key in keys if key not in found]
        if self._shared is not None and missing:
            taken = self._shared.lookup(missing)
            if taken:
                # Copied, so that the run can be read and resumed without the cache; committed, as
                # computed ones are, before an attack is stepped on them.
                self._ledger.answered((key, FROM_CACHE, taken[key], 0.0) for key in taken)
                self._ledger.commit()
            found |= taken
        return found

    def keep(self, model: ModelIdentity, batch: Batch, replies: Sequence[Reply]) -> None:
        """Keep what was computed for other runs; never a failure."""
        if self._shared is None:
            return
        computed = {
            entry.key: reply
            for entry, reply in zip(batch.entries, replies, strict=True)
            if not isinstance(reply, Failure)
        }
        self._shared.keep(model, computed, batch.seconds / len(batch.entries))
