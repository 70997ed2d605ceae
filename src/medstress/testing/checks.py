"""Conformance suites: what the contracts of attacks, back ends, data sets and tasks say.

`drive` runs an attack by hand, without a model.
"""

from __future__ import annotations

import inspect
import math
import tempfile
from collections import Counter
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any

from medstress.attacks.protocol import Attack, attack_fault
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
from medstress.core.errors import BudgetExhausted, MedstressError, reason
from medstress.core.hashing import canonical_json, rng_for
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Item, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer, Consult, Note, Predict, Replies, Step
from medstress.core.registry import backend_fault
from medstress.core.resources import Resources
from medstress.core.text import Edit
from medstress.datasets.source import DatasetOptions, Loaded
from medstress.tasks.multiple_choice import AnyTask
from medstress.testing.models import scripted_reply

MAX_REFUSED = 32
"""`BudgetExhausted` is thrown at this many questions of an item, the first ones."""
_PATIENCE, _MAX_STEPS = 20, 10_000
_UNREADABLE = Prediction(outcome=Outcome.UNREADABLE, answer=None, text="?")

Reply = Callable[[Call], Answer]
Tell = Callable[[Predict], Prediction]
_MAX_ROUNDS = 100
Rounds = list[tuple[Request, ...]]
Load = Callable[[DatasetOptions], Any]


def require(holds: object, sentence: str) -> None:
    """Raise AssertionError unless something holds; `assert` checks nothing under `python -O`."""
    if not holds:
        raise AssertionError(sentence)


# -- attacks ---------------------------------------------------------------------------------------
@dataclass(frozen=True, slots=True)
class Driven:
    """What an attack did."""

    steps: tuple[Step, ...]
    """What it yielded, in order."""
    pick: Any
    """The candidate that it returned, or None."""

    @property
    def queries(self) -> list[Predict]:
        """What it asked the victim."""
        return [query for step in self.steps if isinstance(step, Ask) for query in step.queries]


def drive(
    attack: Attack,
    item: Any,
    resources: Any,
    *,
    errs: Callable[[Predict], bool] = lambda query: False,
    seed: int = 0,
    reply: Reply = scripted_reply,
) -> Driven:
    """Run an attack by hand, within its budget, until its first success.

    Args:
        attack: the attack.
        item: an item that it can attack.
        resources: read-only data for the attack.
        errs: whether the victim errs on a query; such an answer reaches the goal.
        seed: of the attack's random stream.
        reply: answers calls to other roles.

    Raises:
        AssertionError: the attack does what the contract forbids.

    >>> from medstress.attacks import EntitySubstitution
    >>> from medstress.testing import tiny_questions, tiny_resources
    >>> nearest = EntitySubstitution(sampler="nearest", budget=2)
    >>> [query.candidate.options[1] for query in
    ...  drive(nearest, tiny_questions(1)[0], tiny_resources()).queries]
    ['Mirozide', 'Nexodrel']
    """

    def tell(query: Predict) -> Prediction:
        return _flipped(item) if errs(query) else answered(item, right=True)

    walked = _walk(attack, item, resources, reply, tell=tell, seed=seed, budget=attack.budget)
    steps = []
    while True:
        try:
            steps.append(next(walked))
        except StopIteration as stop:
            return Driven(tuple(steps), stop.value)


