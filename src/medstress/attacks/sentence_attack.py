"""Noise and synonyms as attacks on sentences: one perturbed copy, or a search for few edits.

A perturbation (`medstress.attacks.noise`) says which edits there are; this says which are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from medstress.attacks.choices import check_word
from medstress.attacks.noise.protocol import NoiseResources, Perturbation
from medstress.attacks.noise.texts import Side, perturb_pair
from medstress.attacks.protocol import PAIRS, TAGGED, Attack, AttackTraits, SearchOn
from medstress.attacks.set_search import greedy, random_growth
from medstress.errors import UsageError
from medstress.outcomes import Goal, Measured, Moved, Untargeted
from medstress.queries import Predict, Steps, ask
from medstress.sentences import TOKENS, EntityUnit
from medstress.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator

    class _Base(Perturbation, Attack):
        """What it is joined with, and what that becomes."""
else:
    _Base = object

Search: TypeAlias = Literal["none", "greedy", "random"]


@dataclass(frozen=True, kw_only=True)
class SentenceAttack(_Base):
    """What a perturbation becomes when it is joined with this class: an attack.

    `search = "none"` is the way of the paper: every item has one perturbed copy with all edits
    that the perturbation makes, and that is asked once. A search looks, within `budget` queries,
    for as few of these edits as change the answer (`set_search`): a success of several edits does
    not end it, as fewer of them may do.

    Of a tagged text a trial is about one gold entity, found strictly before; it is flipped where
    it is no longer found. The entities of a sentence share its perturbation, so that a copy is
    one call. Of a pair one text is perturbed. Its change of score is measured, and counts as
    flipped only where `max_change` says how much is too much.

    *Differs from the paper*, which does not say which sentence of a pair it perturbs: the first.

    References:
        Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
        2020 (METHODS section 4).
    """

    budget: int = 1
    """Perturbed queries per trial; 1 where nothing is searched."""
    search: Search = "none"
    """`none`, `greedy` by importance, or `random`."""
    side: Side = "first"
    """Pairs: which text is perturbed: `first`, `second`, `random`."""
    max_change: float | None = None
    """Pairs: a larger change of the score, up or down, is a success; unset: only measured."""

    def __post_init__(self) -> None:
        prepare = getattr(super(), "__post_init__", None)
        if prepare is not None:
            prepare()
        name = self.spec()["name"]
        check_word(name, "search", self.search, get_args(Search))
        check_word(name, "side", self.side, get_args(Side))
        if isinstance(self.budget, bool) or not isinstance(self.budget, int) or self.budget < 1:
            raise UsageError(f"{name}: budget: expected a whole number from 1, got {self.budget!r}")
        if self.search == "none" and self.budget != 1:
            raise UsageError(
                f"{name}: budget = {self.budget}: one perturbed copy is one query; write "
                'search = "greedy" or "random" to look for few edits within a budget'
            )
        limit = self.max_change
        if limit is not None and (
            isinstance(limit, bool) or not isinstance(limit, int | float) or not limit >= 0
        ):
            raise UsageError(f"{name}: max_change: expected a number from 0, got {limit!r}")

    @property
    def traits(self) -> AttackTraits:
        """What it is; a search goes on from a success of several edits to a smaller one."""
        is_static = self.search == "none"
        return AttackTraits(
            stream=self.stream,
            budget=self.budget,
            deterministic=self.deterministic,
            kinds=frozenset({TAGGED, PAIRS}),
            is_static=is_static,
            search_on=SearchOn.NEVER if is_static else SearchOn.SMALLER,
        )

    @property
    def deterministic(self) -> bool:
        """Whether neither edits nor search nor side are drawn."""
        drawn = self.search == "random" or self.side == "random"
        return super().deterministic and not drawn  # type: ignore[safe-super]

    def goal_for(self, item: Any) -> Goal:
        """A wrong answer (an entity that is no longer found), or a score that has changed."""
        if item.is_judged:
            return Untargeted()
        return Measured() if self.max_change is None else Moved(self.max_change)

    def obstacle(self, item: Any, resources: NoiseResources) -> str | None:
        """Why this item cannot be attacked, or None."""
        if isinstance(item, EntityUnit) and item.entity is None:
            return "the sentence has no gold entity"
        return None

    def most_queries(self, item: Any, resources: NoiseResources) -> int:
        """The budget; what the perturbation can change is known only once it is drawn."""
        return self.budget

    def run(self, item: Any, rng: Generator, resources: NoiseResources) -> Steps[Any]:
        """Ask the perturbed copy, or search among its edits; returns what it asked last."""
        edits = self.edits(item, rng, resources)
        if self.search == "none":
            copy = item.candidate(edits)
            yield from ask([Predict(copy)])
            return copy
        if not edits:
            return None
        if self.search == "greedy":
            return (yield from greedy(item, by_distance(item, edits), self.budget))
        return (yield from random_growth(item, edits, self.budget, rng))

    def edits(self, item: Any, rng: Generator, resources: NoiseResources) -> tuple[Edit, ...]:
        """All edits that the perturbation makes in an entity's sentence, or in one of two texts."""
        if not isinstance(item, EntityUnit):
            found: tuple[Edit, ...] = perturb_pair(item, self, rng, resources, self.side).edits
            return found
        return tuple(
            Edit(field=TOKENS, start=e.start, end=e.end, replacement=" ".join(e.replacement))
            for e in self.perturb(item.text, rng, resources).edits
        )


def by_distance(item: Any, edits: Sequence[Edit]) -> list[Edit]:
    """Edits in the order in which they are worth asking: those in the entity, then the nearest.

    Of a pair they stay in reading order.
    """
    entity = item.entity if isinstance(item, EntityUnit) else None
    if entity is None:
        return list(edits)
    return sorted(
        edits, key=lambda e: (max(entity.start - e.end + 1, e.start - entity.end + 1, 0), e.start)
    )
