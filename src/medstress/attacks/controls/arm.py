"""Control arms: a control asked on the items of an attack, as often as the attack could ask."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from medstress.attacks.controls.control import Control
from medstress.attacks.protocol import Attack, AttackTraits, SearchOn, Turns, Validity
from medstress.core.items import Candidate, Question
from medstress.core.outcomes import Goal, Replaced
from medstress.core.queries import Ask, Predict, Replies, Step, Steps
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from collections.abc import Generator

    from numpy.random import Generator as Draws

LEAST_FILLED = 0.95
"""Share of the attackable items on which a control must be able to ask as often as the attack."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ControlArm(Attack):
    """A control beside one attack, with its items, goal, seeds and number of queries.

    It asks, item by item, at most as many perturbed queries as the attack could have asked there,
    and one about an item that is wrong at baseline.
    The first success ends it: what the attack does after a success changes no rate. Beside an
    attack that keeps the answers to all its variants, it asks all of its own, of all items. The
    draws are those of the control, so the arms of attacks with equal budget, goal and seeds ask the
    same and pay once.
    """

    control: Control
    """What is asked."""
    of: Attack
    """The attack that it controls."""

    @property
    def traits(self) -> AttackTraits:
        """Those of the control, with what the arm shares with its attack."""
        ours, theirs = self.control.traits, self.of.traits
        return replace(
            ours,
            budget=theirs.budget,
            deterministic=theirs.deterministic,
            goal=theirs.goal,
            unreadable_is_success=theirs.unreadable_is_success,
            needs_entities=theirs.needs_entities,
            needs_names=ours.needs_names or theirs.needs_names,
            needs_passages=ours.needs_passages or theirs.needs_passages,
            repeats=theirs.repeats,
            search_on=SearchOn.ALWAYS if theirs.keeps_answers else SearchOn.NEVER,
            attack_all=theirs.keeps_answers,
            asks_wrong=not theirs.in_turns and not theirs.keeps_answers,
            keeps_answers=theirs.keeps_answers,
            reasoning_tokens=theirs.reasoning_tokens,
        )

    def spec(self) -> dict[str, Any]:
        """Return the control's parameters and, under `control_of`, those of the attack."""
        own = {**self.control.spec(), "budget": self.traits.budget}
        return {**own, "control_of": self.of.spec()}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the attack or the control cannot be used on the item, or None."""
        return self.of.obstacle(item, resources) or self.control.obstacle(item, resources)

    def goal_for(self, item: Question) -> Goal:
        """Return the goal of the attack."""
        return self.of.goal_for(item)

    def goal_on(self, item: Question, resources: Resources) -> Goal:
        """Return the goal of the attack; `replaced` is any option that the attack may edit."""
        goal = self.of.goal_on(item, resources)
        if isinstance(goal, Replaced) and self.control.keeps_options:
            return replace(goal, options=self.of.edited_options(item, resources))
        return goal

    def edited_options(self, item: Question, resources: Resources) -> frozenset[str] | None:
        """Return those of the attack."""
        return self.of.edited_options(item, resources)

    def on_trial(self, seed: int | None, repeat: int) -> ControlArm:
        """Return the arm beside one trial of its attack."""
        of = self.of.on_trial(seed, repeat)
        return self if of is self.of else replace(self, of=of)

    def turns(self, item: Question, rng: Draws) -> Turns:
        """Return the attack's conversation."""
        return self.of.turns(item, rng)

    def validity(self, candidate: Candidate, resources: Resources) -> Validity | None:
        """Judge as the control does."""
        return self.control.validity(candidate, resources)

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return what the attack could ask, or the number of variants if it is smaller."""
        most = self.of.most_queries(item, resources)
        return min(most, self.control.n_variants(item, resources))

    def fills(self, item: Question, resources: Resources) -> bool:
        """Return whether the control can ask as often as the attack could."""
        most = self.of.most_queries(item, resources)
        return self.control.n_variants(item, resources) >= most

    def run(self, item: Question, rng: Draws, resources: Resources) -> Steps[Candidate | None]:
        """Ask what the control asks; in a conversation each query is an attempt."""
        most = self.of.most_queries(item, resources)
        steps = self.control.ask(item, rng, resources, most)
        if not self.traits.in_turns:
            return (yield from steps)
        return (yield from _numbered(steps))


def control_arm(control: Control, attack: Attack) -> ControlArm:
    """Put a control beside an attack; see `Control.beside`."""
    return ControlArm(control=control.beside(attack), of=attack)


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
