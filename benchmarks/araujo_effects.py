"""What the paper's prose is about, of one run: each effect with its 95 % interval.

Scores and their intervals are those of the package's summary; here are only the effects that no
summary has. Resamples are the package's: the same for everything over the same sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from statistics import fmean, median

import numpy as np

from medstress.core.clusters import clusters_of
from medstress.core.sentences import Entity, PairCandidate
from medstress.entities.names import word_set
from medstress.kinds.scores import ScoredArm
from medstress.metrics.sentences.entity_scores import Reading, measured
from medstress.metrics.sentences.training_seeds import (
    Measured,
    estimated,
    method_of,
    minus,
    over_seeds,
)
from medstress.stats.estimates import Estimate, unknown
from medstress.stats.resampling import bootstrapped
from medstress.summary.training_seeds import coefficient_of, f1_of

SYNONYM = "synonym"
NOISES = ("keyboard_noise", "swap_noise")
ATTACKS = (SYNONYM, *NOISES)
"""The paper's, in the order of its tables."""
LEAST = 30
"""Entities a side below which the effect of annotated words is not told."""

Both = tuple[Measured, Measured]
"""Scores of the clean and of the perturbed data, resampled together."""


def scores_of(arms: Sequence[ScoredArm]) -> Both:
    """F1 or Pearson of one attack's arms, one of each training seed, on the items of all."""
    shared = sorted(set.intersection(*(set(arm.after) for arm in arms)), key=str)
    if not isinstance(arms[0].before[shared[0]], Reading):
        return coefficient_of(arms, "before"), coefficient_of(arms, "after")
    # Every sentence, so that attacks which leave some alone are resampled as the others.
    clusters = sorted({r.cluster for arm in arms for r in arm.before.values()})
    first, second = (
        f1_of([[getattr(arm, side)[key] for key in shared] for arm in arms], clusters)
        for side in ("before", "after")
    )
    return first, second


def share_lost(scores: Iterable[Both], n_seeds: int = 1) -> Estimate:
    """The mean over attacks of 1 - attacked / clean, on the same items and seeds."""
    both = list(scores)
    drawn_how = method_of("items", n_seeds)
    method = f"1 - attacked / clean, the same resamples for both; {drawn_how}"
    if len(both) > 1:
        method = f"mean over {len(both)} attacks of {method}"
    shares = []
    for clean, attacked in both:
        if not clean.value or attacked.value is None:
            return unknown(f"{method}: a score is undefined or 0")
        shares.append(1 - attacked.value / clean.value)
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.mean([1 - attacked.drawn / clean.drawn for clean, attacked in both], axis=0)
    return bootstrapped(fmean(shares), drawn, len(both), method)


def by_words_of_entity(arms: Sequence[ScoredArm]) -> Estimate:
    """Share lost of entities of two words or more, less that of entities of one word.

    An entity is lost that was found strictly in the clean sentence and is not in the perturbed
    one.
    """
    return _share_lost_by(arms, lambda entity, _: entity.end - entity.start > 1)


def by_words_of_sentence(arms: Sequence[ScoredArm]) -> Estimate:
    """Share lost of entities in sentences with many annotated words, less that in the others."""
    return _by_sentence(arms, lambda reading: sum(e.end - e.start for e in reading.gold))


def by_entities_of_sentence(arms: Sequence[ScoredArm]) -> Estimate:
    """Share lost of entities in sentences with many entities, less that in the others."""
    return _by_sentence(arms, lambda reading: len(reading.gold))


def _by_sentence(arms: Sequence[ScoredArm], size: Callable[[Reading], int]) -> Estimate:
    """Many are more than the median of the sentences with an entity.

    Entities are counted, as shares of single sentences are spread otherwise where there are few.
    """
    sizes = [n for reading in arms[0].before.values() if (n := size(reading))]
    if not sizes:
        return unknown("no sentence has an entity")
    middle = median(sizes)
    found = _share_lost_by(arms, lambda _, reading: size(reading) > middle)
    return replace(found, method=f"many: more than {middle:g}; {found.method}")


def _share_lost_by(
    arms: Sequence[ScoredArm], is_more: Callable[[Entity, Reading], bool]
) -> Estimate:
    """Share lost of the entities of which that is true, minus that of the others."""
    clusters = sorted({r.cluster for arm in arms for r in arm.before.values()})
    places = {cluster: i for i, cluster in enumerate(clusters)}
    more, fewer = (np.zeros((len(arms), len(clusters), 3)) for _ in range(2))
    for number, arm in enumerate(arms):
        for reading, entity, is_lost in lost_entities(arm):
            side = more if is_more(entity, reading) else fewer
            side[number, places[reading.cluster]] += (is_lost, 1, 1)
    counts = int(more[..., 1].sum()), int(fewer[..., 1].sum())
    method = (
        f"share lost of {counts[0]} entities minus that of {counts[1]}; "
        f"{method_of(f'{len(clusters)} clusters', len(arms))}"
    )
    if min(counts) < LEAST:
        return unknown(f"needs {LEAST} entities a side: {method}")
    first, second = (
        over_seeds(
            [Measured(value=v, drawn=d) for v, d in (measured(x, "precision") for x in side)]
        )
        for side in (more, fewer)
    )
    return estimated(minus(first, second), sum(counts), method)


def lost_entities(arm: ScoredArm) -> Iterator[tuple[Reading, Entity, bool]]:
    """Every entity found in the clean sentence, with it, and whether the attack hides it."""
    for key, after in arm.after.items():
        before = arm.before[key]
        found, found_after = set(before.found), set(after.found)
        # Perturbing moves entities and keeps their number and order.
        for entity, moved in zip(before.gold, after.gold, strict=True):
            if entity in found:
                yield before, entity, moved not in found_after


def overlap_gain(candidates: Iterable[PairCandidate]) -> Estimate:
    """By how much the shared share of words of two texts rises, mean over pairs.

    Shared are the words of both over those of either (Jaccard), plural and case folded. Pairs that
    share a sentence are drawn as one (`clusters_of`).
    """
    pairs = {one.item.id: one for one in candidates}
    of_pair = clusters_of([one.item for one in pairs.values()])
    clusters = {cluster: place for place, cluster in enumerate(sorted(set(of_pair.values())))}
    # (gain, pairs, pairs) of each cluster, as entities have (matches, found, gold).
    sums = np.zeros((len(clusters), 3))
    for name, one in pairs.items():
        gain = _jaccard(one.text_a, one.text_b) - _jaccard(one.item.text_a, one.item.text_b)
        sums[clusters[of_pair[name]]] += (gain, 1, 1)
    method = (
        f"mean over {len(pairs)} pairs; bootstrap over {len(clusters)} clusters, percentile 95 %"
    )
    if not pairs:
        return unknown(method)
    value, drawn = measured(sums, "precision")
    assert value is not None
    return bootstrapped(value, drawn, len(pairs), method)


def _jaccard(first: str, second: str) -> float:
    a, b = word_set(first), word_set(second)
    return len(a & b) / len(a | b) if a | b else 1.0
