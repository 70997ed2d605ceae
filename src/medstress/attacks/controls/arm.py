"""Control arms: a control asked on the items of an attack, as often as the attack could ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from medstress.attacks.controls.harmless import Control
from medstress.attacks.protocol import (
    Attack,
    Ends,
    Need,
    TurnAttack,
    Validity,
    most_queries,
    never_lost,
)
from medstress.core.items import LETTERS, Candidate, Question
from medstress.core.outcomes import Goal, Replaced
from medstress.core.queries import Ask, Predict, Replies, Step, Steps
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.random import Generator as Draws

LEAST_FILLED = 0.95
"""Share of the attackable items on which a control must be able to ask as often as the attack."""
_OF_ATTACK: frozenset[Need] = frozenset(("names", "drugs", "mentions", "passages", "turns"))


@dataclass(frozen=True, kw_only=True)
class ControlArm(Attack):
    """A control of one attack, with its items, goal, seeds and number of queries.

    It asks, item by item, at most as many perturbed queries as the attack could have asked there,
    and one about an item that is wrong at baseline.
    The first success ends it: what the attack does after a success changes no rate. Next to a probe
    it asks all of its variants, of all items. The draws are those of the control, so the arms of
    attacks with equal budget, goal and seeds ask the same and pay once.
    """

    harmless: Control
    """What is asked."""
    of: Attack
    """The attack that it controls."""
    most: int | None = None
    """The most queries that the attack could ask about the item of a trial; see `at`."""
    edited: frozenset[str] | None = None
    """The fields that the attack edits in that trial, letters of options among them."""

    @property
    def stream(self) -> str:
        """That of the control."""
        stream: str = self.harmless.stream
        return stream

    @property
    def budget(self) -> int:
        """That of the attack."""
        return self.of.budget

    @property
    def needs(self) -> frozenset[Need]:
        """Those of the control, and what the attack reads; names only if the attack draws them."""
        return (self.harmless.needs - {"names"}) | (self.of.needs & _OF_ATTACK)

    @property
    def fields(self) -> frozenset[str]:
        """Those of the control, and those of the attack if half of the edits are there."""
        if not self.harmless.is_near:
            return self.harmless.fields
        return self.harmless.fields | self.of.fields if self.of.fields else frozenset()

    @property
    def success(self) -> Goal:
        """That of the attack; `replaced` is any option that the attack edits."""
        goal = self.of.success
        if isinstance(goal, Replaced) and self.harmless.keeps_options:
            return replace(goal, options=self.edited and self.edited & set(LETTERS))
        return goal

    @property
    def ends(self) -> Ends:
        """The first success, unless it is the control of a probe."""
        return "all" if self.of.is_probe else "success"

    @property
    def is_random(self) -> bool:
        """That of the attack: arms have its seeds."""
        return self.of.is_random

    @property
    def every_item(self) -> bool:
        """Whether it is the control of a probe."""
        return self.of.is_probe

    @property
    def repeats(self) -> int:
        """Those of the attack."""
        return self.of.repeats

    control = None
    is_control = True

    def spec(self) -> dict[str, Any]:
        """Return the control's parameters and, under `control_of`, those of the attack."""
        return {**self.harmless.spec(), "budget": self.budget, "control_of": self.of.spec()}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the attack or the control cannot be used on the item, or None."""
        return self.of.obstacle(item, resources) or self.harmless.obstacle(item, resources)

    def at(self, item: Any, rng: Draws, resources: Resources) -> ControlArm:
        """Return the arm for one trial.

        Args:
            item: an item that it can be asked about.
            rng: the random numbers of the attack's trial.
            resources: what the attack may read.
        """
        queries = never_lost(self.of, item, resources, rng)
        if queries is None:
            return replace(self, most=self.budget)
        edited = {edit.field for query in queries for edit in query.candidate.edits}
        return replace(self, most=len(queries), edited=frozenset(edited))

    @property
    def near(self) -> frozenset[str]:
        """The fields that the attack edits in this trial, if the control edits near them."""
        if not self.harmless.is_near:
            return frozenset()
        edited, fields = self.edited or (), self.of.fields
        return frozenset(x for x in edited if not fields or {x, _field(x)} & fields)

    def fills(self, item: Question, resources: Resources) -> bool:
        """Return whether the control can ask as often as the attack could."""
        most = most_queries(self.of, item, resources)
        return self.harmless.n_variants(item, resources) >= most

    def validity(self, candidate: Candidate, resources: Resources) -> Validity | None:
        """Judge as the control does."""
        return self.harmless.validity(candidate, resources)

    def run(self, item: Question, rng: Draws, resources: Resources) -> Steps[Candidate | None]:
        """Ask what the control asks; in a conversation each query is an attempt."""
        most = most_queries(self.of, item, resources) if self.most is None else self.most
        steps = self.harmless.ask(item, rng, resources, most, self.near)
        if "turns" not in self.needs:
            return (yield from steps)
        return (yield from _numbered(steps))


def _field(name: str) -> str:
    return "options" if name in LETTERS else name


def control_arm(control: Control, attack: Attack) -> ControlArm:
    """Give an attack a control; see `Control.for_attack`."""
    return ControlArm(harmless=control.for_attack(attack), of=attack)


def turn_attack(attack: Attack) -> TurnAttack | None:
    """Return what says how the conversation of an attack or its control begins, or None."""
    of = attack.of if isinstance(attack, ControlArm) else attack
    return of if isinstance(of, TurnAttack) and "turns" in of.needs else None


def _numbered(steps: Steps[Candidate | None]) -> Generator[Step, Replies, Candidate | None]:
    """Give every query the number of its attempt, from 1."""
    n, reply = 0, None
    while True:
        try:
            step = steps.send(reply) if reply is not None else next(steps)
        except StopIteration as stop:
            reached: Candidate | None = stop.value
            return reached
        if isinstance(step, Ask):
            step = Ask(_attempts(step.queries, n), _attempts(step.then, n + len(step.queries)))
            n += len(step.queries)
        reply = yield step


def _attempts(queries: Iterable[Predict], n: int) -> tuple[Predict, ...]:
    return tuple(replace(query, attempt=n + i) for i, query in enumerate(queries, 1))
