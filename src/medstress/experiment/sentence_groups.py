"""The kind of items of an experiment, and what noise reads where no names are drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medstress.attacks.noise import NoiseResources
from medstress.attacks.sentence_attack import SentenceAttack
from medstress.errors import UsageError
from medstress.experiment.config import Experiment
from medstress.experiment.noise_resources import absence_remark, noise_resources
from medstress.experiment.parts import AttackPart, DatasetPart
from medstress.kinds import KINDS, Kind, kind_of_all

GROUP = "all"
"""The group of every sentence: entities have types, and pairs have none."""
BY_FREQUENCY = "frequency"
"""What folders say whose lexicon holds the words of the corpus by their relative frequency."""
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


def kind_of_datasets(datasets: Sequence[DatasetPart]) -> Kind:
    """The kind of the items that data sets hold.

    Raises:
        UsageError: several kinds; names the data sets.
    """
    kinds = {part.label: kind_of_all(part.questions) for part in datasets}
    if len(set(kinds.values())) > 1:
        told = ", ".join(f"{label!r} holds {kind.name}" for label, kind in kinds.items())
        raise UsageError(
            f"dataset: {told}: a victim does one task, so write an experiment for each kind"
        )
    return next(iter(kinds.values()), KINDS[0])


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


def check_kind(
    experiment: Experiment, attacks: Sequence[AttackPart], kind: Kind, classes: tuple[str, ...]
) -> None:
    """Refuse tables and attacks that are for another kind of items.

    Args:
        experiment: with its tables.
        attacks: of it.
        kind: of its items.
        classes: what its items are sorted into (`Kind.classes`).

    Raises:
        UsageError: naming them.
    """
    for part in attacks:
        known = part.traits.kinds
        if not kind.is_taken(known):
            raise UsageError(
                f"attack {part.label!r} is for {' and '.join(sorted(known))}, and the data are "
                f"{kind.name}"
            )
    if kind.draws_names:
        if not experiment.entities and any(p.traits.needs_entities for p in attacks):
            raise UsageError("experiment: the table [[entities]] is missing")
        return
    for table in _TABLES:
        if getattr(experiment, table):
            raise UsageError(f"the table [{table}] is for questions, and the data are {kind.name}")
    settings = experiment.analysis
    if settings.transfer or settings.universality or settings.prompt_similarity:
        raise UsageError(f"the table [analysis] is for questions, and the data are {kind.name}")
    kind.check(classes, ", ".join(table.path or table.name for table in experiment.dataset))
