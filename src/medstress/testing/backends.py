"""The conformance suite of back ends, and one whose answers come from a function."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

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
    Failure,
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
from medstress.core.registry import backend_fault


def check_backend(backend: Backend, calls: Sequence[Call], *, tolerance: float = 1e-3) -> None:
    """Check that a back end keeps the contract of `Backend`.

    Its identity has a name and a hash and never changes. Every call of a batch gets one reply of
    its kind, in order. Batching does not change the answers: all calls together, reversed, one by
    one, and each twice in a batch give the same ones. Texts generated at a temperature above 0 are
    not compared. The back end is left open.

    Args:
        backend: an open back end.
        calls: different calls that it can answer; use five or more.
        tolerance: largest difference of log probabilities and scores between batches.

    Raises:
        AssertionError: one sentence, naming the call.

    >>> from medstress.backends.mock import MockBackend
    >>> check_backend(MockBackend(), [Choose("Which?", "AB"), Score("Yes or no?", (" yes", " no"))])
    """
    if not calls:
        raise AssertionError("check_backend needs at least one call, got none")
    identity = _check_declared(backend, calls)
    together = _ask(backend, calls)
    for call, reply in zip(calls, together, strict=True):
        _check_reply(call, reply)
    orders = {
        "in reversed order": _ask(backend, calls[::-1])[::-1],
        "one by one": [reply for call in calls for reply in _ask(backend, [call])],
        "each twice": _ask(backend, [call for call in calls for _ in range(2)])[::2],
    }
    for order, replies in orders.items():
        for call, reply, other in zip(calls, together, replies, strict=True):
            _check_reply(call, other)
            if not _agree(call, reply, other, tolerance):
                raise AssertionError(
                    f"asked {order}, the back end answers {_shown(call)} with {other}, but with "
                    f"{reply} before: replies must come in the order of the calls and not "
                    "depend on the rest of the batch"
                )
    if backend.identity != identity:
        raise AssertionError(
            f"the identity changed from {identity} to {backend.identity} while answering"
        )


def _check_declared(backend: Backend, calls: Sequence[Call]) -> ModelIdentity:
    if fault := backend_fault(backend):
        raise AssertionError(f"the back end {fault}")
    identity = backend.identity
    if not isinstance(identity, ModelIdentity) or not identity.name or not identity.hash:
        raise AssertionError(f"the identity needs a name and a hash, got {identity!r}")
    if backend.identity != identity:
        raise AssertionError("the identity differs from one access to the next")
    traits = backend.traits
    for name, value, least in (
        ("batch_size", traits.batch_size, 1),
        ("workers", traits.workers, 1),
        ("ahead", traits.ahead, 0),
    ):
        if type(value) is not int or value < least:
            raise AssertionError(f"{name} must be a whole number from {least}, got {value!r}")
    for call in calls:
        if call.kind not in traits.calls:
            raise AssertionError(
                f"the back end declares the calls {sorted(traits.calls)}, not {call.kind!r}: "
                "give calls that it can answer"
            )
    return identity


def _ask(backend: Backend, calls: Sequence[Call]) -> list[Any]:
    replies: list[Any] = []
    for start in range(0, len(calls), backend.traits.batch_size):
        batch = list(calls[start : start + backend.traits.batch_size])
        answered = backend.answer(batch)
        if len(answered) != len(batch):
            raise AssertionError(
                f"the back end returned {len(answered)} replies for {len(batch)} calls; expected "
                "one per call, in the same order"
            )
        replies += answered
    return replies


def _check_reply(call: Call, reply: Any) -> None:
    if isinstance(reply, Failure):
        raise AssertionError(f"the back end failed on {_shown(call)}: {reply.error}")
    match call:
        case Generate():
            fault = None if isinstance(reply, Generated) else "expected Generated"
        case Score():
            fault = _fault_of_scored(call.continuations, reply)
        case Rank():
            fault = _fault_of_scored(call.options, reply) or _fault_of_shares(reply)
        case Choose():
            fault = _fault_of_chosen(call.letters, "letter", reply)
        case Classify():
            fault = (
                _fault_of_scored(call.labels, reply)
                if isinstance(reply, Scored)
                else _fault_of_chosen(call.labels, "label", reply)
            )
        case Tag():
            is_whole = isinstance(reply, Tagged) and len(reply.labels) == len(call.tokens)
            fault = None if is_whole else "expected Tagged with one label per token"
        case Compare():
            is_finite = isinstance(reply, Compared) and math.isfinite(reply.score)
            fault = None if is_finite else "expected Compared with a finite score"
    if fault:
        raise AssertionError(f"{fault} as the reply to {_shown(call)}, got {reply!r}")
    if min(reply.tokens_in, reply.tokens_out) < 0:
        raise AssertionError(f"tokens cannot be negative: the reply to {_shown(call)} is {reply!r}")


def _fault_of_scored(texts: Sequence[str], reply: Any) -> str | None:
    if not isinstance(reply, Scored):
        return "expected Scored"
    n = len(texts)
    if len(reply.log_probs) != n or len(reply.n_tokens) != n:
        return f"expected {n} log probabilities and token counts, one per continuation,"
    if any(value > 1e-4 for value in reply.log_probs):
        return "expected natural log probabilities, none above 0,"
    if min(reply.n_tokens) < 0:
        return "expected token counts of 0 or more"
    return None


def _fault_of_shares(reply: Scored) -> str | None:
    total = sum(math.exp(value) for value in reply.log_probs)
    if math.isclose(total, 1.0, abs_tol=1e-4):
        return None
    return f"expected probabilities of the options that sum to 1, not {total:.4g},"


def _fault_of_chosen(names: Sequence[str], noun: str, reply: Any) -> str | None:
    if not isinstance(reply, Chosen):
        return "expected Chosen"
    given = [part for part in (reply.text, reply.answer, reply.scores) if part is not None]
    if len(given) != 1:
        return "expected exactly one of text, answer and scores"
    if reply.answer is not None and reply.answer not in tuple(names):
        return f"expected one of the {noun}s {', '.join(names)}"
    if reply.scores is not None and len(reply.scores) != len(names):
        return f"expected {len(names)} scores, one per {noun},"
    return None


def _agree(call: Call, one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(call, Generate):
        return call.decoding.temperature > 0 or one.text == other.text
    if isinstance(one, Scored):
        return _close(one.log_probs, other.log_probs, tolerance)
    if isinstance(call, Tag):
        return bool(one.labels == other.labels)
    if isinstance(call, Compare):
        return _close([one.score], [other.score], tolerance)
    if one.scores is not None and other.scores is not None:
        return _close(one.scores, other.scores, tolerance)
    return (one.text, one.answer) == (other.text, other.answer)


def _close(one: Sequence[float], other: Sequence[float], tolerance: float) -> bool:
    return all(
        a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        for a, b in zip(one, other, strict=True)
    )


def _shown(call: Call) -> str:
    text = repr(call)
    return text if len(text) <= 120 else f"{text[:117]}..."


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
