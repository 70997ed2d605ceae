"""What the scheduler needs from a store, which the run folder implements, and from its cache."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from medstress.core.calls import Answer, ModelIdentity

Exchange = tuple[
    int, int, str, str, int | None, int, bytes, str | None, str | None, str | None, str | None
]
"""(trial, seq, role, purpose, query, call, key, edits, flags, request, error)"""


PlannedTrial = tuple[str, int, str, Any, int, int]
"""(trial_id, row of the arm, dataset, item, repeat, place in the plan)"""

BegunTrial = tuple[int, bool, dict[int, tuple[bytes, str | None]]]
"""(row of the trial, whether it is finished, its journal: seq -> (key, error))"""


class Ledger(Protocol):
    """Where calls are journalled and answers kept; see `medstress.store`."""

    def begin_trials(self, planned: Sequence[PlannedTrial]) -> Sequence[BegunTrial]:
        """Register trials, in the order of the plan."""

    def finish_trial(self, trial: int, verdict: str, result: dict[str, Any]) -> None:
        """Store how a trial ended."""

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the stored answers to these keys."""

    def dispatching(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Journal calls (key, trial) that are about to be made, and commit."""

    def answered(self, answers: Iterable[tuple[bytes, int, Answer | None, float]]) -> None:
        """Store answers (key, trial, answer, seconds); None is a failure."""

    def consumed(self, rows: Iterable[Exchange]) -> None:
        """Store exchanges."""

    def commit(self) -> None:
        """Commit everything written so far, so that it survives the process."""

    def arm_id(
        self, dataset: str, group: str, victim: str, attack: str, spec: Any, seed: int | None
    ) -> int:
        """Return the row of an arm; it is added if new."""


class SharedAnswers(Protocol):
    """Answers of other runs; see `medstress.store.shared_cache`."""

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the kept answers to these keys."""

    def keep(self, model: ModelIdentity, answers: Mapping[bytes, Answer], seconds: float) -> None:
        """Keep computed answers; `seconds` is the time per answer."""