def check_attack(
    attack: Attack,
    items: Sequence[Any],
    resources: Any,
    *,
    may_edit: Collection[str] = ("distractors",),
    reply: Reply = scripted_reply,
) -> None:
    """Check that an attack keeps the contract of `Attack`.

    `run` is a generator function that yields non-empty, hashable steps. Equal seeds give equal
    queries, in any order of the items and also if they are interleaved; unless `is_random`, all
    seeds do. Edits apply, belong to the attacked item and stay in the allowed fields. At most
    `budget` queries are asked. The attack survives `BudgetExhausted` at every question, unreadable
    answers, a success, and being closed.

    Args:
        attack: the attack.
        items: at least one that it can attack; several make the order checks meaningful.
        resources: read-only data for the attack.
        may_edit: fields that it may change: `distractors`, `key`, `passage`, `context`, `stem`,
            `follow_up`.
        reply: answers calls to other roles.

    Raises:
        AssertionError: one sentence with the item and the step.

    >>> from medstress.attacks import EntitySubstitution
    >>> from medstress.testing import tiny_questions, tiny_resources
    >>> check_attack(EntitySubstitution(n=-2.0), tiny_questions(3), tiny_resources())
    """
    name = type(attack).__name__
    is_flow = inspect.isgeneratorfunction(attack.run)
    require(is_flow, f"{name}.run must be a generator function, one that yields")
    fault = attack_fault(attack)
    require(not fault, f"{name} {fault}")
    try:
        first_spec, second_spec = canonical_json(attack.spec()), canonical_json(attack.spec())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{name}.spec() must consist of JSON values: {error}") from error
    require(first_spec == second_spec, f"{name}.spec() changes from call to call")
    obstacles = {item.id: attack.obstacle(item, resources) for item in items}
    chosen = [item for item in items if obstacles[item.id] is None]
    why = f"{name} can attack none of the items, so nothing can be checked: {obstacles}"
    require(chosen, why)

    def walk(item: Any, **how: Any) -> Generator[Step, None, Any]:
        return _walk(attack, item, resources, reply, **how)

    first = [list(walk(item)) for item in chosen]
    for item, steps in zip(chosen, first, strict=True):
        _check_queries(attack, item, steps, may_edit)
    _check_repeatable(attack, walk, chosen, first)
    for item, steps in zip(chosen, first, strict=True):
        lengths = [len(step.queries) for step in steps if isinstance(step, Ask)][:MAX_REFUSED]
        for before, length in zip(accumulate([0, *lengths]), lengths, strict=False):
            for budget in {before, before + length - 1}:  # refused at this step
                list(walk(item, budget=budget))
        list(walk(item, tell=lambda _: _UNREADABLE))
        if lengths:  # the engine sends a success only as the last answer of a list
            last = next(step for step in steps if isinstance(step, Ask)).queries[-1]
            list(walk(item, tell=lambda q, i=item, n=last: _flipped(i) if q == n else _held(i)))


def _walk(
    attack: Attack,
    item: Any,
    resources: Any,
    reply: Reply,
    *,
    tell: Tell | None = None,
    seed: int = 0,
    budget: float = math.inf,
) -> Generator[Step, None, Any]:
    """Yield the steps of an attack within a budget up to its first success; return its pick."""
    name, what = type(attack).__name__, f"item {item.id!r}"
    group = resources.group if isinstance(resources, Resources) else "all"
    rng = rng_for(seed, f"{attack.stream}/{group}", "check_attack", item.id)
    flow = attack.run(item, rng, resources)
    number = n_refused = 0
    is_over, after = False, "after 0 steps"
    try:
        step = next(flow)
        while not is_over:
            number += 1
            _check_step(f"{name}, {what}", step)
            if isinstance(step, Ask) and len(step.queries) > budget:
                n_refused += 1
                require(
                    n_refused <= _PATIENCE,
                    f"{name}, {what}: does not end after BudgetExhausted was thrown {_PATIENCE} "
                    "times; ask at most the remaining queries, or return",
                )
                after = "after BudgetExhausted"
                step = flow.throw(BudgetExhausted(int(budget)))
                continue
            require(number <= _MAX_STEPS, f"{name} does not end: {what}, {_MAX_STEPS} steps")
            yield step
            replies: Replies = ()
            if isinstance(step, Ask):
                budget -= len(step.queries)
                replies = tuple(tell(query) if tell else _held(item) for query in step.queries)
                is_over = any(one.reached_goal for one in replies) and not step.keeps_open
            elif isinstance(step, Consult):
                replies = tuple(reply(call) for call in step.calls)
            elif isinstance(step, CleanAnswer):
                replies = (_held(item),)
            after = (
                "after a success" if is_over else after if n_refused else f"after {number} steps"
            )
            step = flow.send(replies)
    except StopIteration as stop:
        is_own = stop.value is None or getattr(stop.value, "item", None) == item
        if not is_own:
            raise AssertionError(
                f"{name} must return a candidate of {what} or None, got {stop.value!r}"
            ) from None
        return stop.value
    except BudgetExhausted:
        return None
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(
            f"{name} raised {type(error).__name__} {after} on {what}: {error}"
        ) from error
    finally:
        try:
            flow.close()
        except Exception as error:
            raise AssertionError(
                f"{name} does not close cleanly on {what} ({type(error).__name__}: {error}): "
                "never yield or raise while being closed"
            ) from error
    return None


