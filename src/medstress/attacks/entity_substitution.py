"""Type-consistent entity substitution in one distractor.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Algorithm 1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from medstress.attacks.choices import (
    BY_CHOICES,
    CHOICES,
    MAX_EXPONENT,
    VARIANTS,
    check_flag,
    check_word,
    default_budget,
    default_unreadable,
    default_variants,
    default_victim_span,
    exclusions,
)
from medstress.attacks.constraints import (
    Replacements,
    case_copy,
    count_excluded,
    goal_obstacle,
    parse_edit_limit,
    rule_validity,
)
from medstress.attacks.protocol import Attack, AttackTraits, SearchOn, Validity
from medstress.attacks.spans import (
    RANKERS,
    n_probes,
    nearest_span,
    random_span_within,
    side_stream,
    span_text,
    spans_in,
)
from medstress.core.errors import UsageError
from medstress.core.items import TEXTS, Candidate, Mention, Question
from medstress.core.outcomes import parse_goal
from medstress.core.queries import LOOKAHEAD, Predict, Steps, ask_in_turn
from medstress.core.resources import Exclusions, Resources

if TYPE_CHECKING:
    from numpy.random import Generator


__all__ = ["EntitySubstitution", "nearest_span"]

NAME = "entity_substitution"
MAX_BUDGET = 1000
UNBOUNDED = 1_000_000_000
"""Budget of `exhaustive`: more than any vocabulary holds."""
EXHAUSTIVE_LOOKAHEAD = 128
"""The same for `exhaustive`, which asks every query: enough for one batch."""
_SAMPLERS = ("random", "pdws", "nearest", "farthest", "exhaustive")


@dataclass(frozen=True, slots=True, kw_only=True)
class EntitySubstitution(Attack):
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

    sampler: str = "pdws"
    """`random`, `pdws`, `nearest`, `farthest`, or `exhaustive`: every name once, the nearest
    first, without early stop."""
    n: float | None = None
    """Exponent of `pdws`, |n| <= 200."""
    budget: int = BY_CHOICES
    """Perturbed queries per item, 1 to 1,000, probes included. Default 8; 7 as_released, where
    the clean call is the first of 8. Not for `exhaustive`."""
    victim_span: str = BY_CHOICES
    """Which span is replaced: `nearest` to the key, `random`, or `saliency`, which first deletes
    each span in a probe, and asks nothing if the budget holds no more than the probes. Default
    `nearest`; as_released `random` for sampler `random`."""
    field: str = "options"
    """Where the entity stands: `options` (a wrong one), `passage`, `context`, `stem`; of a text
    every entity but those that share a word with the key. *Differs from the paper*, which
    replaces entities of options alone."""
    goal: str = "untargeted"
    """The answer that is a success: `untargeted` (any wrong option), `replaced` (the option that
    was edited), or an option letter."""
    choices: str = "default"
    """`default`, `as_published` or `as_released`: changes the defaults of the other keys, and
    how variants are marked, case is copied and an entity inside an option is chosen."""
    variants: str = BY_CHOICES
    """Variants and listed synonyms of the key: `exclude`, or `mark` and ask them. Default
    `exclude`; `mark` where choices is not default."""
    continue_on_invalid: bool = BY_CHOICES
    """Whether the search goes on after a success that a rule refutes. Default: true where
    variants is `mark`."""
    unreadable_is_success: bool = BY_CHOICES
    """Whether an unreadable answer is a success. Default false; true as_released."""
    max_edit_distance: int | Mapping[str, int] = 0
    """Largest edit distance of span and replacement: characters, or `{tokens = 3}`; 0 = no
    limit."""

    def __post_init__(self) -> None:
        check_word(NAME, "sampler", self.sampler, _SAMPLERS)
        check_word(NAME, "choices", self.choices, CHOICES)
        check_word(NAME, "field", self.field, ("options", *TEXTS))
        if self.field != "options" and self.goal == "replaced":
            raise UsageError(
                f"{NAME}: goal = 'replaced' is the option that was edited, but field = "
                f"{self.field!r} edits none; choose another goal"
            )
        self._check_budget()
        self._check_exponent()
        for key, value in self._defaults().items():
            if getattr(self, key) is None:
                object.__setattr__(self, key, value)  # frozen from here on
        check_word(NAME, "victim_span", self.victim_span, RANKERS)
        check_word(NAME, "variants", self.variants, VARIANTS)
        check_flag(NAME, "continue_on_invalid", self.continue_on_invalid)
        check_flag(NAME, "unreadable_is_success", self.unreadable_is_success)
        parse_edit_limit(self.max_edit_distance, NAME)
        try:
            parse_goal(self.goal)
        except UsageError as error:
            raise UsageError(f"{NAME}: {error}") from None

    def _defaults(self) -> dict[str, Any]:
        """Return the defaults of the keys whose default depends on other keys."""
        is_exhaustive = self.sampler == "exhaustive"
        variants = self.variants or default_variants(self.choices)
        return {
            "budget": UNBOUNDED if is_exhaustive else default_budget(self.choices),
            "victim_span": default_victim_span(self.choices, self.sampler),
            "variants": variants,
            "continue_on_invalid": variants == "mark",
            "unreadable_is_success": default_unreadable(self.choices),
        }

    def _check_budget(self) -> None:
        if self.budget is None:
            return
        if self.sampler == "exhaustive":
            raise UsageError(
                f"{NAME}: sampler 'exhaustive' takes no budget (it asks the whole vocabulary); "
                f"leave budget = {self.budget!r} out"
            )
        if type(self.budget) is not int or not 1 <= self.budget <= MAX_BUDGET:
            raise UsageError(
                f"{NAME}: budget must be a whole number from 1 to {MAX_BUDGET}, got {self.budget!r}"
            )

    def _check_exponent(self) -> None:
        if self.sampler == "pdws" and self.n is None:
            raise UsageError(
                f"{NAME}: sampler 'pdws' needs its exponent, e.g. n = -20; `medstress tune` "
                "chooses it by itself"
            )
        if self.sampler != "pdws" and self.n is not None:
            raise UsageError(f"{NAME}: sampler {self.sampler!r} takes no n")
        if self.n is not None and not (
            type(self.n) in (int, float) and -MAX_EXPONENT <= self.n <= MAX_EXPONENT
        ):
            raise UsageError(
                f"{NAME}: n must be a number from -{MAX_EXPONENT} to {MAX_EXPONENT}, got {self.n!r}"
            )

    @property
    def traits(self) -> AttackTraits:
        """See `AttackTraits`."""
        drawn = self.sampler in ("random", "pdws") or self.victim_span == "random"
        goes_on = SearchOn.INVALID if self.continue_on_invalid else SearchOn.NEVER
        return AttackTraits(
            stream=NAME,
            budget=self.budget,
            # As released, the entity in an option is drawn.
            deterministic=not drawn and self.choices != "as_released",
            goal=self.goal,
            unreadable_is_success=self.unreadable_is_success,
            needs_scores="victim_span = 'saliency'" if self.victim_span == "saliency" else None,
            search_on=SearchOn.ALWAYS if self.sampler == "exhaustive" else goes_on,
            may_be_refuted=self.variants == "mark",
            edits_only=frozenset({self.field} & set(TEXTS)),
            puts_one_name=True,
        )

    @property
    def rule(self) -> Exclusions:
        """Which names are never drawn."""
        return exclusions(self.choices, self.variants)

    def spec(self) -> dict[str, Any]:
        """Return the parameters, as JSON values; the budget of `exhaustive` is null."""
        found = {"name": NAME, **asdict(self)}
        return {**found, "budget": None} if self.sampler == "exhaustive" else found

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters for labels: `spec` without defaults that depend on other keys."""
        defaults = {k: v for k, v in self._defaults().items() if k not in ("budget", "variants")}
        defaults |= {"variants": default_variants(self.choices), "field": "options"}
        return {
            key: None if key in defaults and value == defaults[key] else value
            for key, value in self.spec().items()
        }

    def obstacle(self, item: Question, resources: Resources) -> str | None:
        """Return why the item cannot be attacked, or None."""
        if not spans_in(item, resources, self.field):
            place = "distractor" if self.field == "options" else self.field
            return f"no {place} mentions an entity of type {resources.group}"
        if reason := goal_obstacle(self.goal, item) or resources.perturbations.obstacle(item):
            return reason
        if resources.perturbations.allowed(item, self.rule).size == 0:
            return "no name of the vocabulary may replace it"
        spans = spans_in(item, resources, self.field)
        return self._replacements.obstacle(item, spans, resources)

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Judge a success by the rules; see `rule_validity`."""
        return rule_validity(candidate, resources)

    def n_excluded(self, candidate: Candidate, resources: Resources) -> dict[str, int]:
        """Count the names never drawn, by reason; see `count_excluded`."""
        return count_excluded(candidate, resources, self._replacements)

    def edited_options(self, item: Question, resources: Resources) -> frozenset[str]:
        """Return the options in which the entity may be replaced: one, if the ranker fixes it."""
        if self.field != "options":
            return frozenset()
        spans = self._spans(item, resources)
        if spans and self.victim_span == "nearest":
            return frozenset({nearest_span(item, resources, spans).field})
        return frozenset(span.field for span in spans)

    def most_queries(self, item: Question, resources: Resources) -> int:
        """Return the number of probes and names, at most the budget; 0 if probes use it up."""
        spans = self._spans(item, resources)
        n_names = max(
            (self._replacements.names(item, span, resources).size for span in spans), default=0
        )
        probes = n_probes(self.victim_span, spans)
        return min(self.budget, probes + n_names) if probes < self.budget else 0

    def run(self, item: Question, rng: Generator, resources: Resources) -> Steps[Candidate | None]:
        """Attack one item; see `Attack.run`."""
        import numpy as np

        from medstress.attacks.samplers import IGNORE_DISTANCES, draw

        # A separate stream: the choice of span must not shift the sampler's random numbers.
        side = cache(partial(side_stream, rng))
        spans = self._spans(item, resources)
        left = self.budget - n_probes(self.victim_span, spans)
        if left < 1:
            return None  # the probes alone would use up the budget
        span = yield from RANKERS[self.victim_span](item, spans, side, resources)
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
            self._replacements.names(item, span, resources),
            rng,
            left,
            self.n,
        )
        copy_case = case_copy(self.choices)
        base, original = Candidate(item=item), span_text(item, span)
        queries = (
            Predict(base.edit(span, copy_case(names.names[i], original))) for i in map(int, drawn)
        )
        lookahead = EXHAUSTIVE_LOOKAHEAD if self.sampler == "exhaustive" else LOOKAHEAD
        reached: Candidate | None = yield from ask_in_turn(queries, lookahead)
        return reached

    def _spans(self, item: Question, resources: Resources) -> Sequence[Mention]:
        """Return the spans that at least one name may replace."""
        return self._replacements.spans(item, spans_in(item, resources, self.field), resources)

    @property
    def _replacements(self) -> Replacements:
        return Replacements(
            limit=parse_edit_limit(self.max_edit_distance, NAME),
            rule=self.rule,
            copy_case=case_copy(self.choices),
        )
