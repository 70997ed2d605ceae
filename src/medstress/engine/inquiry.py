"""Ask a model about given candidates for an analysis, outside every attack and budget.

An inquiry knows its candidates beforehand; a study makes the next ones from the answers, as the
controls of a significance test require. Both are journalled, answered, cached and replayed like a
trial. Their calls count in the ledger under `other`, and the store keeps them apart from trials.
A conversation of a study whose call fails ends alone; the study decides what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias, cast

from medstress.core.calls import Answer, Reply
from medstress.core.hashing import content_hash
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Goal, Outcome
from medstress.core.queries import Consult
from medstress.core.text import Edit, edit_rows
from medstress.engine.work import CallRound, Guard, Held, Purpose, answer_all, consult, predict
from medstress.tasks.multiple_choice import Flow, Task, changed
from medstress.tasks.victim import Victim


class InquiryVerdict(StrEnum):
    """How an inquiry ended; the words differ from the verdicts of trials."""

    ASKED = "asked"
    UNANSWERED = "unanswered"


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What inquiries, studies and explanations have in common."""

    purpose: Purpose
    """`transfer` or `reuse`; of studies `test`, `judge` or `explain`."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: Victim
    """The model that is asked; of a study, the one whose row of the ledger it counts in."""
    attack_label: str
    """Label of the attack that it is about; the calls count in its ledger row."""
    attack_spec: dict[str, Any]
    """The attack's parameters, as stored with the arm of its trials."""
    seed: int | None
    """Seed of that row."""
    item: Question
    """The item, or the first of several."""
    spec: dict[str, Any]
    """What defines it and what the analysis needs to interpret the answers, as JSON values; stored
    next to the result (as `told`) and part of the id."""
    has_deadline: ClassVar[bool] = False
    repeat: ClassVar[int] = 0
    place: ClassVar[int] = 0

    @property
    def id(self) -> str:
        """Content hash of its place in the ledger, its item and its spec."""
        return self._hash_with()

    def _hash_with(self, edits: Iterable[Sequence[Edit]] | None = None) -> str:
        place = [self.dataset, self.group, self.victim.label, self.attack_label, self.seed]
        return id_of(self.purpose, place, self.item, self.spec, edits)


def id_of(
    purpose: Purpose,
    place: Sequence[Any],
    item: Any,
    spec: Mapping[str, Any],
    edits: Iterable[Sequence[Edit]] | None,
) -> str:
    """Return the id of a follow-up.

    Args:
        purpose: why it was made.
        place: of its row of the ledger: data set, group, victim, label of the attack, seed.
        item: the item, or the first of several.
        spec: what defines it.
        edits: of an inquiry, those of each candidate.
    """
    more = () if edits is None else (list(map(edit_rows, edits)),)
    return content_hash([purpose.value, place, [item.id, item.hash], *more, spec])


@dataclass(frozen=True, slots=True, kw_only=True)
class Inquiry(Asked):
    """Candidates of one item, asked of one model in order until one is a success."""

    goal: Goal
    """Decides whether an answer is a success: the goal of the attack on this item."""
    candidates: tuple[Candidate, ...]
    """Asked in this order; may be empty."""

    def start(self) -> InquiryFlow:
        """See `inquire`."""
        return inquire(self)

    @property
    def id(self) -> str:
        """Content hash of the candidates and their purpose."""
        return self._hash_with(candidate.edits for candidate in self.candidates)


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
    overtime: str | None = None
    """None: only trials have a deadline."""
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
    with Guard(result):
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
    return result


FIRST_SAMPLE = 2_000_000
"""Offset of a study's sample indices, so that it never reads back an attack's stored answer."""


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    """One conversation about a candidate."""

    victim: Victim
    """Who is asked and how; its back end is that of the study's victim."""
    candidate: Candidate
    """What it is asked about."""
    sample: int | None = None
    """Index of a fresh sample; None asks as the attack does."""


@dataclass(frozen=True, slots=True)
class HoldConversations:
    """A step of a study: hold conversations side by side."""

    conversations: tuple[ConversationRequest, ...]
    """Never empty; the step returns what came of each, in order."""


Replies: TypeAlias = tuple[Held, ...] | tuple[Answer, ...]
StudyFlow: TypeAlias = Generator[HoldConversations | Consult, Replies, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study(Asked):
    """A study with one victim, of one item or of several."""

    steps: Callable[[], StudyFlow]
    """Starts the generator; it takes the same steps in every process. It returns what was found; a
    `note` there says why it is not finished, so that it may be asked again."""

    def start(self) -> InquiryFlow:
        """See `conduct_study`."""
        return conduct_study(self)


def conduct_study(study: Study) -> InquiryFlow:
    """Run a study.

    Yields:
        Rounds of calls; every conversation is a query, numbered from 1.

    Returns:
        The result, with what the study's generator returned as its findings.
    """
    result = InquiryResult(purpose=study.purpose, spec=study.spec)
    with Guard(result):
        result.findings = yield from _drive(study)
        result.note = result.findings.pop("note", None)
    return result


def _drive(study: Study) -> Generator[CallRound, tuple[Reply, ...], dict[str, Any]]:
    steps, n_held = study.steps(), 0
    try:
        step = next(steps)
        while True:
            replies: Replies
            if isinstance(step, Consult):
                replies = yield from consult(step, study.purpose)
            else:  # side by side, turn by turn, until all have ended
                flows = [_flow(talk) for talk in step.conversations]
                replies = yield from answer_all(flows, study.purpose, n_held)
                n_held += len(flows)
            step = steps.send(replies)
    except StopIteration as stop:
        findings: dict[str, Any] = stop.value
        return findings
    finally:
        steps.close()


def _flow(talk: ConversationRequest) -> Flow:
    flow = talk.victim.flow(talk.candidate)
    if talk.sample is None:
        return flow
    task = cast(Task, talk.victim.task)  # conversations are with victims that take prompts
    offset = FIRST_SAMPLE + talk.sample * task.n_samples
    return changed(flow, lambda request: replace(request, sample=request.sample + offset))
