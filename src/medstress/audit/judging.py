"""Judge a trial again, from its stored answers alone, by the referee that judged it first."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from math import isclose
from typing import Any

from medstress.attacks.controls.repeat import Repeat
from medstress.attacks.medfuzz.attack import refuted_by
from medstress.attacks.protocol import Attack, SearchOn
from medstress.audit.asked import AskedQuery, attack_numbers
from medstress.audit.attacks import NotJudgedError
from medstress.core.items import Item
from medstress.core.outcomes import Goal, Outcome, Prediction, Replaced, Verdict
from medstress.core.queries import Predict
from medstress.core.resources import Resources
from medstress.engine.referee import AnswerRecorder, Judge, OneAnswer, Referee
from medstress.engine.requests import Purpose
from medstress.engine.result import TrialResult
from medstress.engine.trial import turn_record
from medstress.store.views import DISTANCES, SIMILARITY

FAILED = (Verdict.FAILED, Verdict.CUT_SHORT)
"""What says that something beside the answers ended a trial, such as a deadline."""
_TAKEN = frozenset(
    # What no answer says: why, which names are never drawn, notes of the attack, stored prompts,
    # what tables say.
    {"note", "n_excluded", "records", "listings", "evidence", "first_evidence"}
    | {SIMILARITY, DISTANCES}
)


class OddError(Exception):
    """Something about a trial is not as it should be.

    Attributes:
        expected: what the answers say.
        found: what is stored.
    """

    def __init__(self, expected: str, found: str) -> None:
        super().__init__(f"expected {expected}, found {found}")
        self.expected, self.found = expected, found


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredVerdict:
    """A trial with a verdict, and all that judging it again takes."""

    item: Item
    """The trial's unit."""
    attack: Attack
    """The attack."""
    resources: Resources
    """What its rules may read."""
    verdict: Verdict
    """As stored."""
    result: Mapping[str, Any]
    """As stored."""
    queries: Mapping[tuple[str, int], AskedQuery]
    """What was asked, by purpose and number."""
    read: Callable[[AskedQuery], Prediction | None]
    """Says what the answers to a query say; None if one is missing."""
    is_probe: Callable[[int, AskedQuery], bool]
    """Whether a query was a probe."""


def check_trial(stored: StoredVerdict) -> None:
    """Judge a trial again.

    Raises:
        OddError: the verdict, or what goes with it, is another.
        NotJudgedError: a rule cannot be asked here.
    """
    found = _Again(stored).judged()
    if found.verdict is not stored.verdict:
        raise OddError(found.verdict.value, stored.verdict.value)
    expected = json.loads(json.dumps(found.as_record()))
    for key in sorted((expected.keys() | stored.result.keys()) - _TAKEN):
        given, judged = stored.result.get(key), expected.get(key)
        if not _alike(judged, given):
            raise OddError(f"{key} {json.dumps(judged)}", json.dumps(given))


