"""Ask a victim about given candidates for an analysis, outside every attack and budget.

An inquiry is journalled, answered, cached and replayed like a trial. Its calls count in the ledger
under `other`, and the store keeps it apart from the trials.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from medstress.core.calls import Reply
from medstress.core.errors import MedstressError
from medstress.core.hashing import content_hash
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Goal, Outcome
from medstress.core.text import edit_rows
from medstress.engine.asking import UnansweredError, predict
from medstress.engine.requests import CallRound, Purpose
from medstress.tasks.victim import Victim


class InquiryVerdict(StrEnum):
    """How an inquiry ended; the words differ from the verdicts of trials."""

    ASKED = "asked"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Candidates of one item, asked of one victim in order until one is a success."""

    purpose: Purpose
    """`transfer` or `reuse`."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: Victim
    """The model that is asked."""
    attack_label: str
    """Label of the attack whose successes are asked; the calls count in its ledger row."""
    attack_spec: dict[str, Any]
    """The attack's parameters, as stored with the arm of its trials."""
    seed: int | None
    """Seed of that row."""
    goal: Goal
    """Decides whether an answer is a success: the goal of the attack on this item."""
    item: Question
    """The item."""
    candidates: tuple[Candidate, ...]
    """Asked in this order; may be empty."""
    spec: dict[str, Any]
    """What the analysis needs to interpret the answers; stored beside them (as `told`) and part of
    the id."""
    has_deadline: ClassVar[bool] = False
    repeat: ClassVar[int] = 0
    place: ClassVar[int] = 0

    def start(self) -> InquiryFlow:
        """See `inquire`."""
        return inquire(self)

    @property
    def id(self) -> str:
        """Content hash of the candidates and their purpose."""
        edits = [edit_rows(candidate.edits) for candidate in self.candidates]
        place = [self.dataset, self.group, self.victim.label, self.attack_label, self.seed]
        item = [self.item.id, self.item.hash]
        return content_hash([self.purpose.value, place, item, edits, self.spec])


@dataclass(slots=True, kw_only=True)
class InquiryResult:
    """How an inquiry or a study ended."""

    purpose: Purpose
    """Why it was made."""
    spec: dict[str, Any]
    """Of the inquiry or study."""
    outcomes: list[Outcome] = field(default_factory=list)
    """One per candidate that was asked."""
    reached: bool | None = None
    """Whether the last answer reaches the goal of the attack; only the last can. None if nothing
    was answered, and for studies."""
    note: str | None = None
    """Why a call was not answered."""
    findings: dict[str, Any] | None = None
    """The findings of a study, as JSON values (stored as `found`)."""

    @property
    def verdict(self) -> InquiryVerdict:
        """`ASKED` if all calls were answered."""
        return InquiryVerdict.ASKED if self.note is None else InquiryVerdict.UNANSWERED

    def as_record(self) -> dict[str, Any]:
        """Return it as JSON values."""
        record: dict[str, Any] = {
            "purpose": self.purpose.value,
            "told": self.spec,
            "outcomes": [outcome.value for outcome in self.outcomes],
        }
        if self.reached is not None:
            record["reached"] = self.reached
        if self.findings is not None:
            record["found"] = self.findings
        return record if self.note is None else {**record, "note": self.note}


InquiryFlow: TypeAlias = Generator[CallRound, tuple[Reply, ...], InquiryResult]


def inquire(inquiry: Inquiry) -> InquiryFlow:
    """Ask about the candidates of an inquiry until one is a success.

    Yields:
        Rounds of calls, their queries numbered from 1; expects one reply per request, in order.

    Returns:
        The outcomes in order.
    """
    result = InquiryResult(purpose=inquiry.purpose, spec=inquiry.spec)
    try:
        for query, candidate in enumerate(inquiry.candidates, start=1):
            prediction = yield from predict(
                inquiry.victim.flow(candidate),
                candidate,
                inquiry.purpose,
                query,
                stores_requests=inquiry.victim.stores_requests,
            )
            result.outcomes.append(prediction.outcome)
            result.reached = inquiry.goal.reached(prediction, candidate.edits)
            if result.reached:
                break
    except MedstressError:
        raise
    except UnansweredError as error:
        result.note = str(error)
    except Exception as error:  # noqa: BLE001 - the guard that trials have too
        result.note = f"a defect of the task: {type(error).__name__}: {error}"
    return result
