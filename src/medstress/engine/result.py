"""The result of one trial, judged from its answers."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from medstress.core.evidence import Evidence
from medstress.core.items import Edited, changes_nothing
from medstress.core.outcomes import Outcome, Prediction, Verdict
from medstress.core.queries import Predict
from medstress.core.text import WHOLE


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
    first_valid_success: int | None = None
    """Number of the pick, if it is valid; None: only people say so, after the run."""
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
    """Class of the first success against the key, if the attack knows it."""
    valid: bool | None = None
    """Whether the key still holds for the pick; None: unknown."""
    validity_reason: str | None = None
    """Who vouches for it or what refutes it; `rule` if rules do not refute it."""
    evidence: tuple[Evidence, ...] = ()
    """What else speaks for or against the key after it."""
    first_evidence: tuple[Evidence, ...] = ()
    """What speaks for or against the key after the first success, the rule that refutes it
    included."""
    censored: bool = False
    """Whether the search ended at an invalid success before its budget was used."""
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
        return TrialResult(
            verdict=lost,
            before=self.before,
            records=self.records,
            note=self.note,
            n_asked=self.n_asked,
            n_unreadable=self.n_unreadable,
            n_length=self.n_length,
            n_unchanged=self.n_unchanged,
            n_ties=self.n_ties,
            probes=self.probes,
            answers=self.answers,
        )

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON values.

        A prediction is [answer, scores, mass, text], followed by `finish_reason` if it was cut off.
        """
        # A first success that is also the pick is not stored twice.
        first = self.first_pick if self.first_pick is not self.pick else None
        record = {
            "unit": self.unit if self.unit != WHOLE else None,
            "at": self.at,
            "overtime": self.overtime,
            "note": self.note,
            "before": _prediction(self.before),
            "after": _prediction(self.after),
            "edits": _edits(self.pick),
            "first_success": self.first_success,
            "first_after": _prediction(self.first_after) if first else None,
            "first_edits": _edits(first),
            "first_unrefuted_success": self.first_unrefuted_success,
            "first_valid_success": self.first_valid_success,
            "n_asked": self.n_asked,
            "n_unreadable": self.n_unreadable,
            "n_length": self.n_length or None,
            "n_unchanged": self.n_unchanged,
            "n_ties": self.n_ties,
            "probes": self.probes,
            "repeats": self.repeats,
            "first_repeats": self.first_repeats if first else None,
            "variant_class": self.variant_class,
            "valid": self.valid,
            "validity_reason": self.validity_reason,
            "evidence": _evidence(self.evidence),
            "first_evidence": _evidence(self.first_evidence if first else ()),
            "censored": self.censored or None,
            "n_excluded": self.n_excluded,
            "first_success_attempt": self.first_success_attempt,
            "records": self.records,
            "listings": self.listings,
            "last": _scored(self.last) if self.verdict is Verdict.HELD else None,
            "answers": self.answers,
            "corrected": self.corrected,
            "counted": self.counted,
        }
        return {name: value for name, value in record.items() if value not in (None, [])}


def _evidence(pieces: tuple[Evidence, ...]) -> list[list[Any]]:
    return [[each.kind, each.source, each.valid] for each in pieces]


def _edits(candidate: Edited | None) -> list[list[Any]]:
    edits = candidate.edits if candidate else ()
    return [[e.field, e.start, e.end, e.replacement] for e in edits]


def _scored(prediction: Prediction | None) -> list[Any] | None:
    if prediction is None or prediction.scores is None:
        return None
    return [prediction.answer, [round(score, 6) for score in prediction.scores]]


def _prediction(prediction: Prediction | None) -> list[Any] | None:
    if prediction is None:
        return None
    values = [prediction.answer, prediction.scores, prediction.mass, prediction.text]
    return values if prediction.finish_reason is None else [*values, prediction.finish_reason]