def _check_step(where: str, step: Any) -> None:
    if isinstance(step, CleanAnswer | Note):
        return
    if not isinstance(step, Ask | Consult):
        raise AssertionError(
            f"{where}: expected a step (Ask, Consult, Note or CleanAnswer), got {step!r}"
        )
    asked = step.queries if isinstance(step, Ask) else step.calls
    require(asked, f"{where}: a step is empty; never yield an empty list")
    for query in (*step.queries, *step.then) if isinstance(step, Ask) else ():
        if not isinstance(query, Predict):
            raise AssertionError(f"{where}: expected queries (Predict), got {query!r}")
    try:
        hash(step)
    except TypeError as error:
        raise AssertionError(f"{where}: a step is not hashable: {error}") from error


def _check_queries(
    attack: Attack, item: Any, steps: Sequence[Step], may_edit: Collection[str]
) -> None:
    """Check the number of queries, and what each of them edits."""
    name, n, most = type(attack).__name__, 0, attack.budget
    for number, step in enumerate(steps, start=1):
        if isinstance(step, Ask):
            n += len(step.queries)
            for query in (*step.queries, *step.then):
                where = f"{name}, item {item.id!r}, step {number}"
                _check_candidate(where, item, query.candidate, may_edit)
    sentence = f"{name} asks {n} queries about item {item.id!r} with a budget of {most}"
    require(n <= most, sentence)


def _check_candidate(
    where: str, item: Any, candidate: Candidate, may_edit: Collection[str]
) -> None:
    is_own = candidate.item == item
    require(is_own, f"{where}: the candidate belongs to item {candidate.item.id!r}")
    is_question, texts = item.kind == Question.kind, (*TEXTS, FOLLOW_UP)
    shown = (*texts, *item.letters) if is_question else ()
    for edit in candidate.edits if is_question else ():
        is_shown = edit.field in shown
        require(is_shown, f"{where}: an edit of {edit.field!r} reaches no prompt: {edit}")
    try:
        if not is_question:
            item.changed(candidate.edits)
            return
        now = (*(getattr(candidate, name) for name in texts), *candidate.options)
    except (ValueError, IndexError) as error:
        raise AssertionError(f"{where}: the edits do not apply: {error}") from error
    for field, text in zip(shown, now, strict=True):
        role = "key" if field == item.key else field if field in texts else "distractors"
        require(
            text == item.text_of(field) or role in may_edit,
            f"{where}: {field} ({role}) may not change, but became {text!r} "
            f"(may_edit = {sorted(may_edit)})",
        )


