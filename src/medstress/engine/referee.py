"""The referee decides which answers are successes and which of them end a search; it fills in the
result of the trial."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from medstress.attacks.names import LeavesOut
from medstress.attacks.protocol import Attack, Validity
from medstress.core.items import Edited, changes_nothing
from medstress.core.outcomes import (
    Goal,
    Measured,
    Outcome,
    Prediction,
    Replaced,
    Verdict,
)
from medstress.core.queries import Predict
from medstress.core.text import WHOLE, edit_rows
from medstress.core.validity import Evidence, after_success, known_validity
from medstress.engine.work import describe


@dataclass(slots=True, kw_only=True)
class TrialResult:
    """The result of one trial.

    The *pick* is the first success that nothing refutes, else the first success. A search for few
    edits picks the smallest success. For a perturbed copy (`is_static`) the pick is that copy, and
    for a goal that only measures change, the candidate that changed the answer most. If an attack
    changes the evidence and nothing succeeds, it is the last candidate.
    """

    unit: str = "item"
    """What the trial is about: the item, or an entity of it."""

    verdict: Verdict = Verdict.HELD
    """The referee's verdict: flipped if there is any success."""
    at: str | None = None
    """For trials that failed or were cut short: `baseline` or `attack`; `TOO_LONG`: nothing could
    be asked."""
    overtime: str | None = None
    """Why time ended it, if no answer did."""
    note: str | None = None
    """Why it failed or was cut short, or why the item is not attackable."""
    before: Prediction | None = None
    """The answer on the clean item."""
    after: Prediction | None = None
    """The answer on the picked candidate."""
    pick: Edited | None = None
    """The picked candidate, as above."""
    pick_success: int | None = None
    """Number of the query that was the pick, if the pick is a success."""
    first_success: int | None = None
    """Number of the query that reached the goal first, from 1."""
    first_pick: Edited | None = None
    """The candidate of that query."""
    first_after: Prediction | None = None
    """The answer on it."""
    first_unrefuted_success: int | None = None
    """Number of the first query that reached the goal and that no rule refutes."""
    n_asked: int = 0
    """Perturbed queries consumed."""
    n_unreadable: int = 0
    """Of those, unreadable answers."""
    n_length: int = 0
    """Of those, unreadable because a reply was cut off at `max_new_tokens`."""
    n_unchanged: int = 0
    """Queries whose edits changed nothing: the original text was put in again. Repeats, which
    are meant to change nothing, are left out."""
    n_ties: int = 0
    """Answers in which options shared the highest score; the clean item's answer counts too."""
    probes: list[int] = field(default_factory=list)
    """Numbers of the queries that were probes, which are never a success."""
    repeats: bool | None = None
    """Whether the success repeated in the flip check; if first success and pick differ, both."""
    first_repeats: bool | None = None
    """Whether the first success repeated."""
    variant_class: str | None = None
    """Class of the first success against the right answer, if the attack knows it."""
    valid: bool | None = None
    """Whether the right answer still holds for the pick; None: unknown."""
    validity_reason: str | None = None
    """Who vouches for it or what refutes it; `rule` if rules do not refute it."""
    evidence: tuple[Evidence, ...] = ()
    """What else speaks for or against the right answer after it."""
    first_evidence: tuple[Evidence, ...] = ()
    """What speaks for or against the right answer after the first success, the rule that refutes it
    included."""
    first_success_attempt: int | None = None
    """The attempt of the first success, if the attack counts attempts."""
    records: list[dict[str, Any]] = field(default_factory=list)
    """Notes of the attack and turns of a conversation with the victim, in order."""
    listings: list[str] | None = None
    """The prompts of the clean item, of the pick, and of the first success if it is not the pick;
    None unless they have to be stored."""
    last: Prediction | None = None
    """The last answer with scores to an edit, kept if nothing succeeded."""
    answers: list[str | None] = field(default_factory=list)
    """The letter of every answer, None where unreadable, if the attack keeps them."""
    corrected: bool | None = None
    """Whether the one edit asked of an item that is wrong at baseline made the answer right."""
    counted: list[str] | None = None
    """Letters that count as edited for a control that edits none, if the goal asks for an edited
    option."""
    n_excluded: dict[str, int] | None = None
    """How many names are never drawn, by reason, if the attack knows them."""

    def count(self, query: Predict, prediction: Prediction) -> None:
        """Count one answered query."""
        self.n_unreadable += prediction.outcome is Outcome.UNREADABLE
        self.n_length += prediction.finish_reason is not None
        self.n_ties += prediction.is_tied
        self.n_unchanged += not query.sample and changes_nothing(query.candidate)

    def of_wrong_item(self, lost: Verdict) -> TrialResult:
        """Return what is kept of an attack on an item whose clean answer was not right.

        There was nothing to flip: the records keep the findings, and no rate counts them.
        """
        kept = ("before", "records", "note", "overtime", *_COUNTS, "probes", "answers")
        return TrialResult(verdict=lost, **{name: getattr(self, name) for name in kept})

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON values.

        A prediction is [answer, scores, mass, text], followed by `finish_reason` if it was cut off.
        """
        # A first success that is also the pick is not stored twice.
        first = self.first_pick if self.first_pick is not self.pick else None
        record = {
            "unit": self.unit if self.unit != WHOLE else None,
            **{name: getattr(self, name) for name in _AS_THEY_ARE},
            "before": _prediction(self.before),
            "after": _prediction(self.after),
            "edits": edit_rows(self.pick.edits) if self.pick else None,
            "first_after": _prediction(self.first_after) if first else None,
            "first_edits": edit_rows(first.edits) if first else None,
            "n_length": self.n_length or None,
            "first_repeats": self.first_repeats if first else None,
            "evidence": _evidence(self.evidence),
            "first_evidence": _evidence(self.first_evidence if first else ()),
            "last": _scored(self.last) if self.verdict is Verdict.HELD else None,
        }
        return {name: value for name, value in record.items() if value not in (None, [])}


_COUNTS = ("n_asked", "n_unreadable", "n_length", "n_unchanged", "n_ties")
_AS_THEY_ARE = (
    *("at", "overtime", "note", "first_success", "first_unrefuted_success", *_COUNTS, "probes"),
    *("repeats", "variant_class", "valid", "validity_reason", "n_excluded", "records"),
    *("first_success_attempt", "listings", "answers", "corrected", "counted"),
)
"""What is stored as it is; other parts of a result are stored in a form of their own."""


def _evidence(pieces: tuple[Evidence, ...]) -> list[list[Any]]:
    return [[piece.kind, piece.source, piece.valid] for piece in pieces]


def _scored(prediction: Prediction | None) -> list[Any] | None:
    if prediction is None or prediction.scores is None:
        return None
    return [prediction.answer, [round(score, 6) for score in prediction.scores]]


def _prediction(prediction: Prediction | None) -> list[Any] | None:
    if prediction is None:
        return None
    values = [prediction.answer, prediction.scores, prediction.mass, prediction.text]
    return values if prediction.finish_reason is None else [*values, prediction.finish_reason]


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
        item: Any = None,
    ) -> None:
        self.goal = attack.goal_for(item)
        if isinstance(self.goal, Replaced) and self.goal.options is not None:
            result.counted = sorted(self.goal.options)
        # Not by isinstance, which for a protocol takes longer than asking a query.
        relative_to: Callable[[Prediction], Goal] | None = getattr(self.goal, "relative_to", None)
        if relative_to is not None and result.before is not None:
            self.goal = relative_to(result.before)
        self._attack = attack
        self._resources = resources
        self._result = result
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
        validity = self._record(query, prediction)
        marked = replace(
            prediction, is_success=True, reached_goal=self._ends(query.candidate, validity)
        )
        if result.pick is query.candidate:
            result.after = marked
        return marked

    def _ends(self, candidate: Edited, validity: Validity) -> bool:
        """True if a success ends the search."""
        match self._ends_search:
            case "valid":
                return validity.valid is not False
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
        validity = self._validity(query)
        if result.first_success is None:
            result.verdict, result.first_success = Verdict.FLIPPED, result.n_asked
            result.first_pick, result.first_after = candidate, prediction
            result.variant_class = validity.variant_class
            result.first_success_attempt = query.attempt
            result.first_evidence = after_success(
                validity.evidence, validity.reason, validity.valid
            )
        elif smaller:
            if result.pick is not None and len(candidate.edits) >= len(result.pick.edits):
                return validity
        elif validity.valid is False:
            return validity
        result.pick, result.after, result.pick_success = candidate, prediction, result.n_asked
        result.valid, result.validity_reason = validity.valid, validity.reason
        result.evidence = validity.evidence
        if validity.valid is not False and result.first_unrefuted_success is None:
            result.first_unrefuted_success = result.n_asked
        return validity

    def _validity(self, query: Predict) -> Validity:
        try:
            validity = self._attack.validity(query.candidate, self._resources)
        except Exception as error:  # noqa: BLE001 - the per-trial guard
            self._result.note = describe(error)  # validity unknown; the verdict stays
            return Validity()
        if validity is None:
            return Validity()
        return replace(validity, valid=known_validity(validity.valid, validity.reason))

    def count_exclusions(self, candidate: Edited) -> None:
        """Record how many names the attack never draws, by reason, if it knows."""
        if not isinstance(self._attack, LeavesOut):
            return
        try:
            counts = self._attack.n_excluded(candidate, self._resources)
        except Exception as error:  # noqa: BLE001 - the per-trial guard
            self._result.note = describe(error)
        else:
            self._result.n_excluded = counts if counts is None else dict(sorted(counts.items()))

    def close(self, clean: Edited, *, failed: bool = False) -> None:
        """Complete the result after the search has ended."""
        if isinstance(self.goal, Measured) and not failed:
            self._result.verdict = Verdict.MEASURED
        if self._result.n_excluded is None:
            self.count_exclusions(clean)
