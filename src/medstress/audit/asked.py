"""What one trial asked of its victim, query by query, and what the answers say."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

from medstress.core.calls import Answer, Chosen, Request
from medstress.core.items import Item
from medstress.core.outcomes import Prediction
from medstress.core.text import Edit
from medstress.engine.requests import VICTIM, Purpose
from medstress.prompts import PromptSet
from medstress.store.codec import decode_edits
from medstress.store.consumed import ConsumedCall
from medstress.store.prompts import Prompts
from medstress.tasks.conversation import Conversation
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice
from medstress.tasks.task import AnyTask


@dataclass(slots=True)
class AskedQuery:
    """One query, with the answers to its calls in order."""

    edits: tuple[Edit, ...] = ()
    edits_text: str | None = None
    """As stored."""
    answers: list[Answer | None] = field(default_factory=list)
    requests: list[str | None] = field(default_factory=list)


class _Mute:
    """Stands for the words of a conversation, which say nothing of how its answers are read."""

    hash = ""

    def render(self, *_: Any, **__: Any) -> str:
        return ""


def queries_of(calls: Iterable[ConsumedCall]) -> dict[tuple[str, int], AskedQuery]:
    """Return (purpose, query) -> what was asked of the victim, in order."""
    found: dict[tuple[str, int], AskedQuery] = {}
    for call in calls:
        if call.role != VICTIM or call.query is None:
            continue
        asked = found.setdefault((call.purpose, call.query), AskedQuery())
        if call.edits is not None and not asked.answers:
            asked.edits, asked.edits_text = decode_edits(call.edits), call.edits
        asked.answers.append(call.answer)
        asked.requests.append(call.request)
    return found


def attack_numbers(queries: Mapping[tuple[str, int], AskedQuery]) -> list[int]:
    """Return the numbers of the attack's queries, in order."""
    return [number for purpose, number in queries if purpose == Purpose.ATTACK]


class Readings:
    """Reads answers again, by the parser that a run names."""

    def __init__(self, manifest: Mapping[str, Any]) -> None:
        self._prompts = Prompts(manifest)

    def prediction(
        self,
        place: tuple[str, str],
        item: Item,
        asked: AskedQuery,
        *,
        in_turns: bool,
    ) -> Prediction | None:
        """Return what a query's answers say; None if a call of it was not answered.

        Args:
            place: victim and data set.
            item: the trial's unit.
            asked: the query.
            in_turns: whether the attack asks in a conversation.
        """
        task, answers = self._prompts.task(*place), asked.answers
        if in_turns and isinstance(task, MultipleChoice):
            task = _conversation(task, asked.requests)
        elif not self._prompts.has_form(*place):
            answers = [_own_text(*pair) for pair in zip(answers, asked.requests, strict=True)]
        return _read(task, item.candidate(asked.edits), answers)


def _read(task: AnyTask, candidate: Any, answers: Sequence[Answer | None]) -> Prediction | None:
    flow, left = task.flow(candidate), list(answers)
    try:
        requests: tuple[Request, ...] = next(flow)
        while True:
            taken, left = left[: len(requests)], left[len(requests) :]
            if len(taken) < len(requests) or None in taken:
                return None
            requests = flow.send(cast("tuple[Answer, ...]", tuple(taken)))
    except StopIteration as stop:
        found: Prediction = stop.value
        return found
    finally:
        flow.close()


def _conversation(task: MultipleChoice, requests: Sequence[str | None]) -> Conversation:
    first = next((request for request in requests if request is not None), None)
    return Conversation(
        own=task,
        prompts=cast("PromptSet", _Mute()),
        parser=task.parser,
        by_letter=task.answer_by is AnswerBy.LETTER,
        in_turns=first is None or not isinstance(json.loads(first)[0][1], str),
    )


def _own_text(answer: Answer | None, request: str | None) -> Answer | None:
    """Return an answer without the prompt that some functions return in front of it.

    A prompt without a form cannot be made again, but its requests are stored.
    """
    if not isinstance(answer, Chosen) or answer.text is None or request is None:
        return answer
    prompt = json.loads(request)[0][1]
    return replace(answer, text=answer.text.removeprefix(str(prompt)))