def _check_repeatable(
    attack: Attack,
    walk: Callable[..., Generator[Step, None, Any]],
    items: Sequence[Any],
    first: Sequence[list[Step]],
) -> None:
    backwards = [list(walk(item)) for item in reversed(items)][::-1]
    rows = list(zip_longest(*(walk(item) for item in items)))
    for place, (item, steps) in enumerate(zip(items, first, strict=True)):
        queries = f"{type(attack).__name__} asks other queries about item {item.id!r}"
        require(
            steps == backwards[place],
            f"{queries} when run again, or after other items: draw only from the given generator, "
            "and keep no state between items",
        )
        require(
            steps == [row[place] for row in rows if row[place] is not None],
            f"{queries} when items are interleaved: keep all state inside the generator",
        )
        require(
            attack.is_random or steps == list(walk(item, seed=1)),
            f"{queries} with another seed, but says that the seed changes nothing",
        )


def answered(item: Any, *, right: bool) -> Prediction:
    """Return a made-up answer: of a choice the right answer or the first wrong one at P = .6."""
    outcome = Outcome.RIGHT if right else Outcome.WRONG
    if not item.choices:
        return Prediction(outcome=outcome, answer=None, scores=(0.9 if right else 0.1,))
    answer = item.key if right else next(x for x in item.choices if x != item.key)
    rest = 0.4 / (len(item.choices) - 1)
    scores = tuple(math.log(0.6 if x == answer else rest) for x in item.choices)
    return Prediction(outcome=outcome, answer=answer, scores=scores, mass=0.9)


def _held(item: Any) -> Prediction:
    return answered(item, right=True)


