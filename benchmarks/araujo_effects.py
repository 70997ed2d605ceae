"""What the paper's prose is about, of one run: each effect with its 95 % interval.

Scores and their intervals are those of the package's summary; here are only the effects that no
summary has. Resamples are the package's: the same for everything over the same sentences.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from medstress.candidates import PairCandidate
from medstress.entities.names import word_set
from medstress.experiment.sentence_summary import Arm
from medstress.metrics.bootstrap import percentiles
from medstress.metrics.correlations import coefficient, correlation
from medstress.metrics.entity_scores import Reading, measured, sums_of
from medstress.metrics.estimates import Estimate, unknown
from medstress.metrics.item_means import item_mean
from medstress.metrics.recovery import Measured

SYNONYM = "synonym"
NOISES = ("keyboard_noise", "swap_noise")
ATTACKS = (SYNONYM, *NOISES)
"""The paper's, in the order of its tables."""
LEAST = 30
"""Sentences or entities below which the effect of annotated words is not told."""

Answers = Mapping[tuple[int | None, str], Any]
Both = tuple[Measured, Measured]
"""Scores of the clean and of the perturbed data, resampled together."""


def scores_of(arms: Sequence[Arm]) -> Both:
    """F1 or Pearson of one attack's arms, one of each training seed, on the items of all."""
    shared = sorted(set.intersection(*(set(arm.after) for arm in arms)), key=str)
    if isinstance(arms[0].before[shared[0]], Reading):
        # Every sentence, so that attacks which leave some alone are resampled as the others.
        clusters = sorted({r.cluster for arm in arms for r in arm.before.values()})
        sides = [
            measured(sums_of((getattr(arm, side)[key] for arm in arms for key in shared), clusters))
            for side in ("before", "after")
        ]
    else:
        gold = np.array([arms[0].before[key][0] for key in shared])
        sides = [
            coefficient(
                gold,
                np.array([[getattr(arm, side)[key][1] for key in shared] for arm in arms]),
                "pearson",
            )
            for side in ("before", "after")
        ]
    first, second = (Measured(value=value, drawn=drawn) for value, drawn in sides)
    return first, second


def share_lost(scores: Iterable[Both]) -> Estimate:
    """The mean over attacks of 1 - attacked / clean, on the same items."""
    both = list(scores)
    method = "1 - attacked / clean, percentile 95 % of the same resamples for both"
    if len(both) > 1:
        method = f"mean over {len(both)} attacks of {method}"
    values = [value for pair in both for value in (pair[0].value, pair[1].value)]
    if None in values or not all(clean.value for clean, _ in both):
        return unknown(f"{method}: a score is undefined or 0")
    with np.errstate(divide="ignore", invalid="ignore"):
        drawn = np.mean([1 - attacked.drawn / clean.drawn for clean, attacked in both], axis=0)
    low, high = percentiles(drawn[np.isfinite(drawn)])
    value = float(np.mean([1 - attacked.value / clean.value for clean, attacked in both]))
    return Estimate(value=value, n=len(both), low=low, high=high, method=method)


def by_words_of_sentence(arms: Sequence[Arm]) -> Estimate:
    """Spearman's correlation of a sentence's annotated words and the share of its entities lost.

    An entity is lost that was found strictly in the clean sentence and is not in the perturbed
    one. Sentences count in which every training seed found an entity; coefficients are averaged
    over seeds, and sentences are drawn.
    """
    lost = [_lost_by_sentence(arm) for arm in arms]
    names = sorted(set.intersection(*(set(found) for found in lost)), key=str)
    if len(names) < LEAST:
        return unknown(f"needs {LEAST} sentences with an entity that is found, has {len(names)}")
    n_words = [sum(e.end - e.start for e in arms[0].before[name].gold) for name in names]
    shares = [[sum(found[name]) / len(found[name]) for name in names] for found in lost]
    return correlation(np.array(n_words, dtype=float), np.array(shares), "spearman")


def by_words_of_entity(arms: Sequence[Arm]) -> Estimate:
    """Share lost of entities of two words or more, less that of entities of one word."""
    clusters = sorted({r.cluster for arm in arms for r in arm.before.values()})
    places = {cluster: i for i, cluster in enumerate(clusters)}
    one, more = np.zeros((len(clusters), 3)), np.zeros((len(clusters), 3))
    for arm in arms:
        for key, lost in _lost_by_sentence(arm, with_words=True).items():
            for n_words, is_lost in lost:
                side = one if n_words == 1 else more
                side[places[arm.before[key].cluster]] += (is_lost, 1, 1)
    counts = int(one[:, 1].sum()), int(more[:, 1].sum())
    method = (
        f"share lost of {counts[1]} entities of more words, minus {counts[0]} of one word, over "
        f"all training seeds; bootstrap over {len(clusters)} clusters, percentile 95 %"
    )
    if min(counts) < LEAST:
        return unknown(f"needs {LEAST} entities a side: {method}")
    (a, drawn_a), (b, drawn_b) = measured(more, "precision"), measured(one, "precision")
    drawn = drawn_a - drawn_b
    low, high = percentiles(drawn[np.isfinite(drawn)])
    return Estimate(value=(a or 0.0) - (b or 0.0), n=sum(counts), low=low, high=high, method=method)


def overlap_gain(candidates: Iterable[PairCandidate]) -> Estimate:
    """By how much the shared share of words of two texts rises, mean over pairs.

    Shared are the words of both over those of either (Jaccard), plural and case folded.
    """
    gaps = {
        one.item.id: _jaccard(one.text_a, one.text_b) - _jaccard(one.item.text_a, one.item.text_b)
        for one in candidates
    }
    return item_mean(gaps, -1.0)


def _jaccard(first: str, second: str) -> float:
    a, b = word_set(first), word_set(second)
    return len(a & b) / len(a | b) if a | b else 1.0


def _lost_by_sentence(arm: Arm, *, with_words: bool = False) -> dict[Any, list[Any]]:
    """Sentence -> whether each entity that was found is lost, or (its words, whether)."""
    kept: dict[Any, list[Any]] = {}
    for key, after in arm.after.items():
        before = arm.before[key]
        found, found_after = set(before.found), set(after.found)
        # Perturbing moves entities and keeps their number and order.
        for entity, moved in zip(before.gold, after.gold, strict=True):
            if entity in found:
                lost = moved not in found_after
                told = (entity.end - entity.start, lost) if with_words else lost
                kept.setdefault(key, []).append(told)
    return kept
