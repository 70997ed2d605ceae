"""The size of a query before it is asked: a rigorous bound and an estimate."""

from __future__ import annotations

from dataclasses import dataclass

from medstress.backends.server.replies import most_tokens, plain
from medstress.core.calls import Call, Choose, Generate, Rank, Score
from medstress.core.items import Candidate, Question
from medstress.tasks.task import Task

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
    n_places: int
    """Most places where the text of one option occurs."""

    def longer_by(self, n_bytes: int) -> int:
        """Return the bound of tokens read if an option has `n_bytes` more bytes."""
        return self.most_in + self.n_places * n_bytes


def query_size(task: Task, item: Question) -> QuerySize:
    """Measure a victim's query about an unchanged item, from the calls it makes first."""
    flow = task.flow(Candidate(item=item))
    first = next(flow)
    flow.close()
    n = task.n_calls(len(item.options))
    sizes = [_size(request.call) for request in first]
    # Later turns of a conversation may be longer than its first.
    written = getattr(task, "most_written", n * max(size.most_out for size in sizes))
    return QuerySize(
        most_in=n * max(size.most_in for size in sizes),
        most_out=written,
        about_in=n * sum(size.about_in for size in sizes) // len(sizes),
        n_places=n * max(size.n_places for size in sizes),
    )


def _size(call: Call) -> QuerySize:
    out, places = 0, 1
    match call:
        case Generate():
            texts, out = [plain(call.prompt)], call.decoding.max_new_tokens
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
        n_places=places * len(texts),
    )
