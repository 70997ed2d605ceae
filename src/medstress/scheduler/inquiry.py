"""Candidates asked of a victim for an analysis: outside every attack and every budget.

An inquiry is journalled, answered, cached and replayed like a trial; its calls count in the
ledger under `other`, and the store keeps it apart from the trials.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

from medstress.calls import Reply
from medstress.errors import MedstressError
from medstress.hashing import content_hash
from medstress.items import Candidate, Question
from medstress.outcomes import Goal, Outcome
from medstress.scheduler.asking import UnansweredError, predict
from medstress.scheduler.need import CallRound, Purpose
from medstress.text import edit_rows
from medstress.victim import Victim


class InquiryVerdict(StrEnum):
    """How an inquiry ended; told apart from the verdicts of trials by these words."""

    ASKED = "asked"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry:
    """Candidates of one item, asked of one victim in order until one is a success."""

    purpose: Purpose
    """`transfer` or `universality`."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: Victim
    """Who is asked."""
    attack_label: str
    """Label of the attack whose successes are asked: the ledger row it counts in."""
    attack_spec: dict[str, Any]
    """Its parameters, as the trials' arm has them."""
    seed: int | None
    """Seed of that row."""
    goal: Goal
    """When an answer is a success: the goal of the attack on this item."""
    item: Question
    """The item."""
    candidates: tuple[Candidate, ...]
    """Asked in this order; may be empty."""
    spec: dict[str, Any]
    """What the analysis needs to read the answers: stored beside them, hashed into the id."""
    has_deadline: ClassVar[bool] = False
    repeat: ClassVar[int] = 0

    def start(self) -> InquiryFlow:
        """See `inquire`."""
        return inquire(self)

    @property
    def id(self) -> str:
        """Content hash of what is asked and what for."""
        edits = [edit_rows(candidate.edits) for candidate in self.candidates]
        place = [self.dataset, self.group, self.victim.label, self.attack_label, self.seed]
        item = [self.item.id, self.item.hash]
        return content_hash([self.purpose.value, place, item, edits, self.spec])


@dataclass(slots=True, kw_only=True)
class InquiryResult:
    """What came of an inquiry."""

    purpose: Purpose
    """What it was for."""
    spec: dict[str, Any]
    """As planned."""
    outcomes: list[Outcome] = field(default_factory=list)
    """One an asked candidate."""
    reached: bool | None = None
    """Whether the last of them is a success by the goal of the attack; only the last can be. None
    where nothing was answered, and of studies."""
    note: str | None = None
    """Why a call was not answered."""
    findings: dict[str, Any] | None = None
    """What a study found, as JSON values."""

    @property
    def verdict(self) -> InquiryVerdict:
        """Whether all calls were answered."""
        return InquiryVerdict.ASKED if self.note is None else InquiryVerdict.UNANSWERED

    def as_record(self) -> dict[str, Any]:
        """As JSON values."""
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
    """Ask an inquiry's candidates, until one is a success.

    Yields:
        Needs, the query numbered from 1; is sent one reply a request, in order.

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
                stores_requests=inquiry.victim.is_told,
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
