"""Macro F1 of labelled pairs: the mean over labels of F1 = 2 right / (predicted + gold)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from medstress.analyses.scores import Response, Scoring
from medstress.stats.resampling import resampled_sums
from medstress.stats.shares import Mask, Numbers

NAME = "macro_f1"


@dataclass(frozen=True, kw_only=True, eq=False)
class Labelled:
    """Labels by cluster: a `medstress.analyses.scores.Sample`."""

    sums: Numbers
    """(right, predicted, gold) of every label, shape (n_clusters, 3 n_labels)."""
    n_answers: int

    names: Sequence[str] = (NAME,)

    @property
    def n_clusters(self) -> int:
        """Pairs that share their first text are one."""
        return len(self.sums)

    def value(self, name: str) -> float | None:
        """Return macro F1."""
        return float(macro_f1(self.sums.sum(0))) if self.n_answers else None

    def n(self, name: str) -> int:
        """Return the number of answers."""
        return self.n_answers

    def draws(self) -> Mapping[str, Numbers]:
        """Return macro F1 in every resample of clusters."""
        return {NAME: macro_f1(resampled_sums(self.sums))}

    def swapped(self, other: Labelled, swaps: Mask, name: str) -> Numbers:
        """Return the differences where some clusters are swapped."""
        total = self.sums.sum(0) + other.sums.sum(0)
        first = other.sums.sum(0) + np.where(swaps, 0.0, 1.0) @ (self.sums - other.sums)
        return macro_f1(first) - macro_f1(total - first)


class Labelling(Scoring):
    """How labelled pairs are scored."""

    main = NAME
    words: ClassVar = {NAME: "Macro F1"}
    falls = shown = drops = (NAME,)
    enough = 30
    seed = 20_260_203
    undefined = "no pair was answered"
    no_copy = "a search asks about other edits of every pair, so there is no perturbed copy"
    note = (
        "Macro F1: mean over labels of the F1 of each; unreadable answers count as wrong. Drop: "
        "before minus after, paired. Pairs that share their first text are drawn together."
    )

    def clusters(self, responses: Sequence[Response]) -> str:
        """Pairs that share their first text are one."""
        return "texts"

    def sample(self, responses: Sequence[Response], clusters: Sequence[str]) -> Labelled:
        """Count labels by cluster; an unreadable answer is the prediction of none."""
        labels = sorted({label for response in responses for label in response.item.labels})
        columns = {label: i for i, label in enumerate(labels)}
        places = {cluster: i for i, cluster in enumerate(clusters)}
        sums = np.zeros((len(clusters), len(labels), 3))
        for response in responses:
            of, answer = sums[places[response.cluster]], response.answer.answer
            of[columns[response.item.label], 2] += 1
            if answer in columns:
                of[columns[answer], 1] += 1
                of[columns[answer], 0] += answer == response.item.label
        return Labelled(sums=sums.reshape(len(clusters), 3 * len(labels)), n_answers=len(responses))


LABELS = Labelling()


def macro_f1(totals: Numbers) -> Numbers:
    """Return macro F1 of sums, over the labels that occur as gold or predicted.

    Args:
        totals: shape (..., 3 n_labels).

    Returns:
        Shape (...); nan where there is no label at all.

    >>> float(macro_f1(np.array([1.0, 1.0, 2.0, 0.0, 1.0, 0.0])))  # F1 of 2/3 and of 0
    0.3333333333333333
    """
    right, predicted, gold = np.moveaxis(totals.reshape(*totals.shape[:-1], -1, 3), -1, 0)
    below = predicted + gold
    with np.errstate(divide="ignore", invalid="ignore"):
        by_label = np.where(below > 0, 2 * right / below, 0.0)
        return np.asarray(by_label.sum(-1) / (below > 0).sum(-1))