def _flipped(item: Any) -> Prediction:
    return replace(answered(item, right=False), reached_goal=True)


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
    require(calls, "check_backend needs at least one call, got none")
    fault = backend_fault(backend)
    require(not fault, f"the back end {fault}")
    identity, traits = backend.identity, backend.traits
    is_named = isinstance(identity, ModelIdentity) and identity.name and identity.hash
    require(is_named, f"the identity needs a name and a hash, got {identity!r}")
    for name, least in (("batch_size", 1), ("workers", 1), ("ahead", 0)):
        value = getattr(traits, name)
        is_number = type(value) is int and value >= least
        require(is_number, f"{name} must be a whole number from {least}, got {value!r}")
    for call in calls:
        require(
            call.kind in traits.calls,
            f"the back end declares the calls {sorted(traits.calls)}, not {call.kind!r}: give "
            "calls that it can answer",
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
            require(
                _agree(call, reply, other, tolerance),
                f"asked {order}, the back end answers {_shown(call)} with {other}, but with "
                f"{reply} before: replies must come in the order of the calls and not depend on "
                "the rest of the batch",
            )
    now = backend.identity
    require(now == identity, f"the identity changed from {identity} to {now} while answering")


def _ask(backend: Backend, calls: Sequence[Call]) -> list[Any]:
    replies: list[Any] = []
    for start in range(0, len(calls), backend.traits.batch_size):
        batch = list(calls[start : start + backend.traits.batch_size])
        answered = backend.answer(batch)
        require(
            len(answered) == len(batch),
            f"the back end returned {len(answered)} replies for {len(batch)} calls; expected one "
            "per call, in the same order",
        )
        replies += answered
    return replies


def _check_reply(call: Call, reply: Any) -> None:
    if isinstance(reply, Failure):
        raise AssertionError(f"the back end failed on {_shown(call)}: {reply.error}")
    fault = _fault(call, reply)
    require(not fault, f"{fault} as the reply to {_shown(call)}, got {reply!r}")
    is_count = min(reply.tokens_in, reply.tokens_out) >= 0
    require(is_count, f"tokens cannot be negative: the reply to {_shown(call)} is {reply!r}")


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
    require(isinstance(loaded, Loaded), f"expected Loaded, got {type(loaded).__name__}")
    items = loaded.items
    is_some = isinstance(items, tuple) and items
    require(is_some, f"expected a tuple of at least one item, got {items!r}")
    for item in items:
        require(isinstance(item, Item), f"expected an item, got {type(item).__name__}")
        is_text = isinstance(item.id, str) and item.id
        require(is_text, f"expected ids that are texts, got {item.id!r}")
    kinds, ids = sorted({item.kind for item in items}), Counter(item.id for item in items)
    require(len(kinds) == 1, f"expected items of one kind, got {' and '.join(kinds)}")
    ((name, n),) = ids.most_common(1)
    require(n == 1, f"two items have the id {name!r}")
    source_hash = loaded.source_hash
    is_hash = isinstance(source_hash, str) and source_hash
    require(is_hash, f"expected a source_hash, got {source_hash!r}")
    for sentence in (*loaded.skipped, *loaded.notes):
        is_one = isinstance(sentence, str) and len(sentence.splitlines()) == 1
        require(is_one, f"expected one sentence on one line, got {sentence!r}")
    again = load(options)
    require(again == loaded, "read a second time, the same options give something else")
    if path is None or not path.is_file():
        return
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder) / path.name
        _check_refusal(load, replace(options, path=own), "a missing file")
        broken = {"an empty file": b"", "a file that is no text": b"\xff\xfe\0\x9d"}
        for what, content in broken.items():
            own.write_bytes(content)
            _check_refusal(load, replace(options, path=own), what)
        own.write_bytes(path.read_bytes() + b"\n")  # changes no item, but the bytes
        try:
            other = load(replace(options, path=own))
        except MedstressError:
            return
    is_new = other.source_hash != source_hash
    require(is_new, "another file has the same source_hash: use file_hash(options.path)")


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
    require(items, "check_task needs at least one item, got none")
    canonical_json(task.spec())  # raises TypeError where a value is none of JSON's
    for item in items:
        clean, where = Candidate(item=item), f"item {item.id!r}"
        rounds = _drive(task, clean, 0)[0]
        for position, letter in enumerate(item.letters):
            _, answer = _drive(task, clean, position)
            _check_prediction(item, answer)
            require(
                answer.answer == letter or answer.is_tied,
                f"{where}: answers that prefer option {letter} are read as {answer.answer!r}",
            )
        again = _drive(task, clean, 0)[0]
        require(again == rounds, f"{where}: the task makes other requests the second time")
        letter = next(letter for letter in item.letters if letter != item.key)
        end = len(item.option(letter))
        edit = Edit(field=letter, start=0, end=end, replacement="quite another text")
        edited = _drive(task, Candidate(item=item, edits=(edit,)), 0)[0]
        require(edited != rounds, f"{where}: an edit of option {letter} changes no request")
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
    require(is_flow, f"flow() must be a generator, got {type(flow).__name__}")
    rounds: Rounds = []
    try:
        step = next(flow)
        while len(rounds) < _MAX_ROUNDS:
            is_some = isinstance(step, tuple) and step
            require(is_some, f"{where}: expected a non-empty tuple of requests, got {step!r}")
            for request in step:
                is_request = isinstance(request, Request)
                require(is_request, f"{where}: expected requests, got {request!r}")
                hash(request)
                if not isinstance(request.call, Tag | Compare | Classify):
                    prompt = request.call.prompt
                    last = prompt[-1].content if isinstance(prompt, tuple) else prompt
                    is_bare = last == last.rstrip()
                    require(is_bare, f"{where}: the prompt {last!r} ends in white space")
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
    require(isinstance(prediction, Prediction), f"{where} is not a Prediction")
    expected = Outcome.UNREADABLE
    if prediction.answer is not None:
        expected = Outcome.RIGHT if prediction.answer == item.key else Outcome.WRONG
    is_so = prediction.outcome is expected
    require(is_so, f"{where} should have the outcome {expected.value}")
    is_own = not prediction.reached_goal
    require(is_own, f"{where} sets reached_goal, which only the referee does")
    if prediction.scores is not None:
        n, total = len(item.letters), sum(map(math.exp, prediction.scores))
        require(len(prediction.scores) == n, f"{where} needs {n} scores, one per option")
        is_one = math.isclose(total, 1.0, abs_tol=1e-6)
        require(is_one, f"{where} has probabilities that sum to {total}, not 1")
