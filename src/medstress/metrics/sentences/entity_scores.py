"""Precision, recall and F1 of entities, with intervals and a paired test of before against after.

Matches are counted by nervaluate:

* *strict*: same tokens and same type, as in the CoNLL shared tasks and by seqeval's default mode.
* *relaxed*: nervaluate's `ent_type` (SemEval 2013 task 9, type matching). The victim's entities are
  taken in order. Each takes one gold entity that shares a token and is still free: the one of its
  type with the nearest borders, else the first of another type, which is no match but is used up.
  So with several types the total is not the sum over types, which compare one type only.
* *seqeval_strict*: as strict, but entities that a victim marks without a leading B- do not count
  (seqeval's `mode="strict"` with IOB2). The two differ only if labels are not well-formed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
from nervaluate.entities import Entity as Marked
from nervaluate.strategies import EntityTypeEvaluation, StrictEvaluation
from numpy.typing import NDArray

from medstress.core.sentences import Entity
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import RESAMPLES, bootstrapped, resampled_sums

MATCHES = {"strict": "", "relaxed": "_relaxed", "seqeval_strict": "_seqeval_strict"}
"""How entities match -> suffix of the field names."""
TESTED = ("strict", "relaxed")
"""The matches for which before is tested against after."""
MEASURES = ("precision", "recall", "f1")
PERMUTATIONS = 2_000
_SEED = 20_260_201

Entities: TypeAlias = tuple[Entity, ...]
Sums: TypeAlias = NDArray[np.float64]
"""Sums of (matches, found, gold) of each cluster, shape (n_clusters, 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """The entities that a victim found in one sentence, and the gold entities."""

    cluster: str
    """The cluster that is drawn as a whole: the document, else the sentence."""
    gold: Entities
    """The gold entities."""
    found: Entities
    """The victim's entities."""
    begun: Entities | None = None
    """The victim's entities that begin with a B-; None if all do."""


def sums_of(
    readings: Iterable[Reading],
    clusters: Sequence[str],
    match: str = "strict",
    type_: str | None = None,
) -> Sums:
    """Count matches by cluster.

    Args:
        readings: readings of one arm; a sentence may occur once per seed.
        clusters: the order of the rows; a cluster without a reading has zeros.
        match: a key of `MATCHES`.
        type_: the only type to count; None for all.
    """
    places = {cluster: i for i, cluster in enumerate(clusters)}
    sums = np.zeros((len(clusters), 3))
    for reading in readings:
        gold, found = reading.gold, reading.found
        rule = match
        if match == "seqeval_strict":
            rule, found = "strict", found if reading.begun is None else reading.begun
        if type_ is not None:
            gold = tuple(e for e in gold if e.type == type_)
            found = tuple(e for e in found if e.type == type_)
        if gold or found:
            sums[places[reading.cluster]] += matches(gold, found, rule)
    return sums


@lru_cache(maxsize=100_000)
def matches(gold: Entities, found: Entities, match: str) -> tuple[int, int, int]:
    """Count matches, found and gold entities of one sentence, `strict` or `relaxed`.

    >>> acid = Entity(start=0, end=2, type="Drug")
    >>> matches((acid,), (Entity(start=1, end=2, type="Drug"),), "strict")
    (0, 1, 1)
    >>> matches((acid,), (Entity(start=1, end=2, type="Drug"),), "relaxed")
    (1, 1, 1)
    """
    rule = EntityTypeEvaluation() if match == "relaxed" else StrictEvaluation()
    types = sorted({e.type for e in (*gold, *found)})
    result, _ = rule.evaluate(_marked(gold), _marked(found), types)
    return result.correct, result.actual, result.possible


def measures(sums: Sums) -> dict[str, Estimate]:
    """Estimate precision, recall and F1 = 2 matches / (found + gold), summed over all entities.

    Intervals are the 2.5 % and 97.5 % quantiles of resamples of whole clusters; `n` is the
    denominator of the measure: found, gold, or both together.
    """
    drawn = resampled_sums(sums) if len(sums) else sums
    return {name: _estimate(sums, drawn, name) for name in MEASURES}


def difference(first: Sums, second: Sums, measure: str = "f1") -> Estimate:
    """Estimate the first arm's measure minus the second's, on the same clusters.

    Both are resampled together, so that the difficulty of a document cancels.
    """
    values = [_value(sums.sum(0), measure) for sums in (first, second)]
    method = f"paired cluster bootstrap over {len(first)} clusters, {RESAMPLES} resamples"
    if values[0] is None or values[1] is None:
        return unknown(f"{method}: nothing to divide by")
    drawn = _values(resampled_sums(first), measure) - _values(resampled_sums(second), measure)
    return bootstrapped(values[0] - values[1], drawn, int(_below(second.sum(0), measure)), method)


def randomisation_p(first: Sums, second: Sums, measure: str = "f1") -> float | None:
    """Return the two-sided p-value of the difference of two arms on the same clusters.

    Under the null the two are exchangeable within each cluster: they are swapped at random, and
    p = (1 + #{|difference| at least as large}) / (1 + PERMUTATIONS).

    References:
        Yeh, "More accurate tests for the statistical significance of result differences", 2000.
    """
    values = [_value(sums.sum(0), measure) for sums in (first, second)]
    if values[0] is None or values[1] is None:
        return None
    rng = np.random.default_rng(_SEED)
    total, gap = first.sum(0) + second.sum(0), first - second
    signs = rng.integers(0, 2, size=(PERMUTATIONS, len(first))) * 2.0 - 1.0
    moved = signs @ gap
    drawn = _values((total + moved) / 2, measure) - _values((total - moved) / 2, measure)
    observed = abs(values[0] - values[1])
    hard = np.nan_to_num(np.abs(drawn), nan=np.inf) >= observed - 1e-12
    return float((1 + int(hard.sum())) / (1 + PERMUTATIONS))


def measured(sums: Sums, measure: str = "f1") -> tuple[float | None, Sums]:
    """Return a measure over all clusters (None if its denominator is 0), and of every resample.

    The resamples depend only on the number of clusters, so arms over the same clusters are
    resampled together.
    """
    return _value(sums.sum(0), measure), _values(resampled_sums(sums), measure)


def types_in(readings: Iterable[Reading]) -> list[str]:
    """Return the types of gold entities, sorted."""
    return sorted({entity.type for reading in readings for entity in reading.gold})


def _estimate(sums: Sums, resampled: Sums, name: str) -> Estimate:
    method = f"cluster bootstrap over {len(sums)} clusters, {RESAMPLES} resamples, percentile 95 %"
    value = _value(sums.sum(0), name) if len(sums) else None
    if value is None:
        return unknown(method)
    return bootstrapped(value, _values(resampled, name), int(_below(sums.sum(0), name)), method)


def _value(total: Sums, name: str) -> float | None:
    below = _below(total, name)
    return None if below == 0 else float(_above(total, name) / below)


def _values(totals: Sums, name: str) -> Sums:
    with np.errstate(divide="ignore", invalid="ignore"):
        found: Sums = _above(totals, name) / _below(totals, name)
    return found


def _above(totals: Sums, name: str) -> Sums:
    scale = 2.0 if name == "f1" else 1.0
    found: Sums = totals[..., 0] * scale
    return found


def _below(totals: Sums, name: str) -> Sums:
    found: Sums
    match name:
        case "precision":
            found = totals[..., 1]
        case "recall":
            found = totals[..., 2]
        case _:
            found = totals[..., 1] + totals[..., 2]
    return found


def _marked(entities: Entities) -> list[Marked]:
    """Convert entities to nervaluate's, whose end is the last token."""
    return [Marked(label=e.type, start=e.start, end=e.end - 1) for e in entities]
