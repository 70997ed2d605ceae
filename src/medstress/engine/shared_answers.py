"""Look up answers in the run's own ledger and in the cache that runs share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from medstress.core.calls import FROM_CACHE, Answer, Failure, ModelIdentity, Reply
from medstress.engine.backend_queue import Batch
from medstress.engine.ledger import Ledger


class SharedAnswers(Protocol):
    """Answers of other runs; see `medstress.store.shared_cache`."""

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the kept answers to these keys."""

    def keep(self, model: ModelIdentity, answers: Mapping[bytes, Answer], seconds: float) -> None:
        """Keep computed answers; `seconds` is the time per answer."""


class KnownAnswers:
    """Finds answers that need not be computed.

    Args:
        ledger: of this run.
        shared: answers of other runs; None if runs share nothing.
    """

    def __init__(self, ledger: Ledger, shared: SharedAnswers | None) -> None:
        self._ledger = ledger
        self._shared = shared

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Reply]:
        """Return the known answers to these keys; those of other runs are copied into this one."""
        found: dict[bytes, Reply] = dict(self._ledger.lookup(keys))
        missing = [key for key in keys if key not in found]
        if self._shared is not None and missing:
            taken = self._shared.lookup(missing)
            if taken:
                # Copied, so that the run can be read and resumed without the cache. Like computed
                # answers, they are committed before an attack is stepped on them.
                self._ledger.answered((key, FROM_CACHE, taken[key], 0.0) for key in taken)
                self._ledger.commit()
            found |= taken
        return found

    def keep(self, model: ModelIdentity, batch: Batch, replies: Sequence[Reply]) -> None:
        """Keep computed answers for other runs; failures are left out."""
        if self._shared is None:
            return
        computed = {
            entry.key: reply
            for entry, reply in zip(batch.entries, replies, strict=True)
            if not isinstance(reply, Failure)
        }
        self._shared.keep(model, computed, batch.seconds / len(batch.entries))
