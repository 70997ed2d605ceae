"""Random names of the type, in the place where an attack puts its own."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Any, TypeAlias

from medstress.attacks.controls.harmless import Budget, Control
from medstress.attacks.discrete_zoo import AttackedEntity, DiscreteZoo, QueryBudget
from medstress.attacks.entity_substitution import EntitySubstitution
from medstress.attacks.names import MAX_BUDGET, LeavesOut
from medstress.attacks.protocol import (
    Attack,
    Need,
    Validity,
    most_queries,
    never_wrong,
    parameters,
)
from medstress.core.items import Candidate, Question
from medstress.core.queries import Predict, Steps, ask_in_turn
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

NAME = "same_type"
Named: TypeAlias = EntitySubstitution | DiscreteZoo
"""The attacks that replace an entity by another name of its type."""


class RandomNames(LeavesOut, Control):
    """Ask names drawn with equal probability, where another attack chooses them.

    Spans, exclusions, limits and random stream are those of that attack, so that random sampling
    on the same spans asks the same names.
    """

    name = NAME
    keeps_options = False

    @property
    @abstractmethod
    def like(self) -> Named:
        """The attack whose names are replaced by random ones."""

    @property
    def stream(self) -> str:
        """That of the attack."""
        return self.like.stream

    @property
    def needs(self) -> frozenset[Need]:
        """Those of the attack."""
        return self.like.needs

    @property
    def fields(self) -> frozenset[str]:
        """Those of the attack."""
        return self.like.fields

    def spec(self) -> dict[str, Any]:
        """Return the parameters."""
        return {"name": NAME, "budget": self.budget}

    def unfit(self, attack: Attack) -> str | None:
        """Say why random names are no control of an attack, or None."""
        if isinstance(attack, DiscreteZoo):
            return None
        if not isinstance(attack, EntitySubstitution):
            return "it replaces no entity by another name of its type"
        if attack.sampler == "random":
            return "it is that attack"
        if attack.sampler == "exhaustive":
            return "it asks every name, as random names would"
        return None

    def for_attack(self, attack: Attack) -> Control:
        """Return random names in the attack's spans."""
        if not isinstance(attack, EntitySubstitution | DiscreteZoo):
            return self
        return SameTypeAs(attack=attack)

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why no name may be put in, or None."""
        return self.like.obstacle(item, resources)

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Judge by the rules for names, as the attack does."""
        return self.like.validity(candidate, resources)

    def n_excluded(self, candidate: Candidate, resources: Resources) -> dict[str, int]:
        """Count the names that are never drawn, by reason, as the attack does."""
        return self.like.n_excluded(candidate, resources)

    def n_variants(self, item: Question, resources: Resources) -> int:
        """Return the number of names, with the probes of the spans, up to 1,000."""
        return most_queries(replace(self._random(), budget=MAX_BUDGET), item, resources)

    def variants(self, item: Question, rng: Generator, resources: Resources) -> Iterator[Candidate]:
        """Yield what is asked of a victim that never errs."""
        return (query.candidate for query in never_wrong(self, item, rng, resources))

    def ask(
        self,
        item: Question,
        rng: Generator,
        resources: Resources,
        most: int,
        edited: Collection[str] = (),
    ) -> Steps[Candidate | None]:
        """See `Control.ask`; probes of spans count."""
        attack = self._random()
        if isinstance(attack, EntitySubstitution):
            budget = min(most, MAX_BUDGET)
            if budget < 1:
                return None
            return (yield from replace(attack, budget=budget).run(item, rng, resources))
        return (yield from _ask_in_rounds(attack, item, rng, resources, most))

    def _random(self) -> Named:
        like = self.like
        return (
            replace(like, sampler="random", n=None)
            if isinstance(like, EntitySubstitution)
            else like
        )


@parameters
class SameType(RandomNames):
    """Ask random names of the type in the distractor entity nearest to the key.

    As an attack of its own it is random sampling. As a control it uses the spans and exclusions
    of its attack, so that the difference is what the choice of names is worth.
    """

    budget: Budget = 8
    """Names asked, 1 to 1,000."""

    @property
    def like(self) -> Named:
        """Random sampling on the nearest span."""
        return EntitySubstitution(sampler="random", budget=self.budget)


@dataclass(frozen=True, kw_only=True)
class SameTypeAs(RandomNames):
    """Random names in the spans of an attack."""

    attack: Named
    """The attack."""

    @property
    def like(self) -> Named:
        """That attack."""
        return self.attack

    @property
    def budget(self) -> int:
        """That of the attack."""
        return min(self.attack.budget, MAX_BUDGET)


def _ask_in_rounds(
    zoo: DiscreteZoo, item: Question, rng: Generator, resources: Resources, most: int
) -> Steps[Candidate | None]:
    """Ask random names at one entity after another, as many at each as the attack's step asks."""
    budget = QueryBudget(most)
    spans = yield from zoo.ranked(item, zoo.attacked_spans(item, resources), rng, budget)
    entities = [zoo.entity(item, span, resources) for span in spans]
    queries = _in_rounds(entities, zoo.candidates + 1, rng, repeats=zoo.rounds != "one_pass")
    reached: Candidate | None = yield from ask_in_turn(islice(queries, budget.left))
    return reached


def _in_rounds(
    entities: list[AttackedEntity], size: int, rng: Generator, *, repeats: bool
) -> Iterator[Predict]:
    import numpy as np

    left = [iter(rng.permutation(np.flatnonzero(entity.open))) for entity in entities]
    while True:
        n = 0
        for entity, names in zip(entities, left, strict=True):
            for name in islice(names, size):
                n += 1
                yield Predict(entity.candidate(int(name)))
        if not n or not repeats:
            return
