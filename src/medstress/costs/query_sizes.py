"""The size of a query before it is asked: a rigorous bound and an estimate."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from medstress.backends.server.replies import most_tokens, plain
from medstress.core.calls import Call, Choose, Generate, Rank, Score
from medstress.core.items import Candidate, Question
from medstress.costs.usual import CONFIDENCES, REASONING_TURN, SHORT_ANSWER, written
from medstress.tasks.conversation import Conversation
from medstress.tasks.task import AnyTask, Task

CHARACTERS_PER_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class QuerySize:
    """The tokens of one query with all its calls."""

    most_in: int
    """Bound of tokens read: a text has at most as many tokens as bytes."""
    most_out: int
    """Bound of tokens written."""
    about_in: int
    """Estimate of tokens read, from the number of characters."""
    about_out: int
    """Estimate of tokens written, from the kind of answer."""
    about_calls: int
    """Calls, if no reply has to be repaired."""
    n_places: int
    """Most places where the text of one option occurs."""

    def longer_by(self, n_bytes: int) -> int:
        """Return the bound of tokens read if an option has `n_bytes` more bytes."""
        return self.most_in + self.n_places * n_bytes


def query_size(task: Task, item: Question, model: str) -> QuerySize:
    """Measure a victim's query about an unchanged item, from the calls it makes first.

    Args:
        task: the victim's task.
        item: the item.
        model: the model's name, which may say that it reasons.
    """
    flow = task.flow(Candidate(item=item))
    first = next(flow)
    flow.close()
    n = task.n_calls(len(item.options))
    sizes = [_size(request.call, model) for request in first]
    about_in = n * sum(size.about_in for size in sizes) // len(sizes)
    about_out, about_calls = n * max(size.about_out for size in sizes), n
    if isinstance(task, Conversation):
        # Three turns; later ones read the earlier again.
        thoughts = min(REASONING_TURN, task.decoding.max_new_tokens)
        short = SHORT_ANSWER if not task.by_letter else 1
        about_calls, about_out = 3, thoughts + CONFIDENCES + short
        about_in = 3 * sizes[0].about_in + 2 * thoughts + CONFIDENCES
    # Later turns of a conversation may be longer than its first.
    written = getattr(task, "most_written", n * max(size.most_out for size in sizes))
    return QuerySize(
        most_in=n * max(size.most_in for size in sizes),
        most_out=written,
        about_in=about_in,
        about_out=about_out,
        about_calls=about_calls,
        n_places=n * max(size.n_places for size in sizes),
    )


def round_size(task: AnyTask, item: Any, model: str) -> QuerySize | None:
    """Measure the first calls about a sentence or pair; None if they are no prompts."""
    flow = task.flow(item.candidate())
    calls = [request.call for request in next(flow)]
    flow.close()
    if not all(isinstance(call, Generate | Score) for call in calls):
        return None
    sizes = [_size(call, model) for call in calls]
    names = [each.name for each in fields(QuerySize)]
    return QuerySize(**{name: sum(getattr(size, name) for size in sizes) for name in names})


def _size(call: Call, model: str) -> QuerySize:
    out, places = 0, 1
    about_out: int | None = None
    match call:
        case Generate():
            texts, out = [plain(call.prompt)], call.decoding.max_new_tokens
            about_out = written(model, out)
        case Choose():
            texts = [call.prompt]
        case Rank():
            texts = [call.prompt + option for option in call.options]
        case Score(first_token=True):
            texts, out = [plain(call.prompt) + max(call.continuations, key=len)], 1
        case Score():
            prompt = plain(call.prompt)
            texts = [prompt, *(prompt + text for text in call.continuations)]
            places = 2  # in the prompt, and as the continuation
    return QuerySize(
        most_in=most_tokens(texts),
        most_out=out,
        about_in=sum(map(len, texts)) // CHARACTERS_PER_TOKEN,
        about_out=out if about_out is None else about_out,
        about_calls=1,
        n_places=places * len(texts),
    )
