"""Type-consistent entity substitution in one distractor.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Algorithm 1.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import isfinite
from typing import TYPE_CHECKING, Any

from medstress.attacks.protocol import Validity
from medstress.errors import UsageError, did_you_mean
from medstress.items import Candidate, Mention, Question
from medstress.outcomes import Goal, Untargeted
from medstress.queries import Predict, Steps, ask
from medstress.resources import Resources
from medstress.text import copy_case

if TYPE_CHECKING:
    from numpy.random import Generator

MAX_BUDGET = 1000
MAX_EXPONENT = 200
_SAMPLERS = ("random", "pdws", "nearest", "farthest")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySubstitution:
    """Replace the distractor entity nearest to the key by other names of its type.

    Names are drawn without replacement until the victim errs or the budget is used. The key and
    whatever could be a second right answer are never drawn.

    *Differs from the paper*: the replacement copies only the case of the first character; names
    that vary the key's wording, its listed synonyms and texts of other options are excluded, not
    only the key string; random sampling attacks the same (nearest) span as the others, where the
    released script picks a random distractor.
    """

    sampler: str = "pdws"
    """`random`, `pdws`, `nearest` or `farthest`."""
    n: float | None = None
    """Exponent of `pdws`, |n| <= 200."""
    budget: int = 8
    """Perturbed queries an item, 1 to 1,000."""

    def __post_init__(self) -> None:
        if self.sampler not in _SAMPLERS:
            hint = did_you_mean(str(self.sampler), _SAMPLERS)
            raise UsageError(
                f"entity_substitution: unknown sampler {self.sampler!r}{hint} "
                f"(known: {', '.join(_SAMPLERS)})"
            )
        if type(self.budget) is not int or not 1 <= self.budget <= MAX_BUDGET:
            raise UsageError(
                f"entity_substitution: budget must be a whole number from 1 to {MAX_BUDGET}, got "
                f"{self.budget!r}"
            )
        if self.sampler == "pdws" and self.n is None:
            raise UsageError("entity_substitution: sampler 'pdws' needs its exponent, e.g. n = -20")
        if self.sampler != "pdws" and self.n is not None:
            raise UsageError(f"entity_substitution: sampler {self.sampler!r} takes no n")
        if self.n is not None and not (
            type(self.n) in (int, float) and isfinite(self.n) and abs(self.n) <= MAX_EXPONENT
        ):
            raise UsageError(
                f"entity_substitution: n must be a number from -{MAX_EXPONENT} to {MAX_EXPONENT}, "
                f"got {self.n!r}"
            )

    @property
    def stream(self) -> str:
        """The random stream; without sampler, n and budget, so that arms share their draws."""
        return "entity_substitution"

    @property
    def deterministic(self) -> bool:
        """Whether the seed changes nothing."""
        return self.sampler in ("nearest", "farthest")

    @property
    def goal(self) -> Goal:
        """Any readable wrong answer."""
        return Untargeted()

    def spec(self) -> dict[str, Any]:
        """The parameters, as JSON values."""
        return {"name": "entity_substitution", **asdict(self)}

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Why the item cannot be attacked, or None."""
        if not _distractor_spans(item, resources):
            return f"no distractor mentions an entity of type {resources.group}"
        if reason := resources.perturbations.obstacle(item):
            return reason
        if resources.perturbations.allowed(item).size == 0:
            return "no name of the vocabulary may replace it"
        return None

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Valid by rule: names that could be a second right answer were never drawn."""
        (edit,) = candidate.edits
        found = resources.perturbations.variant_class(candidate.item, edit.replacement)
        return Validity(valid=found == "different", reason="rule", variant_class=found)

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see `Attack.run`."""
        from medstress.attacks.samplers import draw

        span = nearest_span(item, resources)
        original = item.option(span.field)[span.start : span.end]
        names = resources.perturbations
        drawn = draw(
            self.sampler,
            names.distances(item.key_text),
            names.allowed(item),
            rng,
            self.budget,
            self.n,
        )
        base = Candidate(item=item)
        queries = [Predict(base.edit(span, copy_case(names.names[i], original))) for i in drawn]
        for i, query in enumerate(queries):
            (answer,) = yield from ask([query], then=queries[i + 1 :])
            if answer.reached_goal:
                return query.candidate
        return None


def nearest_span(item: Question, resources: Resources) -> Mention:
    """The type-matched distractor entity with the smallest distance to the key (RankSelect).

    The first in option order where distances tie or are undefined.
    """

    def distance(span: Mention) -> float:
        text = item.option(span.field)[span.start : span.end]
        value = resources.perturbations.distance_to(item.key_text, text)
        return value if isfinite(value) else float("inf")

    return min(_distractor_spans(item, resources), key=distance)


def _distractor_spans(item: Question, resources: Resources) -> list[Mention]:
    spans = [
        mention
        for mention in item.mentions
        if mention.field in item.letters
        and mention.field != item.key
        and mention.type in resources.types
    ]
    return sorted(spans, key=lambda span: (span.field, span.start))
