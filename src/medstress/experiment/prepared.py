"""An experiment with everything loaded but the models, and its trials."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

from medstress.experiment.config import Experiment
from medstress.experiment.parts import AttackPart, DatasetPart, GroupPart, select_items
from medstress.hashing import content_hash
from medstress.scheduler.trial import Trial
from medstress.victim import Victim


@dataclass(slots=True, kw_only=True)
class Prepared:
    """An experiment with everything loaded but the models."""

    experiment: Experiment
    """As checked, defaults filled in."""
    given: dict[str, Any]
    """As it came: text or table, and overrides."""
    base: Path
    """Folder that relative paths start from."""
    datasets: list[DatasetPart]
    """Loaded and drawn."""
    groups: list[GroupPart]
    """With their vectors."""
    attacks: list[AttackPart]
    """Under their labels."""
    recognisers: list[dict[str, Any]] = field(default_factory=list)
    """What found the mentions of each group, in their order."""
    victims: list[Victim] = field(default_factory=list)
    """Opened last."""

    def trials(self) -> Iterator[Trial]:
        """All trials, those of one item together, so that back ends can share prefixes."""
        settings = self.experiment.experiment
        for victim, dataset in product(self.victims, self.datasets):
            chosen = [
                (group, {q.id for q in select_items(dataset, group)}) for group in self.groups
            ]
            for item in dataset.questions:
                for (group, ids), part in product(chosen, self.attacks):
                    if item.id not in ids:
                        continue
                    for seed in self._seeds(part):
                        yield Trial(
                            dataset=dataset.label,
                            group=group.label,
                            item=item,
                            victim=victim,
                            attack_label=part.label,
                            attack=part.attack,
                            resources=group.resources,
                            seed=seed,
                            flip_check=settings.flip_check,
                        )

    def selected(self) -> dict[str, list[str]]:
        """Item hashes of each data set and group, sorted: what the trials run over."""
        return {
            f"{dataset.label}/{group.label}": sorted(
                content_hash([q.id, q.hash]) for q in select_items(dataset, group)
            )
            for dataset, group in product(self.datasets, self.groups)
        }

    def n_trials(self, n_victims: int) -> int:
        """How many trials there are."""
        items = sum(len(select_items(d, g)) for d, g in product(self.datasets, self.groups))
        return n_victims * items * sum(len(self._seeds(part)) for part in self.attacks)

    def _seeds(self, part: AttackPart) -> Sequence[int | None]:
        return (None,) if part.attack.deterministic else self.experiment.experiment.seeds
