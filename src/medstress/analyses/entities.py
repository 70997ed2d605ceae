"""Precision, recall and F1 of tagged texts: strict, relaxed, and by seqeval's strict mode.

* *strict*: same tokens and same type, as in the CoNLL shared tasks and by seqeval's default mode.
* *relaxed*: SemEval 2013 task 9, type matching, as nervaluate counts `ent_type`. The model's
  entities are taken in order. Each takes one gold entity that shares a token and is still free:
  the one of its type with the nearest borders, else the first of another type, which is no match
  but is used up. So with several types the total is not the sum over types, which compare one type
  only.
* *seqeval strict*: as strict, but entities that a model marks without a leading B- do not count
  (seqeval's `mode="strict"` with IOB2). Scored only where labels are not well-formed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from medstress.analyses.run import Cell
from medstress.analyses.scores import Response, Scores, Scoring
from medstress.stats.resampling import resampled_sums
from medstress.stats.shares import Mask, Numbers

MEASURES = ("precision", "recall", "f1")
STRICT, RELAXED, SEQEVAL = "", "_relaxed", "_seqeval_strict"
"""How entities match, as names of scores end."""
MATCHES = (STRICT, RELAXED, SEQEVAL)
Spans: TypeAlias = Sequence[tuple[int, int, str]]
"""(first token, one past the last, type) of entities, in order."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Matches:
    """Entities by cluster: a `medstress.analyses.scores.Sample`."""

    sums: Mapping[str, Numbers]
    """Way to match -> (matches, marked, gold) of each cluster, shape (n_clusters, 3)."""

    @property
    def n_clusters(self) -> int:
        """Documents, or sentences where no document is known."""
        return len(self.sums[STRICT])

    @cached_property
    def names(self) -> Sequence[str]:
        """All measures, by seqeval's strict mode only where it differs."""
        differs = not np.array_equal(self.sums[STRICT], self.sums[SEQEVAL])
        matches = MATCHES if differs else (STRICT, RELAXED)
        return [f"{measure}{match}" for match in matches for measure in MEASURES]

    def value(self, name: str) -> float | None:
        """Return matches / marked, matches / gold, or 2 matches / (marked + gold)."""
        measure, match = _split(name)
        total = self.sums[match].sum(0)
        return float(_score(total, measure)) if self.n(name) else None

    def n(self, name: str) -> int:
        """Return the denominator: entities marked, gold, or both together."""
        measure, match = _split(name)
        return int(_below(self.sums[match].sum(0), measure)) if self.n_clusters else 0

    def draws(self) -> Mapping[str, Numbers]:
        """Return every measure in every resample of clusters."""
        drawn = np.split(resampled_sums(np.hstack([self.sums[m] for m in MATCHES])), 3, axis=1)
        return {
            f"{measure}{match}": _score(totals, measure)
            for match, totals in zip(MATCHES, drawn, strict=True)
            for measure in MEASURES
        }

    def swapped(self, other: Matches, swaps: Mask, name: str) -> Numbers:
        """Return the differences where some clusters are swapped."""
        measure, match = _split(name)
        ours, others = self.sums[match], other.sums[match]
        total = ours.sum(0) + others.sum(0)
        first = others.sum(0) + np.where(swaps, 0.0, 1.0) @ (ours - others)
        return _score(first, measure) - _score(total - first, measure)


