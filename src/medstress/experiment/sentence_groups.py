"""Experiments on sentences: what kind of items there are, what they ask, and what noise reads."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.attacks.noise import NoiseResources
from medstress.attacks.protocol import PAIRS, QUESTIONS, TAGGED
from medstress.attacks.sentence_attack import SentenceAttack
from medstress.errors import UsageError
from medstress.experiment.config import Experiment, VictimTable
from medstress.experiment.noise_resources import absence_remark, noise_resources
from medstress.experiment.parts import AttackPart, DatasetPart
from medstress.sentences import SentencePair, TaggedText
from medstress.tasks.entity_tagging import EntityTagging
from medstress.tasks.similarity import Similarity
from medstress.tasks.task import AnyTask

GROUP = "all"
"""The group of every sentence: entities have types, and pairs have none."""
TASKS = {QUESTIONS: "multiple_choice", TAGGED: "ner", PAIRS: "similarity"}
"""What each kind of items asks of a back end."""
CALLS = {"ner": "tag", "similarity": "compare"}
BY_FREQUENCY = "frequency"
"""What folders say whose lexicon holds the words of the corpus by their relative frequency."""
_PROMPT_KEYS = ("answer_by", "shots_from")
_TABLES = ("entities", "tune")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceGroupPart:
    """All sentences, with what noise may read."""

    resources: NoiseResources
    """Lexicon, and other names of mentions."""
    label: str = GROUP
    """Name in results."""
    lexicon: str | None = BY_FREQUENCY
    """By what its lexicon holds words of the corpus; None: by their number (first edition)."""

    @property
    def fingerprint(self) -> str:
        """Hash of what attacks may read."""
        return self.resources.hash

    @property
    def remark(self) -> str | None:
        """A warning about lists of words of which nothing stands in the data."""
        return absence_remark(self.resources)

    def describe(self) -> dict[str, Any]:
        """What the manifest says of it."""
        names = {label: len(table) for label, table in self.resources.replacements.items()}
        return {
            "n_lexicon": len(self.resources.lexicon),
            **({"lexicon": self.lexicon} if self.resources.lexicon and self.lexicon else {}),
            **({"undefined": self.remark} if self.remark else {}),
            "n_replacements": names,
            "hash": self.resources.hash,
        }

    def items(self, dataset: DatasetPart) -> tuple[Any, ...]:
        """All of them."""
        return dataset.questions


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the items of an experiment ask of its victims."""

    kind: str = QUESTIONS
    """Questions, tagged texts or sentence pairs."""
    types: tuple[str, ...] = ()
    """The types that tagged texts annotate, sorted."""

    @property
    def task(self) -> str:
        """As back ends call it."""
        return TASKS[self.kind]

    def task_of(self, table: VictimTable, backend: Any, label: str) -> AnyTask:
        """The task of a victim of sentences; checks what its back end can do.

        Raises:
            UsageError: keys that mean nothing here, a back end for other tasks, or labels that
                are not those of the data.
        """
        for key in _PROMPT_KEYS:
            if getattr(table, key) is not None:
                raise UsageError(f"victim {label!r}: {key} is for questions, not for {self.kind}")
        if table.wrap:
            raise UsageError(f"victim {label!r}: wrap is for questions, not for {self.kind}")
        if CALLS[self.task] not in backend.traits.calls:
            raise UsageError(
                f"victim {label!r}: backend {table.backend!r} cannot answer {self.kind}; use "
                "transformers, python"
                + (" or spacy" if self.kind == TAGGED else " or sentence_transformers")
            )
        if self.kind == PAIRS:
            return Similarity()
        task = EntityTagging(types=self.types, names=table.labels or {})
        task.check(label, backend.traits.labels)
        return task


def asked_of(datasets: Sequence[DatasetPart]) -> Asked:
    """What kind of items the data sets hold.

    Raises:
        UsageError: several kinds; names the data sets.
    """
    kinds = {part.label: _kind(part.questions) for part in datasets}
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{label!r} holds {kind}" for label, kind in kinds.items())
        raise UsageError(
            f"dataset: {told}: a victim does one task, so write an experiment for each kind"
        )
    kind = next(iter(kinds.values()), QUESTIONS)
    return Asked(kind=kind, types=_types(part.all_items for part in datasets))


def sentence_resources(
    attacks: Sequence[AttackPart],
    datasets: Sequence[DatasetPart],
    base: Path,
    n_sentences: int | None = None,
) -> NoiseResources:
    """Build what noise reads, from all items of all data sets, before any limit.

    `n_sentences` is that of `noise_lexicon`.

    Raises:
        UsageError: a table of names is missing or malformed.
    """
    items = [item for part in datasets for item in part.all_items]
    perturbations = [part.attack for part in attacks if isinstance(part.attack, SentenceAttack)]
    return noise_resources(items, perturbations, base, n_sentences)


def check_kind(experiment: Experiment, attacks: Sequence[AttackPart], asked: Asked) -> None:
    """Refuse tables and attacks that are for another kind of items.

    Raises:
        UsageError: naming them.
    """
    for part in attacks:
        known = part.traits.kinds
        if asked.kind not in known:
            raise UsageError(
                f"attack {part.label!r} is for {' and '.join(sorted(known))}, and the data are "
                f"{asked.kind}"
            )
    if asked.kind == QUESTIONS:
        if not experiment.entities and any(p.traits.needs_entities for p in attacks):
            raise UsageError("experiment: the table [[entities]] is missing")
        return
    for table in _TABLES:
        if getattr(experiment, table):
            raise UsageError(f"the table [{table}] is for questions, and the data are {asked.kind}")
    settings = experiment.analysis
    if settings.transfer or settings.universality or settings.prompt_similarity:
        raise UsageError(f"the table [analysis] is for questions, and the data are {asked.kind}")
    if asked.kind == TAGGED and not asked.types:
        told = ", ".join(table.path or table.name for table in experiment.dataset)
        raise UsageError(
            f"dataset: expected at least one entity in {told}, got tagged texts with O alone; give "
            "a file with labels B-TYPE and I-TYPE in its last column"
        )


def _kind(items: Sequence[Any]) -> str:
    if items and isinstance(items[0], TaggedText):
        return TAGGED
    return PAIRS if items and isinstance(items[0], SentencePair) else QUESTIONS


def _types(parts: Iterable[Sequence[Any]]) -> tuple[str, ...]:
    found = {
        label[2:]
        for items in parts
        for item in items
        if isinstance(item, TaggedText)
        for label in item.labels
        if len(label) > 2
    }
    return tuple(sorted(found))
