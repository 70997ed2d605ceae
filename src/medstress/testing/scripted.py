"""A back end whose answers come from a function, for tests of tasks, attacks and the scheduler."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from medstress.core.calls import (
    Answer,
    Backend,
    BackendTraits,
    Call,
    Choose,
    Chosen,
    Classify,
    Compare,
    Compared,
    Generate,
    Generated,
    ModelIdentity,
    Rank,
    Reply,
    Score,
    Scored,
    Tag,
    Tagged,
)
from medstress.core.hashing import content_hash
from medstress.core.items import LETTERS

CALLS = frozenset({"generate", "score", "rank", "choose", "tag", "compare"})


def scripted_reply(call: Call, preferred: int = 0, share: float = 0.6) -> Answer:
    """Answer one call so that the option at position `preferred` wins.

    Args:
        call: the call.
        preferred: position of the winning option or continuation, from 0.
        share: its probability in scores; the others share the rest.

    >>> scripted_reply(Choose("Which?", "ABCD"), preferred=2).answer
    'C'
    """
    match call:
        case Generate():
            return Generated(text=LETTERS[preferred])
        case Choose(letters=letters):
            return Chosen(answer=letters[preferred])
        case Score(continuations=texts) | Rank(options=texts):
            n = len(texts)
            rest = math.log((1 - share) / max(n - 1, 1))
            logs = tuple(math.log(share) if i == preferred else rest for i in range(n))
            return Scored(log_probs=logs, n_tokens=(1,) * n)
        case Classify(labels=labels):
            return Chosen(answer=labels[preferred])
        case Tag(tokens=tokens):
            return Tagged(labels=("O",) * len(tokens))
        case Compare():
            return Compared(score=share)


class ScriptedBackend(Backend):
    """A back end whose replies come from a function of the call.

    Attributes:
        batches: the calls of every batch that it got, in order.
        n_closed: how often it was closed.
    """

    def __init__(
        self,
        reply: Callable[[Call], Reply] = scripted_reply,
        *,
        name: str = "scripted",
        batch_size: int = 32,
        workers: int = 1,
        ahead: int = 0,
        structured: bool = False,
    ) -> None:
        self.identity = ModelIdentity(name=name, hash=content_hash(["scripted", name]))
        self.traits = BackendTraits(
            calls=CALLS,
            batch_size=batch_size,
            workers=workers,
            ahead=ahead,
            structured=structured,
        )
        self.batches: list[tuple[Call, ...]] = []
        self.n_closed = 0
        self._reply = reply

    @property
    def asked(self) -> list[Call]:
        """All calls that it got, in order."""
        return [call for batch in self.batches for call in batch]

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call with the function."""
        self.batches.append(tuple(calls))
        return [self._reply(call) for call in calls]

    def close(self) -> None:
        """Count the call."""
        self.n_closed += 1
