"""Conformance suites of back ends, data sets and tasks: what their contracts say, asserted."""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Generator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.core.calls import (
    Answer,
    Backend,
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
    Request,
    Score,
    Scored,
    Tag,
    Tagged,
)
from medstress.core.errors import MedstressError, reason
from medstress.core.hashing import canonical_json
from medstress.core.items import Candidate, Item, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.registry import backend_fault
from medstress.core.text import Edit
from medstress.datasets.source import DatasetOptions, Loaded
from medstress.tasks.multiple_choice import AnyTask
from medstress.testing.scripted import scripted_reply

_MAX_ROUNDS = 100
Rounds = list[tuple[Request, ...]]
Load = Callable[[DatasetOptions], Any]


# -- back ends -------------------------------------------------------------------------------------
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
    assert calls, "check_backend needs at least one call, got none"
    fault = backend_fault(backend)
    assert not fault, f"the back end {fault}"
    identity, traits = backend.identity, backend.traits
    is_named = isinstance(identity, ModelIdentity) and identity.name and identity.hash
    assert is_named, f"the identity needs a name and a hash, got {identity!r}"
    for name, least in (("batch_size", 1), ("workers", 1), ("ahead", 0)):
        value = getattr(traits, name)
        is_number = type(value) is int and value >= least
        assert is_number, f"{name} must be a whole number from {least}, got {value!r}"
    for call in calls:
        assert call.kind in traits.calls, (
            f"the back end declares the calls {sorted(traits.calls)}, not {call.kind!r}: give "
            "calls that it can answer"
        )
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
            assert _agree(call, reply, other, tolerance), (
                f"asked {order}, the back end answers {_shown(call)} with {other}, but with "
                f"{reply} before: replies must come in the order of the calls and not depend on "
                "the rest of the batch"
            )
    now = backend.identity
    assert now == identity, f"the identity changed from {identity} to {now} while answering"


def _ask(backend: Backend, calls: Sequence[Call]) -> list[Any]:
    replies: list[Any] = []
    for start in range(0, len(calls), backend.traits.batch_size):
        batch = list(calls[start : start + backend.traits.batch_size])
        answered = backend.answer(batch)
        assert len(answered) == len(batch), (
            f"the back end returned {len(answered)} replies for {len(batch)} calls; expected one "
            "per call, in the same order"
        )
        replies += answered
    return replies


def _check_reply(call: Call, reply: Any) -> None:
    failed = isinstance(reply, Failure)
    assert not failed, f"the back end failed on {_shown(call)}: {reply.error}"
    fault = _fault(call, reply)
    assert not fault, f"{fault} as the reply to {_shown(call)}, got {reply!r}"
    n = min(reply.tokens_in, reply.tokens_out)
    assert n >= 0, f"tokens cannot be negative: the reply to {_shown(call)} is {reply!r}"


def _fault(call: Call, reply: Any) -> str | None:
    match call:
        case Generate():
            return None if isinstance(reply, Generated) else "expected Generated"
        case Score(continuations=texts) | Rank(options=texts):
            return _fault_of_scored(texts, reply, sums_to_1=isinstance(call, Rank))
        case Choose(letters=names):
            return _fault_of_chosen(names, "letter", reply)
        case Classify(labels=names) if isinstance(reply, Scored):
            return _fault_of_scored(names, reply)
        case Classify(labels=names):
            return _fault_of_chosen(names, "label", reply)
        case Tag(tokens=tokens):
            is_whole = isinstance(reply, Tagged) and len(reply.labels) == len(tokens)
            return None if is_whole else "expected Tagged with one label per token"
        case Compare():
            is_finite = isinstance(reply, Compared) and math.isfinite(reply.score)
            return None if is_finite else "expected Compared with a finite score"


def _fault_of_scored(texts: Sequence[str], reply: Any, *, sums_to_1: bool = False) -> str | None:
    if not isinstance(reply, Scored):
        return "expected Scored"
    n = len(texts)
    if len(reply.log_probs) != n or len(reply.n_tokens) != n:
        return f"expected {n} log probabilities and token counts, one per continuation,"
    if any(value > 1e-4 for value in reply.log_probs):
        return "expected natural log probabilities, none above 0,"
    if min(reply.n_tokens) < 0:
        return "expected token counts of 0 or more"
    total = sum(map(math.exp, reply.log_probs))
    if sums_to_1 and not math.isclose(total, 1.0, abs_tol=1e-4):
        return f"expected probabilities of the options that sum to 1, not {total:.4g},"
    return None


