"""Correlations of sentence pairs with their gold scores, clean and perturbed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from medstress.core.text import Edit
from medstress.metrics.old_stats.estimates import unknown
from medstress.metrics.sentences.correlations import (
    COEFFICIENTS,
    Scored,
    change,
    correlation,
    permutation_p,
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

_HELD = unknown("a search for a change of the score says nothing of the pairs that held")
_TESTED_BY = (
    "before minus after; before and after swapped at random within pairs (those that share a "
    f"sentence together), {ADJUSTED}"
)


class Correlations(DatasetScores):
    """`pearson` and `spearman` of the clean data, of the perturbed copy (`_after`), and `_drop`."""

    defined = tuple(
        (f"{name}{when}", f"{label}{ending}", f"{label} correlation with the gold scores; {of}")
        for name, label in (("pearson", "Pearson"), ("spearman", "Spearman"))
        for when, ending, of in WHEN
    )

    note = (
        "Means over seeds of each seed's coefficient; drops are before minus after, paired. "
        "Pairs that share a sentence are drawn together."
    )
    printed = (
        "Correlation of the victim's scores with the gold ones, the mean over seeds. After: of the "
        "perturbed pairs. Drop: before minus after, paired."
    )

    def answer(
        self, item: Any, prediction: Sequence[Any], edits: tuple[Edit, ...], cluster: str
    ) -> Scored:
        """Gold score and the victim's."""
        return Scored(item.score, float(prediction[1][0]), cluster)

    def is_whole(self, spec: Mapping[str, Any]) -> bool:
        """Of a search only what is merely measured says what it found for every pair."""
        return spec.get("search") == "none" or spec.get("max_change") is None

    def row(self, arm: ScoredArm, control: ScoredArm | None) -> Json:
        """See the class."""
        gold, before, after, groups = _scores(arm)
        row: Json = {}
        for name in COEFFICIENTS:
            row[name] = correlation(gold, before, name, groups).as_json()
            for ending, found in (
                ("after", correlation(gold, after, name, groups) if arm.after else _HELD),
                ("drop", change(gold, before, after, name, groups) if arm.after else _HELD),
            ):
                row[f"{name}_{ending}"] = found.as_json()
        return row

    def tests(self, arm: ScoredArm) -> Iterator[Test]:
        """Both coefficients."""
        gold, before, after, groups = _scores(arm)
        for name in COEFFICIENTS:
            family = FAMILY if name == "pearson" else f"{FAMILY} {name}"
            drop = change(gold, before, after, name, groups).value
            p = permutation_p(gold, before, after, name, groups)
            yield family, drop, p, f"{name.capitalize()} {_TESTED_BY}"

    def shown(self, rows: Sequence[Mapping[str, Any]]) -> tuple[str, ...]:
        """All of them."""
        return tuple(name for name, _, _ in self.defined) if any(map(_has, rows)) else ()


def _scores(arm: ScoredArm) -> tuple[Any, Any, Any, list[str]]:
    """Gold (m,), before and after (n_seeds, m), of the pairs that all seeds have answered.

    Then the cluster of each.

    `after` has no rows where a search says nothing of pairs that held.
    """
    seeds = sorted({seed for seed, _ in arm.before}, key=lambda seed: (seed is not None, seed))
    ids = Counter(item for seed, item in arm.before if (seed, item) in arm.after or not arm.after)
    names = sorted(item for item, n in ids.items() if n == len(seeds))
    if not names:
        return np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)), []
    first = [arm.before[seeds[0], name] for name in names]
    gold, clusters = np.array([each.gold for each in first]), [each.cluster for each in first]
    before = np.array([[arm.before[seed, name].score for name in names] for seed in seeds])
    if not arm.after:
        return gold, before, np.zeros((0, len(names))), clusters
    after = np.array([[arm.after[seed, name].score for name in names] for seed in seeds])
    return gold, before, after, clusters


def _has(row: Mapping[str, Any]) -> bool:
    return "pearson" in row
