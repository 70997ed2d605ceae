"""A generator that holds many conversations with a victim, about candidates it makes itself.

An inquiry knows its candidates beforehand; a study makes the next ones from the answers, as the
controls of significance tests require. It is journalled, answered, cached and replayed like a
trial, and its conversations count in the ledger under `other`. A conversation whose call fails ends
alone; the study decides what that means.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, cast

from medstress.core.calls import Answer, Call, Reply, Request
from medstress.core.errors import MedstressError, TrialError
from medstress.core.hashing import content_hash
from medstress.core.items import Candidate, Question
from medstress.core.queries import Consult
from medstress.engine.asking import Held, UnansweredError, answer_all, answers_of
from medstress.engine.inquiry import InquiryFlow, InquiryResult
from medstress.engine.requests import CallRound, Purpose
from medstress.tasks.flows import changed
from medstress.tasks.multiple_choice import Flow
from medstress.tasks.task import Task
from medstress.tasks.victim import Victim

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
class Study:
    """A study with one victim, of one item or of several."""

    purpose: Purpose
    """`test` or `judge`."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: Victim
    """The model whose row of the ledger it counts in."""
    attack_label: str
    """Label of the attack: the ledger row the study counts in."""
    attack_spec: dict[str, Any]
    """The attack's parameters, as stored with the arm of its trials."""
    seed: int | None
    """Seed of that row."""
    item: Question
    """The item, or the first of several."""
    spec: dict[str, Any]
    """All that defines the study, as JSON values; stored beside its findings (as `told`) and part
    of the id."""
    steps: Callable[[], StudyFlow]
    """Starts the generator; it takes the same steps in every process. It returns what was found; a
    `note` there says why it is not finished, so that it may be asked again."""
    has_deadline: ClassVar[bool] = False
    repeat: ClassVar[int] = 0
    place: ClassVar[int] = 0

    def start(self) -> InquiryFlow:
        """See `conduct_study`."""
        return conduct_study(self)

    @property
    def id(self) -> str:
        """Content hash of its place in the ledger, its item and its spec."""
        place = [self.dataset, self.group, self.victim.label, self.attack_label, self.seed]
        item = [self.item.id, self.item.hash]
        return content_hash([self.purpose.value, place, item, self.spec])


def conduct_study(study: Study) -> InquiryFlow:
    """Run a study.

    Yields:
        Rounds of calls; every conversation is a query, numbered from 1.

    Returns:
        The result, with what the study's generator returned as its findings.
    """
    result = InquiryResult(purpose=study.purpose, spec=study.spec)
    try:
        result.findings = yield from _drive(study)
        result.note = result.findings.pop("note", None)
    except MedstressError:
        raise
    except (UnansweredError, TrialError) as error:
        result.note = str(error)
    except Exception as error:  # noqa: BLE001 - the guard that trials have too
        result.note = f"a defect of the study or task: {type(error).__name__}: {error}"
    return result


def _drive(study: Study) -> Generator[CallRound, tuple[Reply, ...], dict[str, Any]]:
    steps, n_held = study.steps(), 0
    try:
        step = next(steps)
        while True:
            replies: Replies
            if isinstance(step, Consult):
                replies = yield from _consult(study, step)
            else:
                flows = [_flow(talk) for talk in step.conversations]
                replies = yield from answer_all(flows, study.purpose, n_held)
                n_held += len(step.conversations)
            step = steps.send(replies)
    except StopIteration as stop:
        found: dict[str, Any] = stop.value
        return found
    finally:
        steps.close()


def _flow(talk: ConversationRequest) -> Flow:
    flow = talk.victim.flow(talk.candidate)
    if talk.sample is None:
        return flow
    task = cast(Task, talk.victim.task)  # conversations are with victims that take prompts
    offset = FIRST_SAMPLE + talk.sample * task.n_samples
    return changed(flow, lambda request: replace(request, sample=request.sample + offset))


def _consult(
    study: Study, step: Consult
) -> Generator[CallRound, tuple[Reply, ...], tuple[Answer, ...]]:
    # A repeated call of one step is another sample; otherwise one answer would come back twice.
    requests: list[Request] = []
    seen: dict[Call, int] = {}
    for call in step.calls:
        seen[call] = seen.get(call, -1) + 1
        requests.append(Request(call, step.sample + seen[call]))
    replies = yield CallRound(
        role=step.role,
        purpose=study.purpose,
        query=None,
        call=0,
        requests=tuple(requests),
        candidate=None,
    )
    return answers_of(replies)
