"""Attacks by hand, without a model: `drive` one, or check what the contract of `Attack` says."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Generator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, zip_longest
from typing import Any

from medstress.attacks.protocol import Attack, attack_fault
from medstress.core.calls import Answer, Call
from medstress.core.errors import BudgetExhausted
from medstress.core.hashing import canonical_json, rng_for
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer, Consult, Note, Predict, Replies, Step
from medstress.core.resources import Resources
from medstress.testing.scripted import scripted_reply

MAX_REFUSED = 32
"""`BudgetExhausted` is thrown at this many questions of an item, the first ones."""
_PATIENCE, _MAX_STEPS = 20, 10_000
_UNREADABLE = Prediction(outcome=Outcome.UNREADABLE, answer=None, text="?")

Reply = Callable[[Call], Answer]
Tell = Callable[[Predict], Prediction]


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
    assert is_flow, f"{name}.run must be a generator function, one that yields"
    fault = attack_fault(attack)
    assert not fault, f"{name} {fault}"
    try:
        first_spec, second_spec = canonical_json(attack.spec()), canonical_json(attack.spec())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{name}.spec() must consist of JSON values: {error}") from error
    assert first_spec == second_spec, f"{name}.spec() changes from call to call"
    obstacles = {item.id: attack.obstacle(item, resources) for item in items}
    chosen = [item for item in items if obstacles[item.id] is None]
    assert chosen, f"{name} can attack none of the items, so nothing can be checked: {obstacles}"

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
                assert n_refused <= _PATIENCE, (
                    f"{name}, {what}: does not end after BudgetExhausted was thrown {_PATIENCE} "
                    "times; ask at most the remaining queries, or return"
                )
                after = "after BudgetExhausted"
                step = flow.throw(BudgetExhausted(int(budget)))
                continue
            assert number <= _MAX_STEPS, f"{name} does not end: {what}, {_MAX_STEPS} steps"
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
    is_step = isinstance(step, Ask | Consult | CleanAnswer | Note)
    assert is_step, f"{where}: expected a step (Ask, Consult, Note or CleanAnswer), got {step!r}"
    if isinstance(step, CleanAnswer | Note):
        return
    asked = step.queries if isinstance(step, Ask) else step.calls
    assert asked, f"{where}: a step is empty; never yield an empty list"
    for query in (*step.queries, *step.then) if isinstance(step, Ask) else ():
        is_query = isinstance(query, Predict)
        assert is_query, f"{where}: expected queries (Predict), got {query!r}"
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
    assert n <= most, f"{name} asks {n} queries about item {item.id!r} with a budget of {most}"


def _check_candidate(
    where: str, item: Any, candidate: Candidate, may_edit: Collection[str]
) -> None:
    is_own = candidate.item == item
    assert is_own, f"{where}: the candidate belongs to item {candidate.item.id!r}"
    is_question, texts = item.kind == Question.kind, (*TEXTS, FOLLOW_UP)
    shown = (*texts, *item.letters) if is_question else ()
    for edit in candidate.edits if is_question else ():
        is_shown = edit.field in shown
        assert is_shown, f"{where}: an edit of {edit.field!r} reaches no prompt: {edit}"
    try:
        if not is_question:
            item.changed(candidate.edits)
            return
        now = (*(getattr(candidate, name) for name in texts), *candidate.options)
    except (ValueError, IndexError) as error:
        raise AssertionError(f"{where}: the edits do not apply: {error}") from error
    for field, text in zip(shown, now, strict=True):
        role = "key" if field == item.key else field if field in texts else "distractors"
        assert text == item.text_of(field) or role in may_edit, (
            f"{where}: {field} ({role}) may not change, but became {text!r} "
            f"(may_edit = {sorted(may_edit)})"
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
        assert steps == backwards[place], (
            f"{queries} when run again, or after other items: draw only from the given generator, "
            "and keep no state between items"
        )
        assert steps == [row[place] for row in rows if row[place] is not None], (
            f"{queries} when items are interleaved: keep all state inside the generator"
        )
        assert attack.is_random or steps == list(walk(item, seed=1)), (
            f"{queries} with another seed, but says that the seed changes nothing"
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
