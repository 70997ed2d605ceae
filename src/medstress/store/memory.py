"""A ledger in memory, for trials that are never resumed or read again."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

from medstress.core.calls import Answer
from medstress.core.hashing import canonical_json
from medstress.store.reader import StoredTrial
from medstress.store.rows import BegunTrial, PlannedTrial

Arm: TypeAlias = tuple[str, str, str, str, str, int | None]
"""(data set, group, victim, attack, parameters, seed)"""


class MemoryLedger:
    """Keeps what a `RunStore` would write; the row of a trial also names its item."""

    def __init__(self) -> None:
        self._arms: list[Arm] = []
        self._planned: list[PlannedTrial] = []
        self._ended: dict[int, tuple[str, dict[str, Any]]] = {}
        self._answers: dict[bytes, Answer] = {}
        self._exchanges: list[tuple[Any, ...]] = []

    def arm_id(
        self, dataset: str, group: str, victim: str, attack: str, spec: Any, seed: int | None
    ) -> int:
        """Return the row of a new arm; called once per arm."""
        self._arms.append((dataset, group, victim, attack, canonical_json(spec), seed))
        return len(self._arms) - 1

    def begin_trials(self, planned: Sequence[PlannedTrial]) -> list[BegunTrial]:
        """Register trials; all of them are new."""
        first = len(self._planned)
        self._planned += planned
        return [BegunTrial(row, False, {}) for row in range(first, len(self._planned))]

    def finish_trial(self, trial: int, verdict: str, result: dict[str, Any]) -> None:
        """Keep how a trial ended, as a file would give it back."""
        self._ended[trial] = (verdict, json.loads(json.dumps(result)))

    def lookup(self, keys: Sequence[bytes]) -> dict[bytes, Answer]:
        """Return the kept answers to these keys."""
        return {key: self._answers[key] for key in keys if key in self._answers}

    def dispatching(self, calls: Iterable[tuple[bytes, int]]) -> None:
        """Do nothing: no other process needs a journal."""

    def answered(self, answers: Iterable[tuple[bytes, int, Answer | None, float]]) -> None:
        """Keep answers: the first one to each call, and no failures."""
        for key, _, answer, _ in answers:
            if answer is not None:
                self._answers.setdefault(key, answer)

    def consumed(self, rows: Iterable[tuple[Any, ...]]) -> None:
        """Keep exchanges."""
        self._exchanges += rows

    def commit(self) -> None:
        """Do nothing: memory does not survive the process."""

    def trials(self) -> Iterator[StoredTrial]:
        """Yield all finished trials in the plan's order, with the counts of their queries."""
        queries = self._queries()
        for row, (trial_id, arm, _, _, repeat, _) in enumerate(self._planned):
            if row not in self._ended:
                continue
            dataset, group, victim, attack, spec, seed = self._arms[arm]
            verdict, result = self._ended[row]
            failed = [lost for lost, _ in queries[row]]
            paid = [pays and not lost for lost, pays in queries[row]]
            yield StoredTrial(
                trial=row,
                trial_id=trial_id,
                dataset=dataset,
                group=group,
                victim=victim,
                attack=attack,
                spec=spec,
                seed=seed,
                repeat=repeat,
                item=row,
                verdict=verdict,
                result=result,
                n_paid=sum(paid),
                n_cached=len(failed) - sum(failed) - sum(paid),
                n_failed=sum(failed),
            )

    def requests(self, trial: int, purpose: str, query: int) -> list[str]:
        """Return the fully kept calls of one query of the victim, as JSON, in order."""
        place = (trial, "victim", purpose, query)
        rows = [row for row in self._exchanges if (row[0], *row[2:5]) == place]
        return [row[9] for row in sorted(rows, key=lambda row: row[1]) if row[9] is not None]

    def _queries(self) -> dict[int, list[tuple[bool, bool]]]:
        """Return trial -> (has a failed call, pays for a call) of each query of its attack.

        If several queries share a call, the first of them pays, as in a run folder.
        """
        calls = [row for row in self._exchanges if row[2] == "victim"]
        payers: dict[bytes, tuple[int, int]] = {}
        for trial, seq, *_, key, _, _, _, error in sorted(calls, key=lambda row: row[:2]):
            if error is None:
                payers.setdefault(key, (trial, seq))
        asked: dict[tuple[int, int], list[tuple[bool, bool]]] = defaultdict(list)
        for trial, seq, _, purpose, query, _, key, *_, error in calls:
            if purpose == "attack":
                pays = error is None and payers[key] == (trial, seq)
                asked[trial, query].append((error is not None, pays))
        found: dict[int, list[tuple[bool, bool]]] = defaultdict(list)
        for (trial, _), each in asked.items():
            found[trial].append((any(lost for lost, _ in each), any(pays for _, pays in each)))
        return found
