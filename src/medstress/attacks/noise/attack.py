"""Noise and synonyms as attacks on sentences: one perturbed copy, or a search for few edits.

A perturbation (`medstress.attacks.noise`) makes the edits; this module decides which are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from medstress.attacks.choices import check_word
from medstress.attacks.noise.protocol import NoiseResources, Perturbation
from medstress.attacks.noise.set_search import greedy, random_growth
from medstress.attacks.noise.texts import Side, perturb_pair
from medstress.attacks.protocol import PAIRS, TAGGED, Attack, AttackTraits, SearchOn
from medstress.core.errors import UsageError
from medstress.core.outcomes import Goal, Measured, Moved, Untargeted
from medstress.core.queries import Predict, Steps, ask
from medstress.core.sentences import TOKENS, EntityUnit
from medstress.core.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator

    class _Base(Perturbation, Attack):
        """The perturbation it is joined with, and the attack that this makes."""
else:
    _Base = object

Search: TypeAlias = Literal["none", "greedy", "random"]


@dataclass(frozen=True, kw_only=True)
class SentenceAttack(_Base):
    """Mixin that makes an attack of a perturbation.

    `search = "none"` is what the paper does: every item has one perturbed copy with all edits of
    the perturbation, asked once. A search looks, within `budget` queries, for as few of these
    edits as change the answer (`set_search`). A success of several edits does not end it, because
    fewer may be enough.

    For a tagged text, a trial is about one gold entity that was found strictly before; it is
    flipped if it is no longer found. The entities of a sentence share its perturbation, so a copy
    is one call. For a pair, one text is perturbed and the change of score is measured; it counts
    as flipped only if it exceeds `max_change`.

    *Differs from the paper*, which does not say which sentence of a pair it perturbs: the first.

    References:
        Araujo, Carvallo, Aspillaga, Parra, "On adversarial examples for biomedical NLP tasks",
        2020 (METHODS section 4).
    """

    budget: int = 1
    """Perturbed queries per trial; 1 without a search."""
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
        """See `AttackTraits`; after a success of several edits a search tries fewer."""
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
        """Whether edits, search and side involve no random draw."""
        drawn = self.search == "random" or self.side == "random"
        return super().deterministic and not drawn  # type: ignore[safe-super]

    def goal_for(self, item: Any) -> Goal:
        """Return the goal: a wrong answer (an entity no longer found), or a changed score."""
        if item.is_judged:
            return Untargeted()
        return Measured() if self.max_change is None else Moved(self.max_change)

    def obstacle(self, item: Any, resources: NoiseResources) -> str | None:
        """Return why this item cannot be attacked, or None."""
        if isinstance(item, EntityUnit) and item.entity is None:
            return "the sentence has no gold entity"
        return None

    def most_queries(self, item: Any, resources: NoiseResources) -> int:
        """Return the budget: what the perturbation can change is known only once it is drawn."""
        return self.budget

    def run(self, item: Any, rng: Generator, resources: NoiseResources) -> Steps[Any]:
        """Ask about the perturbed copy, or search among its edits; see `Attack.run`."""
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
        """Return all edits that the perturbation makes."""
        if not isinstance(item, EntityUnit):
            found: tuple[Edit, ...] = perturb_pair(item, self, rng, resources, self.side).edits
            return found
        return tuple(
            Edit(field=TOKENS, start=e.start, end=e.end, replacement=" ".join(e.replacement))
            for e in self.perturb(item.text, rng, resources).edits
        )


def by_distance(item: Any, edits: Sequence[Edit]) -> list[Edit]:
    """Sort edits by promise: those in the entity first, then the nearest to it.

    Edits of a pair stay in reading order.
    """
    entity = item.entity if isinstance(item, EntityUnit) else None
    if entity is None:
        return list(edits)
    return sorted(
        edits, key=lambda e: (max(entity.start - e.end + 1, e.start - entity.end + 1, 0), e.start)
    )