@dataclass(frozen=True, kw_only=True)
class Tagging(Scoring):
    """How tagged texts are scored."""

    type_: str | None = None
    """The only type of entity that counts; None for all."""

    main = "f1"
    words: ClassVar = {
        "precision": "Precision",
        "recall": "Recall",
        "f1": "F1",
        "precision_relaxed": "Relaxed precision",
        "recall_relaxed": "Relaxed recall",
        "f1_relaxed": "Relaxed F1",
        "precision_seqeval_strict": "Seqeval strict precision",
        "recall_seqeval_strict": "Seqeval strict recall",
        "f1_seqeval_strict": "Seqeval strict F1",
    }
    falls = tuple(f"{measure}{match}" for match in (STRICT, RELAXED) for measure in MEASURES)
    shown = ("precision", "recall", "f1", "f1_relaxed", "f1_seqeval_strict")
    drops = ("f1",)
    enough = 30
    seed = 20_260_201
    undefined = "there is nothing to divide by"
    no_copy = "a search perturbs every entity apart, so there is no perturbed copy"
    counts = "entities, those of the data and those of the model, in every seed"
    note = (
        "Strict: same tokens and same type. Relaxed: same type and a token in common. Seqeval "
        "strict, where it differs: without what begins with no B-. After: of the perturbed copy. "
        "Drop: before minus after, paired; net of control: F1 after as much noise outside entities "
        "minus F1 after the attack. A search has no perturbed copy."
    )

    def clusters(self, responses: Sequence[Response]) -> str:
        """Documents where some are known, else sentences."""
        by_sentence = all(response.cluster == response.item.id for response in responses)
        return "sentences" if by_sentence else "documents"

    def sample(self, responses: Sequence[Response], clusters: Sequence[str]) -> Matches:
        """Count entities by cluster; a sentence may occur once a seed."""
        places = {cluster: i for i, cluster in enumerate(clusters)}
        rows = np.zeros((len(clusters), 3 * len(MATCHES)))
        counted = [
            counts(_gold(response), response.answer.text or "", self.type_)
            for response in responses
        ]
        if counted:
            np.add.at(rows, [places[response.cluster] for response in responses], counted)
        return Matches(sums=dict(zip(MATCHES, np.hsplit(rows, len(MATCHES)), strict=True)))

    def parts(self, responses: Sequence[Response]) -> Mapping[str, Tagging]:
        """The scoring of each type of gold entity."""
        types = {entity.type for response in responses for entity in response.item.text.entities}
        return {type_: Tagging(type_=type_) for type_ in sorted(types)}

    def warning(self, scores: Scores, cell: Cell) -> str | None:
        """Name a model that marks no entity of the data's types, as wrong names of types do."""
        if scores["precision"].before.n or not scores["recall"].before.n:
            return None
        return (
            f"{cell.place.victim} marks no entity of the types {', '.join(scores.by_type)} in "
            f"{cell.place.dataset}: if it calls them otherwise, translate with "
            'labels = {ITS_TYPE = "TYPE_OF_THE_DATA"} in [[victim]].'
        )


ENTITIES = Tagging()


def _gold(response: Response) -> str:
    if not response.edits:
        return " ".join(response.item.text.labels)
    return " ".join(response.item.candidate(response.edits).labels)


@lru_cache(maxsize=50_000)
def counts(gold: str, marked: str, type_: str | None) -> tuple[int, ...]:
    """Return (matches, marked, gold) entities of one sentence for every way to match.

    Args:
        gold: labels, separated by spaces.
        marked: the model's labels.
        type_: the only type that counts; None for all.

    >>> counts("B-Drug I-Drug", "O B-Drug", None)
    (0, 1, 1, 1, 1, 1, 0, 1, 1)
    """
    (right, _), (all_marked, begun) = (
        [[one for one in some if type_ in (None, one[2])] for some in _spans(labels)]
        for labels in (gold, marked)
    )
    row: list[int] = []
    for n, some in (
        (len({*right} & {*all_marked}), all_marked),
        (_overlaps(right, all_marked), all_marked),
        (len({*right} & {*begun}), begun),
    ):
        row += (n, len(some), len(right))
    return tuple(row)


@lru_cache(maxsize=50_000)
def _spans(text: str) -> tuple[Spans, Spans]:
    """Return the entities in labels, and those of them that begin with a B-."""
    from medstress.tasks.entity_tagging import marked_entities

    labels = text.split()
    spans = [(e.start, e.end, e.type) for e in marked_entities(labels)]
    return spans, [span for span in spans if labels[span[0]].startswith("B")]


def _overlaps(gold: Spans, marked: Spans) -> int:
    """Count the marks that take a gold entity of their type, in order; see the module."""
    free, n = list(gold), 0
    for start, end, type_ in marked:
        touched = [one for one in free if one[0] < end and start < one[1]]
        alike = [one for one in touched if one[2] == type_]
        if alike:
            n += 1
            free.remove(min(alike, key=lambda one: abs(one[0] - start) + abs(one[1] - end)))
        elif touched:
            free.remove(touched[0])
    return n


def _split(name: str) -> tuple[str, str]:
    measure = name.partition("_")[0]
    return measure, name.removeprefix(measure)


def _below(totals: Numbers, measure: str) -> Numbers:
    marked, gold = totals[..., 1], totals[..., 2]
    return np.asarray({"precision": marked, "recall": gold, "f1": marked + gold}[measure])


def _score(totals: Numbers, measure: str) -> Numbers:
    """Return a measure of sums, shape (..., 3); nan where there is nothing to divide by."""
    above = totals[..., 0] * (2.0 if measure == "f1" else 1.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(above / _below(totals, measure))
