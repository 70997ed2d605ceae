"""The conformance suite of tasks."""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from typing import Any

from medstress.core.calls import Answer, Classify, Compare, Request, Tag
from medstress.core.hashing import canonical_json
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.text import Edit
from medstress.tasks.multiple_choice import AnyTask
from medstress.testing.backends import scripted_reply

_MAX_ROUNDS = 100
Rounds = list[tuple[Request, ...]]


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
    if not items:
        raise AssertionError("check_task needs at least one item, got none")
    try:
        canonical_json(task.spec())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"spec() must consist of JSON values: {error}") from error
    for item in items:
        clean = Candidate(item=item)
        rounds = _check_answers(task, clean)
        if rounds != _drive(task, clean, 0)[0]:
            raise AssertionError(f"item {item.id!r}: the task makes other requests the second time")
        _check_edit(task, item, rounds)
        _check_closing(task, clean, len(rounds))


def _check_answers(task: AnyTask, candidate: Candidate) -> Rounds:
    """Prefer every option in turn; return the requests made with the first preferred."""
    item = candidate.item
    rounds_by_option: list[Rounds] = []
    for position, letter in enumerate(item.letters):
        rounds, prediction = _drive(task, candidate, position)
        _check_prediction(item, prediction)
        if prediction.answer != letter and not prediction.is_tied:
            raise AssertionError(
                f"item {item.id!r}: answers that prefer option {letter} are read as "
                f"{prediction.answer!r}"
            )
        rounds_by_option.append(rounds)
    return rounds_by_option[0]


def _drive(task: AnyTask, candidate: Candidate, preferred: int) -> tuple[Rounds, Prediction]:
    flow = task.flow(candidate)
    if not isinstance(flow, Generator):
        raise AssertionError(f"flow() must be a generator, got {type(flow).__name__}")
    rounds: Rounds = []
    try:
        step = next(flow)
        while len(rounds) < _MAX_ROUNDS:
            _check_round(candidate.item, step)
            rounds.append(step)
            step = flow.send(_answers(step, preferred))
    except StopIteration as stop:
        return rounds, stop.value
    raise AssertionError(
        f"item {candidate.item.id!r}: no prediction after {_MAX_ROUNDS} rounds of requests"
    )


def _answers(requests: tuple[Request, ...], preferred: int) -> tuple[Answer, ...]:
    """Prefer one option, in later requests of a round less, so that ratios prefer it as well."""
    shares = (0.6 - 0.1 * min(i, 2) for i in range(len(requests)))
    return tuple(
        scripted_reply(request.call, preferred, share)
        for request, share in zip(requests, shares, strict=True)
    )


def _check_round(item: Question, requests: Any) -> None:
    if not isinstance(requests, tuple) or not requests:
        raise AssertionError(
            f"item {item.id!r}: expected a non-empty tuple of requests, got {requests!r}"
        )
    for request in requests:
        if not isinstance(request, Request):
            raise AssertionError(f"item {item.id!r}: expected requests, got {request!r}")
        hash(request)
        if isinstance(request.call, Tag | Compare | Classify):
            continue
        prompt = request.call.prompt
        last = prompt[-1].content if isinstance(prompt, tuple) else prompt
        if last != last.rstrip():
            raise AssertionError(f"item {item.id!r}: the prompt {last!r} ends in white space")


def _check_prediction(item: Question, prediction: Any) -> None:
    where = f"item {item.id!r}: the prediction {prediction!r}"
    if not isinstance(prediction, Prediction):
        raise AssertionError(f"{where} is not a Prediction")
    expected = Outcome.UNREADABLE
    if prediction.answer is not None:
        expected = Outcome.RIGHT if prediction.answer == item.key else Outcome.WRONG
    if prediction.outcome is not expected:
        raise AssertionError(f"{where} should have the outcome {expected.value}")
    if prediction.reached_goal:
        raise AssertionError(f"{where} sets reached_goal, which only the referee does")
    if prediction.scores is None:
        return
    if len(prediction.scores) != len(item.letters):
        raise AssertionError(f"{where} needs {len(item.letters)} scores, one per option")
    total = sum(math.exp(value) for value in prediction.scores)
    if not math.isclose(total, 1.0, abs_tol=1e-6):
        raise AssertionError(f"{where} has probabilities that sum to {total}, not 1")


def _check_edit(task: AnyTask, item: Question, clean: Rounds) -> None:
    letter = next(letter for letter in item.letters if letter != item.key)
    end = len(item.option(letter))
    edit = Edit(field=letter, start=0, end=end, replacement="quite another text")
    edited, _ = _drive(task, Candidate(item=item, edits=(edit,)), 0)
    if edited == clean:
        raise AssertionError(f"item {item.id!r}: an edit of option {letter} changes no request")


def _check_closing(task: AnyTask, candidate: Candidate, n_rounds: int) -> None:
    for stop_after in range(n_rounds):
        flow = task.flow(candidate)
        step = next(flow)
        for _ in range(stop_after):
            step = flow.send(_answers(step, 0))
        try:
            flow.close()
        except Exception as error:
            raise AssertionError(
                f"item {candidate.item.id!r}: the flow does not close cleanly after round "
                f"{stop_after + 1} ({type(error).__name__}: {error})"
            ) from error
