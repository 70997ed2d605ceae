"""Noise and synonyms as attacks on texts: one perturbed copy, or a search for few edits.

A perturbation (`medstress.attacks.noise`) makes the edits; this module decides which are asked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from medstress.attacks.choices import check_word
from medstress.attacks.noise.protocol import NoiseResources, Perturbation
from medstress.attacks.noise.set_search import greedy, random_growth
from medstress.attacks.noise.texts import Field, Side, perturb_pair, perturb_question, texts_of
from medstress.attacks.protocol import PAIRS, QUESTIONS, TAGGED, AttackTraits, Legacy, SearchOn
from medstress.core.errors import UsageError
from medstress.core.items import TEXTS, Question
from medstress.core.outcomes import Goal, Measured, Moved, Untargeted
from medstress.core.queries import Predict, Steps, ask
from medstress.core.resources import Resources
from medstress.core.sentences import TOKENS, EntityUnit
from medstress.core.text import Edit

if TYPE_CHECKING:
    from numpy.random import Generator

    class _Base(Perturbation, Legacy):
        """The perturbation it is joined with, and the attack that this makes."""
else:
    _Base = object

Search: TypeAlias = Literal["none", "greedy", "random"]
DEFAULT_FIELD: Field = "question"
"""What noise perturbs in questions unless `field` says otherwise."""


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

    For a question, a trial is about the question. One field of it is perturbed, and a wrong answer
    is a success. Only questions that were answered right are attacked, as by all attacks on
    questions. Of sentences every copy is asked, because scores of whole data sets, such as F1, need
    all of them.

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
    field: Field = DEFAULT_FIELD
    """Questions: what is perturbed: `question` (context and stem), `stem`, `context`, `passage`, or
    all `options`, the key too."""

    def __post_init__(self) -> None:
        prepare = getattr(super(), "__post_init__", None)
        if prepare is not None:
            prepare()
        name = self.spec()["name"]
        check_word(name, "search", self.search, get_args(Search))
        check_word(name, "side", self.side, get_args(Side))
        check_word(name, "field", self.field, get_args(Field))
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
            item_kinds=frozenset({QUESTIONS, TAGGED, PAIRS}),
            needs_entities=False,
            edits_only=frozenset({self.field} & set(TEXTS)),
            is_static=is_static,
            search_on=SearchOn.NEVER if is_static else SearchOn.SMALLER,
        )

    @property
    def deterministic(self) -> bool:
        """Whether edits, search and side involve no random draw."""
        drawn = self.search == "random" or self.side == "random"
        return super().deterministic and not drawn  # type: ignore[safe-super]

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters that tell attacks of this name apart in labels."""
        return {**self.spec(), "field": None if self.field == DEFAULT_FIELD else self.field}

    def is_static_on(self, item: Any) -> bool:
        """Whether a copy of the item is asked in any case: never for questions."""
        return self.search == "none" and not isinstance(item, Question)

    def goal_for(self, item: Any) -> Goal:
        """Return the goal: a wrong answer (an entity no longer found), or a changed score."""
        if item.is_judged:
            return Untargeted()
        return Measured() if self.max_change is None else Moved(self.max_change)

    def obstacle(self, item: Any, resources: NoiseResources | Resources) -> str | None:
        """Return why this item cannot be attacked, or None."""
        if isinstance(item, Question):
            texts = map(item.text_of, texts_of(item, self.field))
            return None if any(map(str.strip, texts)) else f"the question has no {self.field}"
        if isinstance(item, EntityUnit) and item.entity is None:
            return "the sentence has no gold entity"
        return None

    def most_queries(self, item: Any, resources: NoiseResources | Resources) -> int:
        """Return the budget: what the perturbation can change is known only once it is drawn."""
        return self.budget

    def run(self, item: Any, rng: Generator, resources: NoiseResources | Resources) -> Steps[Any]:
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

    def edits(
        self, item: Any, rng: Generator, resources: NoiseResources | Resources
    ) -> tuple[Edit, ...]:
        """Return all edits that the perturbation makes."""
        noise = noise_of(resources)
        if noise is None:
            raise ValueError(f"noise needs NoiseResources, got {resources!r}")
        if isinstance(item, Question):
            return perturb_question(item, self, rng, noise, self.field).edits
        if not isinstance(item, EntityUnit):
            found: tuple[Edit, ...] = perturb_pair(item, self, rng, noise, self.side).edits
            return found
        return tuple(
            Edit(field=TOKENS, start=e.start, end=e.end, replacement=" ".join(e.replacement))
            for e in self.perturb(item.text, rng, noise).edits
        )


def noise_of(resources: NoiseResources | Resources) -> NoiseResources | None:
    """Return what noise may read; groups of questions hold it beside their names."""
    found = resources.noise if isinstance(resources, Resources) else resources
    return found if isinstance(found, NoiseResources) else None


def by_distance(item: Any, edits: Sequence[Edit]) -> list[Edit]:
    """Sort edits by promise: those in the entity first, then the nearest to it.

    Edits of pairs and questions stay in reading order.
    """
    entity = item.entity if isinstance(item, EntityUnit) else None
    if entity is None:
        return list(edits)
    return sorted(
        edits, key=lambda e: (max(entity.start - e.end + 1, e.start - entity.end + 1, 0), e.start)
    )
