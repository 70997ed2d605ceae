"""Defences: tasks around a task, whose flows are made of its flows.

A wrapped victim is asked like any other. A query counts as one query of the budget however many
calls it makes; every call is recorded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import count
from typing import Any

from medstress.core.calls import Answer, Chosen, Classify, Compare, Message, Prompt, Request, Tag
from medstress.core.hashing import digest
from medstress.core.items import Candidate
from medstress.core.outcomes import Outcome, Prediction
from medstress.tasks.flows import changed, together
from medstress.tasks.multiple_choice import FLOOR, UNCONDITIONED, Flow, mark
from medstress.tasks.option_order import letters_in, put_back, shown_in
from medstress.tasks.task import Task
from medstress.tasks.templates import Template
from medstress.tasks.ties import break_tie

_TIE = 1e-9
"""Mean probabilities that differ by less are tied: sums of the same shares in another order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """The base of wrappers: everything comes from the inner task unless a wrapper changes it."""

    inner: Task
    """The task that is wrapped."""

    @property
    def template(self) -> Template:
        """The inner task's."""
        return self.inner.template

    @property
    def is_sampled(self) -> bool:
        """As the inner task."""
        return self.inner.is_sampled

    @property
    def stores_requests(self) -> bool:
        """As the inner task."""
        return self.inner.stores_requests

    @property
    def n_samples(self) -> int:
        """As the inner task."""
        return self.inner.n_samples

    def n_calls(self, n_options: int) -> int:
        """As the inner task."""
        return self.inner.n_calls(n_options)

    def listing(self, candidate: Candidate) -> str:
        """As the inner task."""
        return self.inner.listing(candidate)


