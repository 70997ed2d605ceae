"""Type-consistent entity substitution in one distractor.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field

from medstress.attacks.names import (
    BY_CHOICES,
    MAX_BUDGET,
    MAX_EXPONENT,
    Choices,
    EditDistance,
    GoalText,
    Substitution,
    Variants,
    by_distance,
    key_log_probs_without,
    n_probes,
    nearest_span,
    random_span,
    random_span_within,
    side_stream,
    span_text,
    spans_in,
)
from medstress.attacks.protocol import UNBOUNDED, Ends, Need, parameters
from medstress.core.items import Candidate, Mention, Question
from medstress.core.queries import LOOKAHEAD, Predict, Steps, ask_in_turn
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator


__all__ = ["EntitySubstitution", "nearest_span"]

EXHAUSTIVE_LOOKAHEAD = 128
"""Queries built ahead by `exhaustive`, which asks every one: enough for one batch."""


@parameters
class EntitySubstitution(Substitution):
    """Replace one distractor entity by other names of its type.

    A template with exchangeable parts: the typed mentions of the item, a ranker that picks the
    span, a sampler that orders the names, exclusions and an edit limit that keep names out
    before any draw, and a goal. Names are drawn without replacement until the victim errs or the
    budget is used. The key and whatever could be a second right answer are never drawn.

    *Differs from the paper*, unless `choices` says otherwise: the replacement copies only the
    case of the first character; names that vary the key's wording, its listed synonyms and texts
    of other options are excluded, not only the key string; random sampling attacks the same
    (nearest) span as the others, where the released script picks a random distractor.
    """

    name = "entity_substitution"

    sampler: Literal["random", "pdws", "nearest", "farthest", "exhaustive"] = "pdws"
    """`exhaustive`: every name once, the nearest first, without early stop."""
    n: Annotated[float, Field(ge=-MAX_EXPONENT, le=MAX_EXPONENT)] | None = None
    """Exponent of `pdws`."""
    budget: Annotated[int, Field(ge=1, le=UNBOUNDED)] = BY_CHOICES
    """Perturbed queries per item, 1 to 1,000, probes included. Default 8; 7 as_released, where
    the clean call is the first of 8. Not for `exhaustive`."""
    victim_span: Literal["nearest", "random", "saliency"] = BY_CHOICES
    """Which span is replaced: `nearest` to the key, `random`, or `saliency`, which first deletes
    each span in a probe, and asks nothing if the budget holds no more than the probes. Default
    `nearest`; as_released `random` for sampler `random`."""
    field: Literal["options", "passage", "context", "stem"] = "options"
    """Where the entity is: `options` (a wrong one), `passage`, `context`, `stem`; of a text
    every entity but those that share a word with the key. *Differs from the paper*, which
    replaces entities of options alone."""
    goal: GoalText = "untargeted"
    """The answer that is a success: `untargeted` (any wrong option), `replaced` (the option that
    was edited), or an option letter."""
    choices: Choices = "default"
    """`default`, `as_published` or `as_released`: changes the defaults of the other keys, and
    how variants are marked, case is copied and an entity inside an option is chosen."""
    variants: Variants = BY_CHOICES
    """Variants and listed synonyms of the key: `exclude`, or `mark` and ask them. Default
    `exclude`; `mark` where choices is not default."""
    continue_on_invalid: bool = BY_CHOICES
    """Whether the search goes on after a success that a rule refutes. Default: true where
    variants is `mark`."""
    unreadable_is_success: bool = BY_CHOICES
    """Whether an unreadable answer is a success. Default false; true as_released."""
    max_edit_distance: EditDistance = 0
    """Largest edit distance of span and replacement: characters, or `{tokens = 3}`; 0 = no
    limit."""

    def __post_init__(self) -> None:
        if self.sampler == "exhaustive":
            if self.budget not in (None, UNBOUNDED):
                raise ValueError(
                    "sampler 'exhaustive' takes no budget (it asks the whole vocabulary); leave "
                    f"budget = {self.budget!r} out"
                )
        elif self.budget is not None and self.budget > MAX_BUDGET:
            raise ValueError(f"budget: expected at most {MAX_BUDGET}, got {self.budget!r}")
        if self.sampler == "pdws" and self.n is None:
            raise ValueError(
                "sampler 'pdws' needs its exponent, e.g. n = -20; `medstress tune` chooses it by "
                "itself"
            )
        if self.sampler != "pdws" and self.n is not None:
            raise ValueError(f"sampler {self.sampler!r} takes no n")
        if self.field != "options" and self.goal == "replaced":
            raise ValueError(
                "goal = 'replaced' is the option that was edited, but field = "
                f"{self.field!r} edits none; choose another goal"
            )
        super().__post_init__()

    def dependent_defaults(self) -> dict[str, Any]:
        """Return the defaults of the keys whose default depends on other keys (METHODS 7)."""
        is_released = self.choices == "as_released"
        variants: Variants = "exclude" if self.choices == "default" else "mark"  # row 19
        is_drawn = is_released and self.sampler == "random"  # its script draws a distractor, row 18
        return {
            # Its counter starts at 1 after the clean call, so one query fewer is left (row 2).
            "budget": UNBOUNDED if self.sampler == "exhaustive" else 7 if is_released else 8,
            "victim_span": "random" if is_drawn else "nearest",
            "variants": variants,
            "continue_on_invalid": (self.variants or variants) == "mark",
            "unreadable_is_success": is_released,  # row 3
        }

    @property
    def needs(self) -> frozenset[Need]:
        """Names, and scores for `saliency`."""
        return frozenset({"names", "scores"} if self.victim_span == "saliency" else {"names"})

    @property
    def fields(self) -> frozenset[str]:
        """Where the entity is."""
        return frozenset({self.field})

    @property
    def ends(self) -> Ends:
        """Nothing, if every name is asked."""
        return "all" if self.sampler == "exhaustive" else super().ends

    @property
    def is_random(self) -> bool:
        """Whether names, spans or, as released, the entity in an option are drawn."""
        is_drawn = self.sampler in ("random", "pdws") or self.victim_span == "random"
        return is_drawn or self.choices == "as_released"

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        spans = spans_in(item, resources, self.field)
        if not spans:
            place = "wrong option" if self.field == "options" else self.field
            return f"no {place} mentions an entity of type {resources.group}"
        return self.obstacle_of(item, spans, resources)

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see `Attack.run`."""
        import numpy as np

        from medstress.attacks.samplers import IGNORE_DISTANCES, draw

        # A separate stream: the choice of span must not shift the sampler's random numbers.
        side = cache(lambda: side_stream(rng))
        spans: Sequence[Mention] = spans_in(item, resources, self.field)
        spans = self.replaceable(item, spans, resources)
        left = self.budget - n_probes(self.victim_span, spans)
        if left < 1:
            return None  # the probes alone would use up the budget
        match self.victim_span:
            case "nearest":
                span = nearest_span(item, resources, spans)
            case "random":
                span = random_span(spans, side())
            case "saliency":
                span = yield from most_salient(item, resources, spans)
        if self.choices == "as_released":
            # The released script keeps the ranked option, and replaces a random typed entity of
            # it; by default the ranked entity itself is replaced.
            span = random_span_within(span.field, spans, side())
        names = resources.perturbations
        drawn = draw(
            self.sampler,
            np.zeros(len(names.names))
            if self.sampler in IGNORE_DISTANCES
            else names.distances(item.key_text),
            self.names(item, span, resources),
            rng,
            left,
            self.n,
        )
        base, original = Candidate(item=item), span_text(item, span)
        queries = (
            Predict(base.edit(span, self.cased(names.names[i], original))) for i in map(int, drawn)
        )
        lookahead = EXHAUSTIVE_LOOKAHEAD if self.sampler == "exhaustive" else LOOKAHEAD
        reached: Candidate | None = yield from ask_in_turn(queries, lookahead)
        return reached


def most_salient(item: Question, resources: Resources, spans: Sequence[Mention]) -> Steps[Mention]:
    """Return the span whose deletion lowers the key's log probability most.

    Each span is deleted once, in a probe: a query that counts against the budget and is never a
    success. The clean item's own log probability is the same for all, so it is not needed. A
    single span is not probed. Ties go to the span nearest to the key. How many probes there are
    (`n_probes`) does not depend on the budget, so that a smaller budget asks a prefix of a larger.

    Raises:
        TrialError: the victim gives no scores.
    """
    ranked = by_distance(item, resources, spans)
    if len(ranked) == 1:
        return ranked[0]
    log_probs = yield from key_log_probs_without(item, ranked, "victim_span = 'saliency'")
    return ranked[log_probs.index(min(log_probs))]
