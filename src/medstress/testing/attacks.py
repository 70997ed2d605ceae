"""The conformance suite of attacks."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from medstress.attacks.protocol import Attack, attack_fault
from medstress.core.calls import Answer, Call
from medstress.core.errors import BudgetExhausted
from medstress.core.hashing import canonical_json
from medstress.core.items import FOLLOW_UP, TEXTS, Candidate, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.queries import Ask, CleanAnswer, Consult, Note, Predict, Replies, Step
from medstress.core.resources import Resources
from medstress.core.seeding import rng_for
from medstress.testing.scripted import scripted_reply

MAX_REFUSED = 32
"""`BudgetExhausted` is thrown at this many questions of an item, the first ones."""
_PATIENCE = 20
_MAX_STEPS = 10_000

Reply = Callable[[Call], Answer]
Tell = Callable[[Question, Predict], Prediction]


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
    queries, in any order of the items and also if they are interleaved; if `deterministic`, all
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
    if not inspect.isgeneratorfunction(attack.run):
        raise AssertionError(f"{_name(attack)}.run must be a generator function, one that yields")
    _check_declared(attack)
    chosen = _attackable(attack, items, resources)
    driver = _Driver(attack, resources, reply)
    first = [list(driver.walk(item)) for item in chosen]
    for item, steps in zip(chosen, first, strict=True):
        _check_steps(attack, item, steps, may_edit)
    _check_repeatable(driver, chosen, first)
    for item, steps in zip(chosen, first, strict=True):
        _check_refusals(driver, item, steps)
        _check_endings(driver, item)


def _check_declared(attack: Attack) -> None:
    name = _name(attack)
    if fault := attack_fault(attack):
        raise AssertionError(f"{name} {fault}")
    try:
        same = canonical_json(attack.spec()) == canonical_json(attack.spec())
    except (TypeError, ValueError) as error:
        raise AssertionError(f"{name}.spec() must consist of JSON values: {error}") from error
    if not same:
        raise AssertionError(f"{name}.spec() changes from call to call")


def _attackable(
    attack: Attack, items: Sequence[Question], resources: Resources
) -> tuple[Question, ...]:
    obstacles = {item.id: attack.obstacle(item, resources) for item in items}
    chosen = tuple(item for item in items if obstacles[item.id] is None)
    if not chosen:
        raise AssertionError(
            f"{_name(attack)} can attack none of the items, so nothing can be checked: {obstacles}"
        )
    return chosen


class _Driver:
    """Drives one attack by hand and counts its budget."""

    def __init__(self, attack: Attack, resources: Resources, reply: Reply) -> None:
        self.attack = attack
        self._resources = resources
        self._reply = reply

    def start(self, item: Question, seed: int = 0) -> Any:
        """Return a new generator with the random stream that the scheduler would give it."""
        group = self._resources.group if isinstance(self._resources, Resources) else "all"
        stream = f"{self.attack.stream}/{group}"
        rng = rng_for(seed, stream, "check_attack", item.id)
        return self.attack.run(item, rng, self._resources)

    def answer(self, item: Question, step: Step, tell: Tell) -> Replies:
        """Return the replies to one step."""
        if isinstance(step, Consult):
            return tuple(self._reply(call) for call in step.calls)
        if isinstance(step, CleanAnswer):
            return (_held(item),)
        if isinstance(step, Note):
            return ()
        return tuple(tell(item, query) for query in step.queries)

    def walk(self, item: Question, seed: int = 0, tell: Tell | None = None) -> Iterator[Step]:
        """Yield the steps of an attack that never succeeds."""
        flow = self.start(item, seed)
        try:
            replies: Replies | None = None
            for number in range(_MAX_STEPS):
                step = self._advance(item, flow, replies, number)
                if step is None:
                    return
                yield step
                replies = self.answer(item, step, tell or _held)
            raise AssertionError(
                f"{_name(self.attack)} does not end: item {item.id!r}, {_MAX_STEPS} steps"
            )
        finally:
            flow.close()

    def _advance(
        self, item: Question, flow: Any, replies: Replies | None, number: int
    ) -> Step | None:
        try:
            step: Step = flow.send(replies)
        except StopIteration as stop:
            self.check_pick(item, stop.value)
            return None
        except Exception as error:
            raise AssertionError(
                f"{_name(self.attack)} raised {type(error).__name__} after {number} steps on "
                f"item {item.id!r}: {error}"
            ) from error
        _check_shape(self.attack, item, step)
        return step

    def check_pick(self, item: Question, pick: Any) -> None:
        """Check that the attack returns a candidate of the item, or None."""
        if pick is None or (getattr(pick, "item", None) == item):
            return
        raise AssertionError(
            f"{_name(self.attack)} must return a candidate of item {item.id!r} or None, got "
            f"{pick!r}"
        )


def _check_shape(attack: Attack, item: Question, step: Any) -> None:
    where = f"{_name(attack)}, item {item.id!r}"
    if not isinstance(step, Ask | Consult | CleanAnswer | Note):
        raise AssertionError(
            f"{where}: expected a step (Ask, Consult, Note or CleanAnswer), got {step!r}"
        )
    if isinstance(step, CleanAnswer | Note):
        return
    asked = step.queries if isinstance(step, Ask) else step.calls
    if not asked:
        raise AssertionError(f"{where}: a step is empty; never yield an empty list")
    if isinstance(step, Ask):
        for query in (*step.queries, *step.then):
            if not isinstance(query, Predict):
                raise AssertionError(f"{where}: expected queries (Predict), got {query!r}")
    try:
        hash(step)
    except TypeError as error:
        raise AssertionError(f"{where}: a step is not hashable: {error}") from error


def _check_steps(
    attack: Attack, item: Question, steps: Sequence[Step], may_edit: Collection[str]
) -> None:
    n_asked = 0
    for number, step in enumerate(steps, start=1):
        if not isinstance(step, Ask):
            continue
        n_asked += len(step.queries)
        for query in (*step.queries, *step.then):
            where = f"{_name(attack)}, item {item.id!r}, step {number}"
            _check_candidate(where, item, query.candidate, may_edit)
    if n_asked > attack.budget:
        raise AssertionError(
            f"{_name(attack)} asks {n_asked} queries about item {item.id!r} with a budget of "
            f"{attack.budget}"
        )


def _check_candidate(
    where: str, item: Question, candidate: Candidate, may_edit: Collection[str]
) -> None:
    if candidate.item != item:
        raise AssertionError(f"{where}: the candidate belongs to item {candidate.item.id!r}")
    if item.kind != Question.kind:
        try:
            item.changed(candidate.edits)
        except (ValueError, IndexError) as error:
            raise AssertionError(f"{where}: the edits do not apply: {error}") from error
        return
    said = (*TEXTS, FOLLOW_UP)
    shown = (*said, *item.letters)
    for edit in candidate.edits:
        if edit.field not in shown:
            raise AssertionError(f"{where}: an edit of {edit.field!r} reaches no prompt: {edit}")
    try:
        texts = (*(getattr(candidate, name) for name in said), *candidate.options)
    except ValueError as error:
        raise AssertionError(f"{where}: the edits do not apply: {error}") from error
    for field, text in zip(shown, texts, strict=True):
        role = field if field in said else "distractors"
        role = "key" if field == item.key else role
        if text != item.text_of(field) and role not in may_edit:
            raise AssertionError(
                f"{where}: {field} ({role}) may not change, but became {text!r} "
                f"(may_edit = {sorted(may_edit)})"
            )


def _check_repeatable(
    driver: _Driver, items: Sequence[Question], first: Sequence[list[Step]]
) -> None:
    name = _name(driver.attack)
    backwards = [list(driver.walk(item)) for item in reversed(items)][::-1]
    rows = zip_longest(*(driver.walk(item) for item in items))
    interleaved = [
        [step for step in column if step is not None] for column in zip(*rows, strict=True)
    ]
    other_seed = [list(driver.walk(item, seed=1)) for item in items]
    for item, steps, again, among, other in zip(
        items, first, backwards, interleaved or [[]] * len(items), other_seed, strict=True
    ):
        if steps != again:
            raise AssertionError(
                f"{name} asks other queries about item {item.id!r} when run again, or after "
                "other items: draw only from the given generator, and keep no state between items"
            )
        if steps != among:
            raise AssertionError(
                f"{name} asks other queries about item {item.id!r} when items are interleaved: "
                "keep all state inside the generator"
            )
        if not driver.attack.is_random and steps != other:
            raise AssertionError(
                f"{name} says that the seed changes nothing, but its queries about item "
                f"{item.id!r} depend on it"
            )


def _check_refusals(driver: _Driver, item: Question, steps: Sequence[Step]) -> None:
    asks = [i for i, step in enumerate(steps) if isinstance(step, Ask)]
    for at in asks[:MAX_REFUSED]:
        step = steps[at]
        assert isinstance(step, Ask)
        for remaining in sorted({0, len(step.queries) - 1}):
            _check_refusal(driver, item, at, remaining)


def _check_refusal(driver: _Driver, item: Question, at: int, remaining: int) -> None:
    """Go to one step, refuse it, and check that the attack ends within the remaining budget."""
    where = f"{_name(driver.attack)}, item {item.id!r}, step {at + 1}"
    flow = driver.start(item)
    try:
        step: Step = next(flow)
        for _ in range(at):
            step = flow.send(driver.answer(item, step, _held))
        refusals = 0
        for _ in range(_MAX_STEPS):
            if refusals > _PATIENCE:
                break
            if isinstance(step, Ask) and len(step.queries) > remaining:
                refusals += 1
                step = flow.throw(BudgetExhausted(remaining))
            else:
                remaining -= len(step.queries) if isinstance(step, Ask) else 0
                step = flow.send(driver.answer(item, step, _held))
            _check_shape(driver.attack, item, step)
    except StopIteration as stop:
        driver.check_pick(item, stop.value)
        return
    except BudgetExhausted:
        return
    except AssertionError:
        raise
    except Exception as error:
        raise AssertionError(
            f"{where}: raised {type(error).__name__} after BudgetExhausted: {error}"
        ) from error
    finally:
        flow.close()
    raise AssertionError(
        f"{where}: does not end after BudgetExhausted was thrown {refusals} times; ask at most "
        "the remaining queries, or return"
    )


def _check_endings(driver: _Driver, item: Question) -> None:
    """Check unreadable answers, a success at the first question, and closing at the first step."""
    list(driver.walk(item, tell=_unreadable))
    flow = driver.start(item)
    name = _name(driver.attack)
    try:
        step = next(flow)
        while not isinstance(step, Ask):
            step = flow.send(driver.answer(item, step, _held))
        # The scheduler sends a success only as the last reply of a list.
        replies = [_held(item, query) for query in step.queries]
        flow.send((*replies[:-1], _flipped(item)))
    except StopIteration as stop:
        driver.check_pick(item, stop.value)
    except Exception as error:
        raise AssertionError(
            f"{name} raised {type(error).__name__} after a success on item {item.id!r}: {error}"
        ) from error
    _close(flow, name, item)
    started = driver.start(item)
    next(started, None)
    _close(started, name, item)


def _close(flow: Any, name: str, item: Question) -> None:
    try:
        flow.close()
    except Exception as error:
        raise AssertionError(
            f"{name} does not close cleanly on item {item.id!r} "
            f"({type(error).__name__}: {error}): never yield or raise while being closed"
        ) from error


def _held(item: Any, _: Predict | None = None) -> Prediction:
    return answered(item, right=True)


def _flipped(item: Any) -> Prediction:
    return replace(answered(item, right=False), reached_goal=True)


def answered(item: Any, *, right: bool) -> Prediction:
    """Return a made-up answer: of a choice the right answer or the first wrong one at P = .6."""
    outcome = Outcome.RIGHT if right else Outcome.WRONG
    if not item.choices:
        return Prediction(outcome=outcome, answer=None, scores=(0.9 if right else 0.1,))
    given = item.key if right else next(x for x in item.choices if x != item.key)
    rest = 0.4 / (len(item.choices) - 1)
    scores = tuple(math.log(0.6 if x == given else rest) for x in item.choices)
    return Prediction(outcome=outcome, answer=given, scores=scores, mass=0.9)


def _unreadable(_: Question, __: Predict) -> Prediction:
    return Prediction(outcome=Outcome.UNREADABLE, answer=None, text="?")


def _name(attack: Attack) -> str:
    return type(attack).__name__
