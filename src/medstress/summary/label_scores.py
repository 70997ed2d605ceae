"""Macro F1 of labels, clean and perturbed, with intervals and a paired test."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from medstress.core.text import Edit
from medstress.kinds.nli.item import LabelledPair
from medstress.metrics.old_stats.estimates import Estimate, unknown
from medstress.metrics.old_stats.resampling import (
    RESAMPLES,
    bootstrapped,
    random_stream,
    resampled_sums,
)
from medstress.summary.dataset_scores import (
    ADJUSTED,
    FAMILY,
    WHEN,
    DatasetScores,
    Json,
    ScoredArm,
    Test,
)

PERMUTATIONS = 2_000
_SWAPS = 3
"""Names the random numbers that swap before and after."""
_SEARCHED = unknown("a search asks about other edits of every pair, so there is no perturbed copy")
_TESTED_BY = f"before minus after; approximate randomisation over clusters, {ADJUSTED}"

Sums = NDArray[np.float64]
"""(right, predicted, gold) of every label, by cluster: shape (n_clusters, 3 n_labels)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """One answer."""

    cluster: str
    """Pairs that share their first text are one."""
    gold: str
    """The gold label."""
    given: str | None
    """The victim's; None where it could not be read, which is no label's prediction."""


class MacroF1(DatasetScores):
    """`macro_f1` of the clean data, of the perturbed copy (`_after`), and `_drop`: the mean over
    labels of F1 = 2 right / (predicted + gold), over those that occur as either."""

    defined = tuple(
        (
            f"macro_f1{when}",
            f"Macro F1{ending}",
            f"mean over labels of the F1 of each, an unreadable answer being none of them; {of}",
        )
        for when, ending, of in WHEN
    )
    note = (
        "Macro F1: mean over labels of the F1 of each; unreadable answers count as wrong. Drops "
        "are before minus after, paired. Intervals draw pairs that share their first text together."
    )
    printed = note
    lost = "Success: share of the pairs labelled rightly on the clean data that are no longer."

    def answer(
        self, item: LabelledPair, prediction: Sequence[Any], edits: tuple[Edit, ...], cluster: str
    ) -> Labelled:
        """Gold label and the victim's."""
        return Labelled(cluster=cluster, gold=item.label, given=prediction[0])

    def is_whole(self, spec: Mapping[str, Any]) -> bool:
        """A search asks about other edits of every pair."""
        return spec.get("search") == "none"

    def row(self, arm: ScoredArm, control: ScoredArm | None) -> Json:
        """See the class."""
        both = [key for key in arm.before if key in arm.after]
        before = [arm.before[key] for key in both or arm.before]
        after = [arm.after[key] for key in both]
        first, second = _both_sums(before, after)
        return {
            "macro_f1": _estimate(first, len(before)).as_json(),
            "macro_f1_after": (_estimate(second, len(after)) if both else _SEARCHED).as_json(),
            "macro_f1_drop": (_drop(first, second, len(after)) if both else _SEARCHED).as_json(),
        }

    def tests(self, arm: ScoredArm) -> Iterator[Test]:
        """Macro F1."""
        both = [key for key in arm.before if key in arm.after]
        first, second = _both_sums(
            [arm.before[key] for key in both], [arm.after[key] for key in both]
        )
        drop, p = _drop(first, second, len(both)).value, randomisation_p(first, second)
        yield FAMILY, drop, p, f"macro F1 {_TESTED_BY}"

    def shown(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """All of them."""
        has_any = any("macro_f1" in row for row in rows)
        return tuple(name for name, _, _ in self.defined) if has_any else ()


def macro_f1(total: Sums) -> Sums:
    """Macro F1 of sums over all clusters.

    Args:
        total: shape (..., 3 n_labels).

    Returns:
        Shape (...); nan where there is no label at all.

    >>> float(macro_f1(np.array([1.0, 1.0, 2.0, 0.0, 1.0, 0.0])))  # F1 of 2/3 and of 0
    0.3333333333333333
    """
    right, predicted, gold = np.moveaxis(total.reshape(*total.shape[:-1], -1, 3), -1, 0)
    below = predicted + gold
    with np.errstate(divide="ignore", invalid="ignore"):
        each = np.where(below > 0, 2 * right / below, 0.0)
        found: Sums = each.sum(-1) / (below > 0).sum(-1)
    return found


def randomisation_p(first: Sums, second: Sums) -> float | None:
    """Two-sided p-value of the difference of two arms on the same clusters.

    Under the null the two are exchangeable within each cluster: they are swapped at random, and
    p = (1 + #{|difference| at least as large}) / (1 + PERMUTATIONS).

    References:
        Yeh, "More accurate tests for the statistical significance of result differences", 2000.
    """
    if not len(first):
        return None
    total, gap = first.sum(0) + second.sum(0), first - second
    signs = random_stream(_SWAPS).integers(0, 2, size=(PERMUTATIONS, len(first))) * 2.0 - 1.0
    moved = signs @ gap
    drawn = macro_f1((total + moved) / 2) - macro_f1((total - moved) / 2)
    observed = abs(float(macro_f1(first.sum(0)) - macro_f1(second.sum(0))))
    hard = np.nan_to_num(np.abs(drawn), nan=np.inf) >= observed - 1e-12
    return float((1 + int(hard.sum())) / (1 + PERMUTATIONS))


def _both_sums(before: Sequence[Labelled], after: Sequence[Labelled]) -> tuple[Sums, Sums]:
    """Sums of both on the same clusters and labels."""
    everything = (*before, *after)
    clusters = {name: i for i, name in enumerate(sorted({one.cluster for one in everything}))}
    labels = sorted({label for one in everything for label in (one.gold, one.given) if label})
    places = {label: i for i, label in enumerate(labels)}

    def sums(answers: Sequence[Labelled]) -> Sums:
        found = np.zeros((len(clusters), len(labels), 3))
        for one in answers:
            of = found[clusters[one.cluster]]
            of[places[one.gold], 2] += 1
            if one.given is not None:
                of[places[one.given], 1] += 1
                of[places[one.given], 0] += one.given == one.gold
        return found.reshape(len(clusters), -1)

    return sums(before), sums(after)


def _estimate(sums: Sums, n: int) -> Estimate:
    method = f"cluster bootstrap over {len(sums)} clusters, {RESAMPLES} resamples, percentile 95 %"
    if not len(sums):
        return unknown(method)
    return bootstrapped(float(macro_f1(sums.sum(0))), macro_f1(resampled_sums(sums)), n, method)


def _drop(first: Sums, second: Sums, n: int) -> Estimate:
    method = f"paired cluster bootstrap over {len(first)} clusters, {RESAMPLES} resamples"
    if not len(first):
        return unknown(f"{method}: no pair was asked before and after")
    value = float(macro_f1(first.sum(0)) - macro_f1(second.sum(0)))
    drawn = macro_f1(resampled_sums(first)) - macro_f1(resampled_sums(second))
    return bootstrapped(value, drawn, n, method)
