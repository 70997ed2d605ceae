"""What an attack may yield: queries to the victim, and calls to other roles."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeAlias, TypeVar, cast

from medstress.core.calls import Answer, Call
from medstress.core.frozen import fast_init
from medstress.core.hashing import canonical_json
from medstress.core.outcomes import Prediction

ATTACKER, JUDGE = "attacker", "judge"
"""Roles that MedFuzz asks."""
LOOKAHEAD = 32
"""Queries built ahead, so that a large budget takes no more memory than a small one. Back ends
compute fewer than this early, because an answer may make the rest needless."""


@fast_init
@dataclass(frozen=True, slots=True)
class Predict:
    """One query: what does the victim answer about this candidate?"""

    candidate: Any
    """An edited item (`medstress.core.items.Edited`), of the kind that the attack was given."""
    probe: bool = False
    """Asked to learn something, such as which span matters: counts against the budget, and is
    never a success."""
    attempt: int | None = None
    """Number of the attempt that asks it, from 1, for attacks whose attempts may ask nothing."""
    sample: int = 0
    """Index of a repetition: calls of queries that differ in it are calls of their own, also where
    their prompts are equal. 0 for all queries but repeats."""


@fast_init
@dataclass(frozen=True, slots=True)
class Ask:
    """A step of an attack: queries, asked in order."""

    queries: tuple[Predict, ...]
    """Never empty. Each counts against the budget when it is consumed."""
    then: tuple[Predict, ...] = ()
    """What will be asked next if nothing succeeds; may be computed early, counts only when
    consumed."""
    keeps_open: bool = False
    """Whether a success lets the attack go on until its next `Ask`, to consult a role about it."""


@dataclass(frozen=True, slots=True)
class Consult:
    """A step that asks another role (attacker, judge, embedder); outside the budget."""

    role: str
    calls: tuple[Call, ...]
    sample: int = 0
    """Index of a sampled call; part of the cache key. Equal calls of one step are samples of one
    another and count on from it."""


@dataclass(frozen=True, slots=True)
class Note:
    """A step that puts something into the trial's record; asks nothing, is sent nothing."""

    text: str
    """JSON."""


@dataclass(frozen=True, slots=True)
class CleanAnswer:
    """A step that reads the victim's answer about the clean item, which is known: no query."""


Step: TypeAlias = Ask | Consult | Note | CleanAnswer
Replies: TypeAlias = tuple[Prediction, ...] | tuple[Answer, ...]

T = TypeVar("T")
Steps: TypeAlias = Generator[Step, Replies, T]


def ask(
    queries: Sequence[Predict], then: Sequence[Predict] = (), *, keeps_open: bool = False
) -> Generator[Step, Replies, tuple[Prediction, ...]]:
    """Ask queries from inside an attack: ``(answer,) = yield from ask([Predict(candidate)])``.

    Returns:
        One prediction a query, same order. If a query reaches the goal, the driver ends the attack
        there, because later ones are not asked; with `keeps_open` it does so at the next `Ask`.

    Raises:
        BudgetExhausted: at the yield, if the list does not fit the budget; nothing is asked.
    """
    replies = yield Ask(tuple(queries), tuple(then), keeps_open)
    return cast(tuple[Prediction, ...], replies)


def ask_in_turn(
    queries: Iterable[Predict], lookahead: int = LOOKAHEAD
) -> Generator[Step, Replies, Any]:
    """Ask one query after another until one reaches the goal.

    Args:
        queries: may be built lazily.
        lookahead: how many are held at a time, including the one asked.

    Returns:
        The candidate that reached the goal, or None.
    """
    left = iter(queries)
    waiting = deque(islice(left, lookahead))
    while waiting:
        query = waiting.popleft()
        # The same as `ask`, without one more generator per query.
        (answer,) = yield Ask((query,), tuple(waiting))
        assert isinstance(answer, Prediction)
        if answer.reached_goal:
            return query.candidate
        waiting.extend(islice(left, 1))
    return None


def consult(
    role: str, calls: Sequence[Call], sample: int = 0
) -> Generator[Step, Replies, tuple[Answer, ...]]:
    """Ask another role from inside an attack; the answers come in the calls' order."""
    replies = yield Consult(role, tuple(calls), sample)
    return cast(tuple[Answer, ...], replies)


def note(entry: Mapping[str, Any]) -> Generator[Step, Replies, None]:
    """Put an entry into the trial's record from inside an attack."""
    yield Note(canonical_json(entry))


def clean_answer() -> Generator[Step, Replies, Prediction]:
    """Read the answer on the clean item from inside an attack; it costs nothing."""
    (reply,) = yield CleanAnswer()
    assert isinstance(reply, Prediction)
    return reply