def _fault_of_chosen(names: Sequence[str], noun: str, reply: Any) -> str | None:
    if not isinstance(reply, Chosen):
        return "expected Chosen"
    if [reply.text, reply.answer, reply.scores].count(None) != 2:
        return "expected exactly one of text, answer and scores"
    if reply.answer is not None and reply.answer not in tuple(names):
        return f"expected one of the {noun}s {', '.join(names)}"
    if reply.scores is not None and len(reply.scores) != len(names):
        return f"expected {len(names)} scores, one per {noun},"
    return None


def _agree(call: Call, one: Any, other: Any, tolerance: float) -> bool:
    if isinstance(call, Generate):
        return call.decoding.temperature > 0 or one.text == other.text
    if isinstance(call, Tag):
        return bool(one.labels == other.labels)
    first, second = _numbers(one), _numbers(other)
    if first is None or second is None:
        return (one.text, one.answer) == (other.text, other.answer)
    return all(
        a == b or math.isclose(a, b, rel_tol=tolerance, abs_tol=tolerance)
        for a, b in zip(first, second, strict=True)
    )


def _numbers(reply: Any) -> Sequence[float] | None:
    match reply:
        case Scored():
            return reply.log_probs
        case Compared():
            return [reply.score]
        case Chosen():
            return reply.scores
    return None


def _shown(call: Call) -> str:
    text = repr(call)
    return text if len(text) <= 120 else f"{text[:117]}..."


# -- data sets -------------------------------------------------------------------------------------
def check_dataset(load: Load, options: DatasetOptions) -> None:
    """Check that a source of data keeps the contract of the entry points `medstress.datasets`.

    It returns `Loaded` with at least one item, all of one kind, with ids that are
    texts and differ. Read again, it gives the same. Skipped rows are told in one sentence each.
    Where the options name a file: a file that is missing, empty or no text is refused with a
    `MedstressError`, whose sentence medstress prints; and a changed file has another
    `source_hash`, by which a resumed run notices.

    Args:
        load: the function that the entry point names.
        options: of a small example.

    Raises:
        AssertionError: one sentence.

    >>> from medstress.datasets.named import load_sample
    >>> check_dataset(load_sample, DatasetOptions())
    """
    loaded, path = load(options), options.path
    assert isinstance(loaded, Loaded), f"expected Loaded, got {type(loaded).__name__}"
    items = loaded.items
    is_some = isinstance(items, tuple) and items
    assert is_some, f"expected a tuple of at least one item, got {items!r}"
    for item in items:
        assert isinstance(item, Item), f"expected an item, got {type(item).__name__}"
        is_text = isinstance(item.id, str) and item.id
        assert is_text, f"expected ids that are texts, got {item.id!r}"
    kinds, ids = sorted({item.kind for item in items}), [item.id for item in items]
    assert len(kinds) == 1, f"expected items of one kind, got {' and '.join(kinds)}"
    for name in ids:
        assert ids.count(name) == 1, f"two items have the id {name!r}"
    source_hash = loaded.source_hash
    is_hash = isinstance(source_hash, str) and source_hash
    assert is_hash, f"expected a source_hash, got {source_hash!r}"
    for sentence in (*loaded.skipped, *loaded.notes):
        is_one = isinstance(sentence, str) and len(sentence.splitlines()) == 1
        assert is_one, f"expected one sentence on one line, got {sentence!r}"
    assert load(options) == loaded, "read a second time, the same options give something else"
    if path is None or not path.is_file():
        return
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / path.name
        _check_refusal(load, replace(options, path=own), "a missing file")
        for what, content in (
            ("an empty file", b""),
            ("a file that is no text", b"\xff\xfe\0\x9d"),
        ):
            own.write_bytes(content)
            _check_refusal(load, replace(options, path=own), what)
        own.write_bytes(path.read_bytes() + b"\n")  # changes no item, but the bytes
        try:
            other = load(replace(options, path=own))
        except MedstressError:
            return
    is_new = other.source_hash != source_hash
    assert is_new, "another file has the same source_hash: use file_hash(options.path)"


def _check_refusal(load: Load, options: DatasetOptions, what: str) -> None:
    try:
        load(options)
    except MedstressError:
        return
    except Exception as error:  # noqa: BLE001 what a source raises is what is judged
        came = f"got {type(error).__name__}: {reason(error)}"
    else:
        came = "it was read"
    raise AssertionError(f"expected a UsageError or DataError for {what}, but {came}")


