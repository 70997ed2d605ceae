"""What attacks share that put a name of the vocabulary in place of an entity.

Which spans may be replaced and which names may stand there, how names are cased, when an answer is
a success, and the defaults that depend on `choices` (METHODS, section 7): `default` is ours,
`as_published` what Xian et al. state, `as_released` what their released code does. Only defaults
depend on it: a key that the user sets keeps its value.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Algorithm 1 (the edit distance epsilon).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, PlainValidator

from medstress.attacks.protocol import Attack, Ends, Validity
from medstress.core.errors import TrialError, UsageError
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Goal, Outcome, parse_goal
from medstress.core.queries import Predict, Steps, ask
from medstress.core.resources import Exclusions, Resources
from medstress.core.text import copy_case, copy_case_as_released
from medstress.core.validity import RULE

if TYPE_CHECKING:
    import numpy as np
    from numpy.random import Generator
    from numpy.typing import NDArray

Choices: TypeAlias = Literal["default", "as_published", "as_released"]
Variants: TypeAlias = Literal["exclude", "mark"]
BY_CHOICES: Any = None
"""Placeholder for a default that depends on `choices`; the attack fills it in."""
MAX_BUDGET = 1000
MAX_EXPONENT = 200


# -- spans -------------------------------------------------------------------------------------
def distractor_spans(item: Question, resources: Resources) -> list[Mention]:
    """Return the type-matched entities of the wrong options, in reading order."""
    spans = [
        mention
        for mention in item.mentions
        if mention.field in item.letters
        and mention.field != item.key
        and mention.type in resources.types
    ]
    return sorted(spans, key=lambda span: (span.field, span.start))


def spans_in(item: Question, resources: Resources, field: str) -> list[Mention]:
    """Return the type-matched entities of a field that may be replaced, in reading order.

    Args:
        item: the question.
        resources: of the entity group.
        field: `options`: those of `distractor_spans`; else one of `TEXTS`: its entities, without
            those that share a word with the key, which are what the key is known by.
    """
    if field == "options":
        return distractor_spans(item, resources)
    key = set(item.key_text.casefold().split())
    spans = [
        mention
        for mention in item.mentions
        if mention.field == field
        and mention.type in resources.types
        and not key & set(span_text(item, mention).casefold().split())
    ]
    return sorted(spans, key=lambda span: span.start)


def span_text(item: Question, span: Mention) -> str:
    """Return the text of a span."""
    return item.text_of(span.field)[span.start : span.end]


def by_distance(
    item: Question, resources: Resources, spans: Sequence[Mention] | None = None
) -> list[Mention]:
    """Sort spans by distance to the key, the nearest first.

    Ties keep the order of `spans`; spans without a distance come last.
    """

    def distance(span: Mention) -> float:
        value = resources.perturbations.distance_to(item.key_text, span_text(item, span))
        return value if isfinite(value) else float("inf")

    return sorted(distractor_spans(item, resources) if spans is None else spans, key=distance)


def nearest_span(
    item: Question, resources: Resources, spans: Sequence[Mention] | None = None
) -> Mention:
    """Return the type-matched distractor entity nearest to the key (RankSelect).

    If distances tie or are undefined, the first in option order.
    """
    return by_distance(item, resources, spans)[0]


def random_span(spans: Sequence[Mention], rng: Generator) -> Mention:
    """Draw a distractor, then an entity in it, as the released script does."""
    options = sorted({span.field for span in spans})
    return random_span_within(options[int(rng.integers(len(options)))], spans, rng)


def random_span_within(option: str, spans: Sequence[Mention], rng: Generator) -> Mention:
    """Draw one of the spans in an option."""
    within = [span for span in spans if span.field == option]
    return within[int(rng.integers(len(within)))]


def key_log_probs_without(
    item: Question, spans: Sequence[Mention], setting: str
) -> Steps[list[float]]:
    """Return the key's log probability without each span, in order.

    Each span is deleted once, in a probe. An unreadable answer gives infinity, so that its span is
    not preferred.

    Args:
        item: the question.
        spans: the spans.
        setting: what needs the scores, for the message.

    Raises:
        TrialError: the victim gives no scores.
    """
    base, log_probs = Candidate(item=item), []
    probes = [Predict(base.edit(span, ""), probe=True) for span in spans]
    for i, probe in enumerate(probes):
        (answer,) = yield from ask([probe], then=probes[i + 1 :])
        if answer.scores is None and answer.outcome is not Outcome.UNREADABLE:
            raise TrialError(
                f"{setting} needs the model's scores, and it gave none: use a model that "
                f"answers with scores, or another {setting.partition(' ')[0]}"
            )
        scores = answer.scores
        log_probs.append(float("inf") if scores is None else scores[item.letters.index(item.key)])
    return log_probs


def n_probes(victim_span: str, spans: Sequence[Mention]) -> int:
    """Return how many queries a ranker asks."""
    return len(spans) if victim_span == "saliency" and len(spans) > 1 else 0


def side_stream(rng: Generator) -> Generator:
    """Return a second stream far from the trial's own, which does not advance.

    Draws from it do not shift the names a sampler draws, so that arms with another victim span
    share those.
    """
    from numpy.random import Generator

    generator: Any = rng.bit_generator  # its abstract type lacks `jumped`
    return Generator(generator.jumped())


# -- names -------------------------------------------------------------------------------------
def edit_limit(value: object) -> tuple[str, int]:
    """Return the unit and the largest distance that `max_edit_distance` gives; 0 is no limit.

    Args:
        value: characters as a whole number, or ``{"tokens": 3}``.

    Raises:
        ValueError: the value is neither.

    >>> edit_limit(2), edit_limit({"tokens": 3})
    (('characters', 2), ('tokens', 3))
    """
    unit, largest = "characters", value
    if isinstance(value, Mapping) and len(value) == 1:
        ((unit, largest),) = value.items()
    if unit not in ("characters", "tokens") or type(largest) is not int or largest < 0:
        raise ValueError("expected a whole number of characters or {tokens = 3}, 0 for no limit")
    return unit, largest


def is_within(limit: tuple[str, int], original: str, replacement: str) -> bool:
    """Return whether a span and its replacement, after case is copied, are near enough.

    >>> is_within(("tokens", 1), "acute gout", "Chronic gout")
    True
    """
    from rapidfuzz.distance import Levenshtein  # slow to import

    unit, largest = limit
    texts: Any = (original, replacement)
    if unit == "tokens":  # words separated by white space
        texts = (original.split(), replacement.split())
    return Levenshtein.distance(*texts, score_cutoff=largest) <= largest


def _checked_distance(value: Any) -> Any:
    edit_limit(value)
    return value


def _checked_goal(value: str) -> str:
    try:
        parse_goal(value)
    except UsageError as error:
        raise ValueError(str(error).partition(": ")[2]) from None
    return value


EditDistance: TypeAlias = Annotated[int | Mapping[str, int], PlainValidator(_checked_distance)]
"""Characters, or `{tokens = 3}`; 0 is no limit."""
GoalText: TypeAlias = Annotated[str, AfterValidator(_checked_goal)]
"""`untargeted` (any wrong option), `replaced` (the edited option), or an option letter."""


def exclusions(choices: str, variants: str | None = None) -> Exclusions:
    """Return the rule that says which names are never drawn (METHODS 7, row 19).

    Args:
        choices: one of `Choices`.
        variants: whether variants of the key are left out (`exclude`), or asked and marked; by
            default `exclude`, and `mark` where `choices` is not `default`.

    >>> exclusions("default", "mark"), exclusions("as_published"), exclusions("default")
    ('mark', 'key_string', 'exclude')
    """
    if (variants or ("exclude" if choices == "default" else "mark")) == "exclude":
        return "exclude"
    # The paper and its code drop the key's text alone; we never repeat another option.
    return "mark" if choices == "default" else "key_string"


class LeavesOut(ABC):
    """Mixin of attacks that know which names of the vocabulary they never draw."""

    @abstractmethod
    def n_excluded(self, candidate: Any, resources: Any) -> Mapping[str, int] | None:
        """Count these names by reason, each under the first that fits; None if unknown.

        Args:
            candidate: one that the victim was asked about, or the clean item.
            resources: what the attack may read.
        """


class Substitution(LeavesOut, Attack):
    """Base of attacks that replace one entity by names; they have these parameters among theirs."""

    goal: GoalText
    choices: Choices
    variants: Variants
    continue_on_invalid: bool
    unreadable_is_success: bool
    max_edit_distance: EditDistance

    @abstractmethod
    def dependent_defaults(self) -> dict[str, Any]:
        """Return the defaults of the keys whose default depends on other keys."""

    def __post_init__(self) -> None:
        for key, value in self.dependent_defaults().items():
            if getattr(self, key) is None:
                object.__setattr__(self, key, value)  # frozen from here on

    def label_parameters(self) -> dict[str, Any]:
        """Return the parameters for labels: those that do not follow from others."""
        defaults = {**self.dependent_defaults(), "field": "options"}
        del defaults["budget"]
        return {
            key: None if key in defaults and value == defaults[key] else value
            for key, value in self.spec().items()
        }

    @property
    def success(self) -> Goal:
        """The goal of the file."""
        return parse_goal(self.goal, unreadable=self.unreadable_is_success)

    @property
    def ends(self) -> Ends:
        """The first success, or the first that no rule refutes."""
        return "valid" if self.continue_on_invalid else "success"

    @property
    def rule(self) -> Exclusions:
        """Which names are never drawn."""
        return exclusions(self.choices, self.variants)

    def cased(self, name: str, original: str) -> str:
        """Return a name in the case of what it replaces.

        The released code lower-cases all but the first character.
        """
        as_released = self.choices == "as_released"
        return (copy_case_as_released if as_released else copy_case)(name, original)

    def names(self, item: Question, span: Mention, resources: Resources) -> NDArray[np.int64]:
        """Return the indices of the names that may replace a span, ascending."""
        import numpy as np

        names, original = resources.perturbations, span_text(item, span)
        allowed, limit = names.allowed(item, self.rule), edit_limit(self.max_edit_distance)
        if not limit[1]:
            return allowed
        near = (is_within(limit, original, self.cased(names.names[i], original)) for i in allowed)
        return allowed[np.fromiter(near, dtype=np.bool_, count=len(allowed))]

    def replaceable(
        self, item: Question, spans: Sequence[Mention], resources: Resources
    ) -> Sequence[Mention]:
        """Return the spans that at least one name within the limit may replace."""
        if not edit_limit(self.max_edit_distance)[1]:
            return spans
        return [span for span in spans if self.names(item, span, resources).size]

    def obstacle_of(
        self, item: Question, spans: Sequence[Mention], resources: Resources
    ) -> str | None:
        """Return why no name may replace any of some spans, or that no answer can be the goal."""
        if self.goal not in ("untargeted", "replaced"):
            if self.goal == item.key:
                return f"its right answer is {self.goal}, the target"
            if self.goal not in item.letters:
                return f"it has no option {self.goal}, the target"
        if reason := resources.perturbations.obstacle(item):
            return reason
        if resources.perturbations.allowed(item, self.rule).size == 0:
            return "no name of the vocabulary may replace it"
        if not self.replaceable(item, spans, resources):
            return "no name of the vocabulary lies within max_edit_distance"
        return None

    def validity(self, candidate: Candidate, resources: Resources) -> Validity:
        """Refute a success whose name the default exclusions would have left out.

        Otherwise the validity stays unknown; the reason `rule` says that the rules were checked.
        """
        (edit,) = candidate.edits
        names, item = resources.perturbations, candidate.item
        objection = names.objection(item, edit.replacement)
        return Validity(
            valid=None if objection is None else False,
            reason=objection or RULE,
            variant_class=names.variant_class(item, edit.replacement),
            evidence=tuple(names.evidence(item, edit.replacement, edit.field)),
        )

    def n_excluded(self, candidate: Candidate, resources: Resources) -> dict[str, int]:
        """Count the names that are never drawn, by reason, each under the first that fits.

        `edit_distance` are those beyond the limit, once a candidate has the span that it limits.
        """
        item = candidate.item
        counts = dict(resources.perturbations.n_excluded(item, self.rule))
        if not self.max_edit_distance or not candidate.edits:
            return counts
        (edit,) = candidate.edits
        span = Mention(field=edit.field, start=edit.start, end=edit.end, type="")
        n_allowed = resources.perturbations.allowed(item, self.rule).size
        if beyond := n_allowed - self.names(item, span, resources).size:
            counts["edit_distance"] = beyond
        return counts
