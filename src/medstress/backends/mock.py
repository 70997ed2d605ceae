"""An instant victim that answers from a hash of the prompt, for tests and trying things out."""

from __future__ import annotations

import math
from collections.abc import Sequence

from medstress.backends.options import BackendOptions
from medstress.core.calls import (
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
from medstress.core.hashing import content_hash, digest


class MockBackend(Backend):
    """Answers every kind of call instantly; knows nothing and never fails."""

    def __init__(self, batch_size: int = 256) -> None:
        self.identity = ModelIdentity(name="mock", hash=content_hash(["mock", 1]))
        self.traits = BackendTraits(
            calls=frozenset({"generate", "score", "rank", "choose", "tag", "compare", "classify"}),
            batch_size=batch_size,
        )

    def answer(self, calls: Sequence[Call]) -> list[Reply]:
        """Answer every call from a hash of its content."""
        return [_answer(call) for call in calls]


def open_backend(options: BackendOptions) -> MockBackend:
    """Open the mock."""
    return MockBackend(options.batch_size or 256)


def _answer(call: Call) -> Reply:
    match call:
        case Choose(letters=letters):
            return Chosen(answer=letters[_draw(call, 0) % len(letters)])
        case Classify(labels=labels):
            return Chosen(answer=labels[_draw(call, 0) % len(labels)])
        case Score(continuations=texts) | Rank(options=texts):
            raw = [1 + _draw(call, i) % 1000 for i in range(len(texts))]
            logs = tuple(math.log(value / sum(raw)) for value in raw)
            return Scored(log_probs=logs, n_tokens=(1,) * len(logs))
        case Generate():
            return Generated(text="ABCD"[_draw(call, 0) % 4])
        case Tag(tokens=tokens):
            marks = (_draw(call, i) % 4 for i in range(len(tokens)))
            return Tagged(labels=tuple("O" if mark else "B-Entity" for mark in marks))
        case Compare():
            return Compared(score=_draw(call, 0) % 1000 / 1000)


def _draw(call: Call, i: int) -> int:
    return int.from_bytes(digest([call.canonical(), i])[:4], "little")