class _Again:
    """One trial on its way."""

    def __init__(self, stored: StoredVerdict) -> None:
        self._stored, self._traits = stored, stored.attack.traits
        self._result = TrialResult(unit=stored.item.unit, n_excluded={})
        self._turns = {
            record["query"]: record
            for record in stored.result.get("records", ())
            if isinstance(record, dict) and "query" in record
        }
        self._numbers = attack_numbers(stored.queries)

    def judged(self) -> TrialResult:
        """Follow `medstress.engine.trial.conduct`, without asking anything."""
        stored, result, traits = self._stored, self._result, self._traits
        is_static = stored.attack.is_static_on(stored.item)
        if stored.verdict is Verdict.NOT_ATTACKABLE:
            result.verdict = Verdict.NOT_ATTACKABLE
            if not is_static:
                return self._unasked()
        asked = stored.queries.get((Purpose.BASELINE, 0))
        if asked is None and stored.verdict not in FAILED:
            raise OddError("an answer to the clean item", f"{stored.verdict.value} without one")
        before = None if asked is None else stored.read(asked)
        if before is None or (stored.verdict in FAILED and stored.result.get("before") is None):
            return self._stopped("baseline")
        result.before = before
        result.n_ties += before.is_tied
        self._check_turn(0, before, 0)
        if stored.verdict is not Verdict.NOT_ATTACKABLE and before.outcome is not Outcome.RIGHT:
            wrong = before.outcome is Outcome.WRONG
            result.verdict = Verdict.ALREADY_WRONG if wrong else Verdict.UNREADABLE
            if traits.attack_all:
                return self._of_wrong_item()
            if wrong and traits.asks_wrong:
                self._asked_of(OneAnswer(result))
        if result.verdict is not Verdict.HELD:
            if is_static and not self._asked_of(AnswerRecorder(result)):
                return self._stopped("baseline")
            if is_static and stored.verdict in FAILED:
                return self._stopped("baseline")
            return result
        return self._attacked()

    def _attacked(self) -> TrialResult:
        stored, result = self._stored, self._result
        referee = self._referee()
        complete = self._asked_of(referee)
        is_failed = not complete or stored.verdict in FAILED
        if stored.verdict is Verdict.FLIPPED and stored.result.get("note") is not None:
            is_failed = is_failed or bool(stored.result.get("censored"))
        referee.close(stored.item.candidate(), failed=is_failed)
        if result.first_success is None:
            return self._stopped("attack") if is_failed else result
        self._check_flips(referee)
        return result

    def _referee(self) -> Referee:
        stored = self._stored
        return Referee(
            stored.attack,
            self._traits,
            stored.resources,
            self._result,
            _raise,
            stored.item,
            self._goal(),
        )

    def _goal(self) -> Goal:
        """Return the goal; the names that say which options count beside a control are not here."""
        stored = self._stored
        try:
            return stored.attack.goal_on(stored.item, stored.resources)
        except NotJudgedError:
            goal, letters = stored.attack.goal_for(stored.item), stored.result.get("counted")
            if letters is None or not isinstance(goal, Replaced):
                raise
            return replace(goal, options=frozenset(letters))

    def _asked_of(self, judge: Judge) -> bool:
        """Let a judge see every query; return whether all were answered."""
        stored, result = self._stored, self._result
        for place, number in enumerate(self._numbers, start=1):
            if number != place:
                raise OddError(f"query {place} of the attack", f"query {number}")
            asked = stored.queries[Purpose.ATTACK, number]
            result.n_asked = number
            prediction = stored.read(asked)
            is_last = place == len(self._numbers)
            if prediction is None:
                if not is_last:
                    raise OddError(f"answers to query {number} of the attack", "none")
                return False
            query = self._query(number, asked)
            self._check_turn(number, prediction, query.attempt)
            if judge.judge(query, prediction).reached_goal and not is_last:
                raise OddError(f"{number} queries of the attack", str(len(self._numbers)))
        return True

    def _query(self, number: int, asked: AskedQuery) -> Predict:
        stored, attempt = self._stored, self._turns.get(number, {}).get("attempt")
        attack: Any = stored.attack
        is_repeat = isinstance(getattr(attack, "control", attack), Repeat)
        valid, reason = self._claimed(number, attempt)
        return Predict(
            stored.item.candidate(asked.edits),
            probe=stored.is_probe(number, asked),
            attempt=attempt if self._traits.in_turns else self._attempt(number),
            valid=valid,
            reason=reason,
            sample=int(is_repeat),
        )

    def _attempt(self, number: int) -> int | None:
        """Return the attempt of a query of an attack that counts some without conversations."""
        given = self._stored.result
        found = given.get("first_success_attempt")
        return found if number == given.get("first_success") else None

    def _claimed(self, number: int, attempt: int | None) -> tuple[bool | None, str | None]:
        """Return what other roles that the attack asked said of the key after an edit."""
        stored = self._stored
        for record in filter(_is_gated, stored.result.get("records", ())):
            if record.get("attempt") == attempt:
                found = refuted_by(record["objections"], record)
                return found.get("valid"), found.get("reason")
        given = stored.result
        if number == (given.get("first_unrefuted_success") or given.get("first_success")):
            return given.get("valid"), given.get("validity_reason")
        # Had it not been refuted, a search that goes on after refuted successes would have ended.
        return (False if self._traits.search_on is SearchOn.INVALID else None), None

    def _check_turn(self, number: int, prediction: Prediction, attempt: int | None) -> None:
        """Compare the answer of a conversation with what the trial's record says of it."""
        if prediction.rationale is None:
            return
        expected = turn_record(Predict(None, attempt=attempt), number, prediction)
        given = self._turns.get(number)
        judged = json.loads(json.dumps(expected))
        if not _alike(judged, given):
            raise OddError(json.dumps(judged)[:300], json.dumps(given)[:300])

    def _check_flips(self, referee: Referee) -> None:
        result, stored = self._result, self._stored
        if not any(purpose == Purpose.FLIP_CHECK for purpose, _ in stored.queries):
            return
        found: list[bool | None] = []
        for number, candidate in {
            result.first_success: result.first_pick,
            result.pick_success: result.pick,
        }.items():
            asked = stored.queries.get((Purpose.FLIP_CHECK, number or 0))
            again = None
            if asked is not None and candidate is not None:
                asked.edits = candidate.edits
                again = stored.read(asked)
            found.append(
                None
                if again is None or candidate is None
                else referee.goal.reached(again, candidate.edits)
            )
        result.first_repeats = found[0]
        result.repeats = False if False in found else None if None in found else True

    def _of_wrong_item(self) -> TrialResult:
        result, lost = self._result, self._result.verdict
        self._asked_of(self._referee())
        return result.of_wrong_item(lost)

    def _unasked(self) -> TrialResult:
        if self._stored.queries:
            raise OddError("no query of a trial that is not attackable", "some")
        return self._result

    def _stopped(self, at: str) -> TrialResult:
        """End a trial that something beside its answers ended."""
        result, stored = self._result, self._stored
        result.verdict, result.at = Verdict.FAILED, at
        if stored.verdict in FAILED:
            result.verdict = stored.verdict
        return result


def _is_gated(record: Any) -> bool:
    return isinstance(record, dict) and "objections" in record


def _raise(error: Exception) -> str:
    raise error


def _alike(judged: Any, given: Any) -> bool:
    """Return whether two JSON values are alike, numbers up to rounding on another machine."""
    if isinstance(judged, float | int) and isinstance(given, float | int):
        if isinstance(judged, bool) or isinstance(given, bool):
            return judged is given
        return isclose(judged, given, rel_tol=1e-9, abs_tol=1.1e-6)
    if isinstance(judged, list) and isinstance(given, list):
        return len(judged) == len(given) and all(map(_alike, judged, given))
    if isinstance(judged, dict) and isinstance(given, dict):
        return judged.keys() == given.keys() and all(_alike(judged[k], given[k]) for k in judged)
    return bool(judged == given)