# -- tasks -----------------------------------------------------------------------------------------
def check_task(task: AnyTask, items: Sequence[Question]) -> None:
    """Check that a task turns candidates into calls and answers into predictions.

    Rounds are non-empty tuples of hashable requests, equal for equal candidates. Prompts do not end
    in white space, and an edited option changes a request. If the replies prefer an option without
    a tie, the task answers that option. Outcome, answer and scores are consistent, `reached_goal`
    is left to the referee, and the flow closes cleanly after any round.

    Args:
        task: the task.
        items: questions to check it on.

    Raises:
        AssertionError: one sentence, naming the item.

    >>> from medstress.tasks.multiple_choice import MultipleChoice
    >>> from medstress.tasks.templates import load_template
    >>> from medstress.testing import tiny_questions
    >>> check_task(MultipleChoice(template=load_template("qstab")), tiny_questions(2))
    """
    assert items, "check_task needs at least one item, got none"
    canonical_json(task.spec())  # raises TypeError where a value is none of JSON's
    for item in items:
        clean, where = Candidate(item=item), f"item {item.id!r}"
        rounds = _drive(task, clean, 0)[0]
        for position, letter in enumerate(item.letters):
            _, answer = _drive(task, clean, position)
            _check_prediction(item, answer)
            assert answer.answer == letter or answer.is_tied, (
                f"{where}: answers that prefer option {letter} are read as {answer.answer!r}"
            )
        again = _drive(task, clean, 0)[0]
        assert again == rounds, f"{where}: the task makes other requests the second time"
        letter = next(letter for letter in item.letters if letter != item.key)
        end = len(item.option(letter))
        edit = Edit(field=letter, start=0, end=end, replacement="quite another text")
        edited = _drive(task, Candidate(item=item, edits=(edit,)), 0)[0]
        assert edited != rounds, f"{where}: an edit of option {letter} changes no request"
        for n in range(len(rounds)):
            flow = task.flow(clean)
            step = next(flow)
            for _ in range(n):
                step = flow.send(_answers(step, 0))
            try:
                flow.close()
            except Exception as error:
                raise AssertionError(
                    f"{where}: the flow does not close cleanly after round {n + 1} "
                    f"({type(error).__name__}: {error})"
                ) from error


def _drive(task: AnyTask, candidate: Candidate, preferred: int) -> tuple[Rounds, Prediction]:
    """Return the requests of a flow, and what it makes of replies that prefer one option."""
    flow, where = task.flow(candidate), f"item {candidate.item.id!r}"
    is_flow = isinstance(flow, Generator)
    assert is_flow, f"flow() must be a generator, got {type(flow).__name__}"
    rounds: Rounds = []
    try:
        step = next(flow)
        while len(rounds) < _MAX_ROUNDS:
            is_some = isinstance(step, tuple) and step
            assert is_some, f"{where}: expected a non-empty tuple of requests, got {step!r}"
            for request in step:
                is_request = isinstance(request, Request)
                assert is_request, f"{where}: expected requests, got {request!r}"
                hash(request)
                if not isinstance(request.call, Tag | Compare | Classify):
                    prompt = request.call.prompt
                    last = prompt[-1].content if isinstance(prompt, tuple) else prompt
                    is_bare = last == last.rstrip()
                    assert is_bare, f"{where}: the prompt {last!r} ends in white space"
            rounds.append(step)
            step = flow.send(_answers(step, preferred))
    except StopIteration as stop:
        return rounds, stop.value
    raise AssertionError(f"{where}: no prediction after {_MAX_ROUNDS} rounds of requests")


def _answers(requests: tuple[Request, ...], preferred: int) -> tuple[Answer, ...]:
    """Prefer one option, in later requests of a round less, so that ratios prefer it as well."""
    shares = (0.6 - 0.1 * min(i, 2) for i in range(len(requests)))
    return tuple(
        scripted_reply(request.call, preferred, share)
        for request, share in zip(requests, shares, strict=True)
    )


def _check_prediction(item: Question, prediction: Any) -> None:
    where = f"item {item.id!r}: the prediction {prediction!r}"
    assert isinstance(prediction, Prediction), f"{where} is not a Prediction"
    expected = Outcome.UNREADABLE
    if prediction.answer is not None:
        expected = Outcome.RIGHT if prediction.answer == item.key else Outcome.WRONG
    is_so = prediction.outcome is expected
    assert is_so, f"{where} should have the outcome {expected.value}"
    own = not prediction.reached_goal
    assert own, f"{where} sets reached_goal, which only the referee does"
    if prediction.scores is not None:
        n, total = len(item.letters), sum(map(math.exp, prediction.scores))
        assert len(prediction.scores) == n, f"{where} needs {n} scores, one per option"
        is_one = math.isclose(total, 1.0, abs_tol=1e-6)
        assert is_one, f"{where} has probabilities that sum to {total}, not 1"