@dataclass(frozen=True, slots=True, kw_only=True)
class Majority(Wrapper):
    """The most frequent answer in k samples (self-consistency, Wang et al. 2022).

    Ties are broken as in scores (`medstress.tasks.ties`); an unreadable sample has no vote. Scores
    are shares of votes.
    """

    k: int = 5
    """Samples of a query; each has its own sample index."""

    @property
    def n_samples(self) -> int:
        """k times the inner task's."""
        return self.k * self.inner.n_samples

    def n_calls(self, n_options: int) -> int:
        """k times the inner task's."""
        return self.k * self.inner.n_calls(n_options)

    def flow(self, candidate: Candidate) -> Flow:
        """Run k inner flows at once and count their votes."""
        step = self.inner.n_samples
        flows = [_resampled(self.inner.flow(candidate), number * step) for number in range(self.k)]
        return elected(candidate, (yield from together(flows)))

    def spec(self) -> dict[str, Any]:
        """What defines it."""
        return {"wrap": "majority", "k": self.k, "task": self.inner.spec()}


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledOptions(Wrapper):
    """Ask with several orders of the options, and combine the answers by option.

    The first order is the item's own. If every readable answer has scores, the mean probability of
    each option decides; otherwise, or with `votes`, the most frequent answer. Ties are broken as in
    scores (`medstress.tasks.ties`). Unreadable answers are left out.
    """

    n: int | None = None
    """Orders of a query. None: all cyclic shifts, so that each option is in each place once. A
    smaller number takes the first shifts, a larger one adds fixed random orders."""
    aggregate: str = "mean"
    """`mean` or `votes`."""

    def n_calls(self, n_options: int) -> int:
        """The inner task's, once for each order."""
        return len(orders(n_options, self.n)) * self.inner.n_calls(n_options)

    def flow(self, candidate: Candidate) -> Flow:
        """Ask the inner task about every order at once."""
        item = candidate.item
        chosen = orders(len(item.options), self.n)
        flows = [self.inner.flow(_reordered(candidate, order)) for order in chosen]
        shown = yield from together(flows)
        predictions = [
            put_back(item, prediction, order)
            for prediction, order in zip(shown, chosen, strict=True)
        ]
        readable = [p for p in predictions if p.outcome is not Outcome.UNREADABLE]
        is_scored = readable and all(p.scores is not None for p in readable)
        if self.aggregate == "votes" or not is_scored:
            return elected(candidate, predictions)
        return _averaged(candidate, readable)

    def spec(self) -> dict[str, Any]:
        """What defines it."""
        own = {"wrap": "shuffled_options", "n": self.n, "aggregate": self.aggregate}
        return {**own, "task": self.inner.spec()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructed(Wrapper):
    """An instruction in front of every prompt; in a conversation, of its system turn."""

    text: str
    """The instruction."""

    def flow(self, candidate: Candidate) -> Flow:
        """Run the inner flow with the instruction before its prompts."""
        return (yield from changed(self.inner.flow(candidate), self._instruct, self._read))

    def listing(self, candidate: Candidate) -> str:
        """Return the instruction and the prompt."""
        return self._lead + self.inner.listing(candidate)

    def spec(self) -> dict[str, Any]:
        """Return what defines the task: the text, not its source."""
        return {"wrap": "instructed", "text": self.text, "task": self.inner.spec()}

    @property
    def _lead(self) -> str:
        return f"{self.text}\n\n"

    def _instruct(self, request: Request) -> Request:
        return put_before(request, self._before)

    def _before(self, prompt: Prompt) -> Prompt:
        if isinstance(prompt, str):
            return self._lead + prompt
        first, *others = prompt
        if first.role != "system":
            return (Message("system", self.text), *prompt)
        return (Message("system", (self._lead + first.content).strip()), *others)

    def _read(self, answer: Answer) -> Answer:
        return without_lead(answer, self._lead)


def put_before(request: Request, change: Any) -> Request:
    """Return a request with its prompt changed, unless it scores an option alone."""
    call = request.call
    if isinstance(call, Tag | Compare | Classify) or call.prompt == UNCONDITIONED:
        return request
    return replace(request, call=replace(call, prompt=change(call.prompt)))


def without_lead(answer: Answer, lead: str) -> Answer:
    """Remove the text put before the prompt from a function's answer that repeats its prompt."""
    if isinstance(answer, Chosen) and answer.text is not None:
        return replace(answer, text=answer.text.removeprefix(lead))
    return answer


def elected(candidate: Candidate, predictions: Sequence[Prediction]) -> Prediction:
    """Return the most frequent answer; ties are broken as in scores."""
    given = [p.answer for p in predictions if p.answer is not None]
    votes = Counter(given)
    if not votes:
        cut = next((p for p in predictions if p.finish_reason is not None), predictions[0])
        return replace(
            cut, outcome=Outcome.UNREADABLE, answer=None, scores=None, mass=None, is_tied=False
        )
    most = max(votes.values())
    tied = [answer for answer, n in votes.items() if n == most]  # in the order of being given
    letter = break_tie(candidate.item, tied)
    shares = [votes[option] / votes.total() for option in candidate.item.letters]
    return Prediction(
        outcome=mark(candidate, letter),
        answer=letter,
        scores=tuple(math.log(max(share, FLOOR)) for share in shares),
        is_tied=len(tied) > 1 or any(p.is_tied for p in predictions),
    )


@lru_cache(maxsize=64)
def orders(n_options: int, n: int | None = None) -> tuple[tuple[int, ...], ...]:
    """Return the orders of options to ask; each lists the original places.

    >>> orders(3)
    ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    >>> len(orders(3, 2)), len(orders(3, 5)), len(orders(2, 5))
    (2, 5, 2)
    """
    wanted = n_options if n is None else min(n, math.factorial(n_options))
    shifts = (tuple((i + s) % n_options for i in range(n_options)) for s in range(n_options))
    found = dict.fromkeys(shifts)
    for number in count():
        if len(found) >= wanted:
            break
        # Drawn by hash, so that every machine draws the same.
        drawn = sorted(range(n_options), key=lambda i: digest([n_options, number, i]))
        found[tuple(drawn)] = None
    return tuple(found)[:wanted]


def _resampled(flow: Flow, offset: int) -> Flow:
    return changed(flow, lambda request: replace(request, sample=request.sample + offset))


def _reordered(candidate: Candidate, order: tuple[int, ...]) -> Candidate:
    letters = letters_in(order)
    edits = (replace(e, field=letters.get(e.field, e.field)) for e in candidate.edits)
    return Candidate(item=shown_in(candidate.item, order), edits=tuple(edits))


def _averaged(candidate: Candidate, predictions: Sequence[Prediction]) -> Prediction:
    letters = candidate.item.letters
    rows = [[math.exp(value) for value in p.scores or ()] for p in predictions]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    best = max(means) - _TIE
    tied = [letter for letter, mean in zip(letters, means, strict=True) if mean >= best]
    answered = [p.answer for p in predictions if p.answer in tied]
    letter = break_tie(candidate.item, list(dict.fromkeys([*answered, *tied])))
    masses = [p.mass for p in predictions if p.mass is not None]
    return Prediction(
        outcome=mark(candidate, letter),
        answer=letter,
        scores=tuple(math.log(max(mean, FLOOR)) for mean in means),
        mass=sum(masses) / len(masses) if masses else None,
        is_tied=len(tied) > 1,
    )
