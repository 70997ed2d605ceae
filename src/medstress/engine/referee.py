"""The referee decides which answers are successes and which of them end a search."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from medstress.attacks.names import LeavesOut
from medstress.attacks.protocol import Attack, Validity
from medstress.core.evidence import after_success
from medstress.core.items import Edited
from medstress.core.outcomes import (
    Goal,
    Measured,
    Outcome,
    Prediction,
    Replaced,
    Verdict,
)
from medstress.core.queries import Predict
from medstress.core.validity import known_validity
from medstress.engine.result import TrialResult


class Judge(Protocol):
    """Receives every answer to a query of one trial."""

    @property
    def asks_all(self) -> bool:
        """True if no answer ends the search."""

    def judge(self, query: Predict, prediction: Prediction) -> Prediction:
        """Return the prediction, marked if it is a success."""


class AnswerRecorder:
    """Records the answers to a perturbed copy and judges none."""

    asks_all = True

    def __init__(self, result: TrialResult) -> None:
        self._result = result

    def judge(self, query: Predict, prediction: Prediction) -> Prediction:
        """Record the answer to the latest query."""
        self._result.count(query, prediction)
        self._result.pick, self._result.after = query.candidate, prediction
        return prediction


class OneAnswer:
    """Records whether one edit made a wrong answer right, and ends the search."""

    asks_all = False

    def __init__(self, result: TrialResult) -> None:
        self._result = result

    def judge(self, query: Predict, prediction: Prediction) -> Prediction:
        """Record the answer."""
        self._result.count(query, prediction)
        if prediction.outcome is not Outcome.UNREADABLE:
            self._result.corrected = prediction.outcome is Outcome.RIGHT
        return replace(prediction, reached_goal=True)


class Referee:
    """Judges the answers of one trial from queries and answers alone, never by the attack's word,
    and fills in the trial's result."""

    def __init__(
        self,
        attack: Attack,
        resources: Any,
        result: TrialResult,
        describe: Callable[[Exception], str],
        item: Any = None,
        goal: Goal | None = None,
    ) -> None:
        self.goal = attack.goal_for(item) if goal is None else goal
        if isinstance(self.goal, Replaced) and self.goal.options is not None:
            result.counted = sorted(self.goal.options)
        # Not by isinstance, which for a protocol takes longer than asking a query.
        relative_to: Callable[[Prediction], Goal] | None = getattr(self.goal, "relative_to", None)
        if relative_to is not None and result.before is not None:
            self.goal = relative_to(result.before)
        self._attack = attack
        self._resources = resources
        self._result = result
        self._describe = describe
        # A copy, and changed evidence, are a finding whatever the answer.
        self._keeps_pick = attack.asks_copy_of(item) or not attack.is_judged
        self._ends_search, self._is_probe = attack.ends, attack.is_probe
        self.asks_all = attack.ends == "all"

    def judge(self, query: Predict, prediction: Prediction) -> Prediction:
        """Judge the answer to the latest query.

        Returns:
            The prediction, marked if it is a success; with `reached_goal` it ends the search.
        """
        result = self._result
        result.count(query, prediction)
        if query.probe:
            result.probes.append(result.n_asked)
            return prediction
        if self._is_probe:
            result.answers.append(prediction.answer)
        if prediction.scores is not None:
            result.last = prediction
        if result.n_excluded is None:
            self.count_exclusions(query.candidate)
        if not self.goal.reached(prediction, query.candidate.edits):
            if self._keeps_pick or self._has_moved_most(prediction):
                result.pick, result.after = query.candidate, prediction
            return prediction
        found = self._record(query, prediction)
        marked = replace(
            prediction, is_success=True, reached_goal=self._ends(query.candidate, found)
        )
        if result.pick is query.candidate:
            result.after = marked
        return marked

    def _ends(self, candidate: Edited, found: Validity) -> bool:
        """True if a success ends the search."""
        match self._ends_search:
            case "valid":
                return found.valid is not False
            case "smallest":
                return len(candidate.edits) <= 1
        return self._ends_search == "success"

    def _has_moved_most(self, prediction: Prediction) -> bool:
        """True if the goal only measures change and this answer changed most so far."""
        if not isinstance(self.goal, Measured):
            return False
        after = self._result.after
        return after is None or self.goal.change(prediction) > self.goal.change(after)

    def _record(self, query: Predict, prediction: Prediction) -> Validity:
        """Record a success if it is the first, the first unrefuted one, or has fewer edits."""
        candidate = query.candidate
        result = self._result
        smaller = self._ends_search == "smallest"
        if result.first_unrefuted_success is not None and not smaller:
            return Validity()  # an exhaustive search goes on; later successes need no check
        found = self._validity(query)
        if result.first_success is None:
            result.verdict, result.first_success = Verdict.FLIPPED, result.n_asked
            result.first_pick, result.first_after = candidate, prediction
            result.variant_class = found.variant_class
            result.first_success_attempt = query.attempt
            result.first_evidence = after_success(found.evidence, found.reason, found.valid)
        elif smaller:
            if result.pick is not None and len(candidate.edits) >= len(result.pick.edits):
                return found
        elif found.valid is False:
            return found
        result.pick, result.after, result.pick_success = candidate, prediction, result.n_asked
        result.valid, result.validity_reason = found.valid, found.reason
        result.evidence = found.evidence
        if found.valid is not False and result.first_unrefuted_success is None:
            result.first_unrefuted_success = result.n_asked
        if found.valid:
            result.first_valid_success = result.n_asked
        return found

    def _validity(self, query: Predict) -> Validity:
        try:
            found = self._attack.validity(query.candidate, self._resources)
        except Exception as error:  # noqa: BLE001 - the per-trial guard
            self._result.note = self._describe(error)  # validity unknown; the verdict stands
            return Validity()
        if found is None:
            return Validity()
        return replace(found, valid=known_validity(found.valid, found.reason))

    def count_exclusions(self, candidate: Edited) -> None:
        """Record how many names the attack never draws, by reason, if it knows."""
        if not isinstance(self._attack, LeavesOut):
            return
        try:
            counts = self._attack.n_excluded(candidate, self._resources)
        except Exception as error:  # noqa: BLE001 - the per-trial guard
            self._result.note = self._describe(error)
        else:
            self._result.n_excluded = counts if counts is None else dict(sorted(counts.items()))

    def close(self, clean: Edited, *, failed: bool = False) -> None:
        """Complete the result after the search has ended."""
        result = self._result
        if isinstance(self.goal, Measured) and not failed:
            result.verdict = Verdict.MEASURED
        if result.n_excluded is None:
            self.count_exclusions(clean)
        if not self._attack.is_judged:
            return  # more queries would change the evidence again: no success can be valid
        stopped = failed or (
            self._ends_search == "success" and result.n_asked < self._attack.budget
        )
        # More queries might have found a valid flip; none were made.
        result.censored = stopped and result.valid is False
