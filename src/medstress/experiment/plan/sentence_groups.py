"""The kind of items of an experiment, and the group of items whose attacks draw no names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from medstress.attacks.noise import DEFAULT_FIELD, Noise, NoiseResources
from medstress.core.drug_names import DrugNames
from medstress.core.errors import UsageError
from medstress.core.resources import Resources
from medstress.entities.groups import LABEL, NoNames
from medstress.experiment.file.config import Experiment
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.noise_resources import (
    absence_remark,
    describe_noise,
    noise_resources,
)
from medstress.experiment.plan.parts import AttackPart, GroupPart
from medstress.kinds import KINDS, Kind, kind_of_all


def free_group(
    attacks: Sequence[AttackPart], noise: NoiseResources | None = None
) -> list[GroupPart]:
    """Return the group of the attacks that draw no names; empty if there are none.

    Args:
        attacks: all attacks.
        noise: what noise may read, if some of them are noise.
    """
    free = [needs for part in attacks if "names" not in (needs := part.attack.needs)]
    if not free:
        return []
    needs_names = any("mentions" in needs for needs in free)
    needs_drugs = any("drugs" in needs for needs in free)
    names = NoNames()
    resources = Resources(
        group=LABEL,
        types=frozenset(),
        perturbations=names,
        names_in=_names_in if needs_names else None,
        noise=noise,
        drugs=_shipped_drugs() if needs_drugs else DrugNames(),
    )
    return [
        GroupPart(
            label=LABEL,
            table=None,
            resources=resources,
            perturbations=names,
            needs_passages=any("passages" in needs for needs in free),
        )
    ]


def with_names(groups: Sequence[GroupPart], attacks: Sequence[AttackPart]) -> list[GroupPart]:
    """Let the attacks of every group find names in texts, if one asks for them."""
    if not any("mentions" in part.attack.needs for part in attacks):
        return list(groups)
    return [
        replace(group, resources=replace(group.resources, names_in=_names_in)) for group in groups
    ]


def _shipped_drugs() -> DrugNames:
    from medstress.entities.drug_names import shipped_drug_names

    return shipped_drug_names()


def _names_in(text: str) -> list[str]:
    """Return the drugs and diseases in a text, found by the shipped gazetteer."""
    from medstress.entities.recognisers import shipped_gazetteer

    (mentions,) = shipped_gazetteer().find([text])
    return [text[mention.start : mention.end] for mention in mentions]


GROUP = "all"
"""The one group of all sentences."""
_TABLES = ("entities", "tune")


@dataclass(frozen=True, slots=True, kw_only=True)
class SentenceGroupPart:
    """The group of all sentences, with the resources of noise."""

    resources: NoiseResources
    """Lexicon, and other names of mentions."""
    label: str = GROUP
    """Name in results."""

    @property
    def fingerprint(self) -> str:
        """Hash of what attacks may read."""
        return self.resources.hash

    @property
    def remark(self) -> str | None:
        """A warning about word lists without a word that occurs in the data, or None."""
        return absence_remark(self.resources)

    def describe(self) -> dict[str, Any]:
        """Return its entry in the manifest."""
        return describe_noise(self.resources)

    def resources_on(self, dataset: DatasetPart) -> NoiseResources:
        """Return what attacks may read: the same on every data set."""
        return self.resources

    def items(self, dataset: DatasetPart) -> tuple[Any, ...]:
        """Return all items of the data set."""
        return dataset.questions


def kind_of_datasets(datasets: Sequence[DatasetPart]) -> Kind:
    """Return the kind of the items in data sets.

    Raises:
        UsageError: they hold several kinds; the message names the data sets.
    """
    kinds = {part.label: kind_of_all(part.questions) for part in datasets}
    if len(set(kinds.values())) > 1:
        contents = ", ".join(f"{label!r} holds {kind.name}" for label, kind in kinds.items())
        raise UsageError(
            f"dataset: {contents}: a victim does one task, so write one experiment for each kind"
        )
    return next(iter(kinds.values()), KINDS[0])


def sentence_resources(
    attacks: Sequence[AttackPart],
    datasets: Sequence[DatasetPart],
    base: Path,
) -> NoiseResources:
    """Build the resources of noise from all items of all data sets, before any limit.

    Raises:
        UsageError: a table of names is missing or malformed.
    """
    items = [item for part in datasets for item in part.known_items]
    perturbations = [part.attack for part in attacks if isinstance(part.attack, Noise)]
    return noise_resources(items, perturbations, base)


def check_field(part: AttackPart, kind: Kind) -> None:
    """Check that noise names a field of questions only if the data are questions.

    Raises:
        UsageError: the data are sentences; the message names the attack.
    """
    attack = part.attack
    if isinstance(attack, Noise) and attack.field != DEFAULT_FIELD and not kind.draws_names:
        raise UsageError(
            f"attack {part.label!r}: field = {attack.field!r} is for questions, but the data are "
            f"{kind.name}; leave it out"
        )


def check_kind(
    experiment: Experiment, attacks: Sequence[AttackPart], kind: Kind, classes: tuple[str, ...]
) -> None:
    """Check that tables and attacks fit the kind of the items.

    Args:
        experiment: the checked experiment.
        attacks: its attacks.
        kind: kind of its items.
        classes: classes of its items (`Kind.classes`).

    Raises:
        UsageError: a table or attack is for another kind; the message names it.
    """
    for part in attacks:
        kinds = part.attack.takes
        if not kind.is_taken(kinds):
            raise UsageError(
                f"attack {part.label!r} is for {' and '.join(sorted(kinds))}, but the data are "
                f"{kind.name}"
            )
        if kind.is_judged and part.attack.spec().get("max_change") is not None:
            raise UsageError(
                f"attack {part.label!r}: max_change is for scored pairs, whose answers are neither "
                f"right nor wrong, but the data are {kind.name}; leave it out"
            )
        check_field(part, kind)
    if kind.draws_names:
        if not experiment.entities and any("names" in p.attack.needs for p in attacks):
            raise UsageError("experiment: the table [[entities]] is missing")
        return
    for table in _TABLES:
        if getattr(experiment, table):
            raise UsageError(f"the table [{table}] is for questions, but the data are {kind.name}")
    settings = experiment.analysis
    if settings.transfer or settings.reuse or settings.prompt_similarity:
        raise UsageError(f"the table [analysis] is for questions, but the data are {kind.name}")
    kind.check(classes, ", ".join(table.path or table.name for table in experiment.dataset))
