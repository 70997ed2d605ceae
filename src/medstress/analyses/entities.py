"""Precision, recall and F1 of tagged texts: strict, relaxed, and by seqeval's strict mode.

* *strict*: same tokens and same type, as in the CoNLL shared tasks and by seqeval's default mode.
* *relaxed*: nervaluate's `ent_type` (SemEval 2013 task 9, type matching). The model's entities are
  taken in order. Each takes one gold entity that shares a token and is still free: the one of its
  type with the nearest borders, else the first of another type, which is no match but is used up.
  So with several types the total is not the sum over types, which compare one type only.
* *seqeval strict*: as strict, but entities that a model marks without a leading B- do not count
  (seqeval's `mode="strict"` with IOB2). Scored only where labels are not well-formed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import ClassVar, TypeAlias

import numpy as np

from medstress.analyses.run import Cell
from medstress.analyses.scores import Response, Scores, Scoring
from medstress.core.sentences import Entity, entities_of
from medstress.stats.resampling import resampled_sums
from medstress.stats.shares import Mask, Numbers

MEASURES = ("precision", "recall", "f1")
STRICT, RELAXED, SEQEVAL = "", "_relaxed", "_seqeval_strict"
"""How entities match, as names of scores end."""
MATCHES = (STRICT, RELAXED, SEQEVAL)
Entities: TypeAlias = tuple[Entity, ...]


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

    main: ClassVar = "f1"
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
    falls: ClassVar = tuple(
        f"{measure}{match}" for match in (STRICT, RELAXED) for measure in MEASURES
    )
    enough: ClassVar = 30
    seed: ClassVar = 20_260_201
    undefined: ClassVar = "there is nothing to divide by"
    no_copy: ClassVar = "a search perturbs every entity apart, so there is no perturbed copy"
    note: ClassVar = (
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
        sums = {match: np.zeros((len(clusters), 3)) for match in MATCHES}
        for response in responses:
            gold = self._of_type(_gold(response))
            marked, begun = map(self._of_type, marks(response.answer.text or ""))
            place = places[response.cluster]
            sums[STRICT][place] += strict(gold, marked)
            sums[RELAXED][place] += relaxed(gold, marked)
            sums[SEQEVAL][place] += strict(gold, begun)
        return Matches(sums=sums)

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

    def _of_type(self, entities: Entities) -> Entities:
        if self.type_ is None:
            return entities
        return tuple(entity for entity in entities if entity.type == self.type_)


ENTITIES = Tagging()


def _gold(response: Response) -> Entities:
    if not response.edits:
        return tuple(response.item.text.entities)
    return entities_of(response.item.candidate(response.edits).labels)


@lru_cache(maxsize=100_000)
def marks(text: str) -> tuple[Entities, Entities]:
    """Return the entities in a model's labels, and those of them that begin with a B-."""
    from medstress.tasks.entity_tagging import begun_entities, marked_entities

    labels = text.split()
    return marked_entities(labels), begun_entities(labels)


def strict(gold: Entities, marked: Entities) -> tuple[int, int, int]:
    """Count matches, marked and gold entities of one sentence.

    >>> acid = Entity(start=0, end=2, type="Drug")
    >>> strict((acid,), (Entity(start=1, end=2, type="Drug"),))
    (0, 1, 1)
    """
    return len({*gold} & {*marked}), len(marked), len(gold)


@lru_cache(maxsize=100_000)
def relaxed(gold: Entities, marked: Entities) -> tuple[int, int, int]:
    """Count matches, marked and gold entities of one sentence.

    >>> acid = Entity(start=0, end=2, type="Drug")
    >>> relaxed((acid,), (Entity(start=1, end=2, type="Drug"),))
    (1, 1, 1)
    """
    if not gold or not marked or gold == marked:
        return strict(gold, marked)
    from nervaluate.entities import Entity as Mark
    from nervaluate.strategies import EntityTypeEvaluation

    def as_marks(entities: Iterable[Entity]) -> list[Mark]:
        return [Mark(label=e.type, start=e.start, end=e.end - 1) for e in entities]

    types = sorted({e.type for e in (*gold, *marked)})
    result, _ = EntityTypeEvaluation().evaluate(as_marks(gold), as_marks(marked), types)
    return result.correct, result.actual, result.possible


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
