"""The spans an attack may replace, the typed entities of the wrong options, and their rankers.

A ranker is a sub-generator: `span = yield from RANKERS[name](item, spans, side, resources)`.

Reference: Xian et al., "Assessing biomedical knowledge robustness in large language models by
query-efficient sampling attacks", TMLR 2025, Algorithm 1 (RankSelect).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any, TypeAlias

from medstress.core.errors import TrialError
from medstress.core.items import Candidate, Mention, Question
from medstress.core.outcomes import Outcome
from medstress.core.queries import Predict, Steps, ask
from medstress.core.resources import Resources

if TYPE_CHECKING:
    from numpy.random import Generator

Stream: TypeAlias = "Callable[[], Generator]"
"""Returns one random stream, made at the first draw: making it takes longer than a query."""
Ranker: TypeAlias = "Callable[[Question, Sequence[Mention], Stream, Resources], Steps[Mention]]"


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
                f"{setting} needs the victim's scores, and it gave none: use a victim that "
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


def _nearest(
    item: Question, spans: Sequence[Mention], _: Stream, resources: Resources
) -> Steps[Mention]:
    yield from ()
    return nearest_span(item, resources, spans)


def _random(_: Question, spans: Sequence[Mention], side: Stream, __: Resources) -> Steps[Mention]:
    yield from ()
    return random_span(spans, side())


def _saliency(
    item: Question, spans: Sequence[Mention], _: Stream, resources: Resources
) -> Steps[Mention]:
    return (yield from most_salient(item, resources, spans))


RANKERS: dict[str, Ranker] = {"nearest": _nearest, "random": _random, "saliency": _saliency}
"""Victim-span rankers by name."""
