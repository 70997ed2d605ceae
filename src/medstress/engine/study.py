"""A generator that holds many conversations with a victim, about candidates it makes itself.

An inquiry knows its candidates beforehand; a study makes the next ones from the answers, as the
controls of a significance test require. It is journalled, answered, cached and replayed like a
trial, and its conversations count in the ledger under `other`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypeAlias, cast

from medstress.core.calls import Answer, Call, Reply, Request
from medstress.core.errors import MedstressError, TrialError
from medstress.core.hashing import content_hash
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Prediction
from medstress.core.queries import Consult
from medstress.engine.asking import UnansweredError, answer_all, answers_of
from medstress.engine.inquiry import InquiryFlow, InquiryResult
from medstress.engine.requests import CallRound, Purpose
from medstress.tasks.multiple_choice import Flow, Task, changed
from medstress.tasks.victim import Victim

FIRST_SAMPLE = 2_000_000
"""Offset of a study's sample indices, so that it never reads back an attack's stored answer."""


@dataclass(frozen=True, slots=True)
class ConversationRequest:
    """One conversation about a candidate."""

    candidate: Candidate
    """The candidate that is asked about."""
    sample: int | None = None
    """Index of the sample at the temperature of the statistic; None asks as the attack does."""


@dataclass(frozen=True, slots=True)
class HoldConversations:
    """A step of a study: hold conversations side by side."""

    conversations: tuple[ConversationRequest, ...]
    """Never empty; the step returns one prediction for each, in order."""


Replies: TypeAlias = tuple[Prediction, ...] | tuple[Answer, ...]
StudyFlow: TypeAlias = Generator[HoldConversations | Consult, Replies, dict[str, Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Study:
    """A study of one item with one victim."""

    purpose: Purpose
    """`test` or `judge`."""
    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: Victim
    """The model, asked as the attack asks."""
    sampled: Victim
    """The same victim at the temperature of the statistic."""
    attack_label: str
    """Label of the attack: the ledger row the study counts in."""
    attack_spec: dict[str, Any]
    """The attack's parameters, as stored with the arm of its trials."""
    seed: int | None
    """Seed of that row."""
    item: Question
    """The item."""
    spec: dict[str, Any]
    """All that defines the study, as JSON values; stored beside its findings (as `told`) and part
    of the id."""
    steps: Callable[[], StudyFlow]
    """Starts the generator; it takes the same steps in every process."""
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
                replies = yield from _converse(study, step, n_held)
                n_held += len(step.conversations)
            step = steps.send(replies)
    except StopIteration as stop:
        found: dict[str, Any] = stop.value
        return found
    finally:
        steps.close()


def _converse(
    study: Study, look: HoldConversations, n_held: int
) -> Generator[CallRound, tuple[Reply, ...], tuple[Prediction, ...]]:
    """Hold the conversations of a step side by side, turn by turn, until all have ended."""
    flows = [_flow(study, talk) for talk in look.conversations]
    return (yield from answer_all(flows, study.purpose, n_held))


def _flow(study: Study, talk: ConversationRequest) -> Flow:
    flow = (study.victim if talk.sample is None else study.sampled).flow(talk.candidate)
    offset = _offset(study, talk)
    if not offset:
        return flow
    return changed(flow, lambda request: replace(request, sample=request.sample + offset))


def _offset(study: Study, talk: ConversationRequest) -> int:
    if talk.sample is None:
        return 0
    task = cast(Task, study.sampled.task)  # conversations are with victims that take prompts
    return FIRST_SAMPLE + talk.sample * task.n_samples


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
