"""An experiment with everything loaded but the models, and its trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from medstress.experiment.config import Experiment
from medstress.experiment.conversations import victim_of
from medstress.experiment.parts import AttackPart, DatasetPart, GroupPart
from medstress.experiment.roles import RolePart
from medstress.experiment.sentence_groups import SentenceGroupPart
from medstress.hashing import content_hash
from medstress.kinds import KINDS, Kind
from medstress.scheduler.progress import DRAIN_SECONDS
from medstress.scheduler.trial import Trial
from medstress.store.shared_cache import SharedCache
from medstress.victim import Victim


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """What one run holds of an experiment that a command spreads over several; default: all."""

    keep: Callable[[Any], bool] = lambda _: True
    """Which items."""
    holds: Callable[[str, str, str, AttackPart], bool] = lambda *_: True
    """Which arms: (data set, group, victim, attack)."""
    asks: Callable[[str, Any], bool] = lambda *_: True
    """Whether a victim is asked about an item."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Victims that share the items -> the one name under which their answers stand in results."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Enters the fingerprint's settings, so that no other kind of run can extend this one."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """Further entries of the manifest."""
    may_lack: frozenset[str] = frozenset()
    """Victims that the folder may hold and the experiment may have no more."""
    n_queries: int = 0
    """Calls that other runs of the command made; they count against its limits."""
    n_tokens: int = 0
    """Their tokens."""
    usd: float = 0.0
    """Their price."""
    seconds: float = 0.0
    """How long they took."""


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
    groups: Sequence[GroupPart | SentenceGroupPart]
    """With their vectors."""
    attacks: list[AttackPart]
    """Under their labels."""
    recognisers: list[dict[str, Any]] = field(default_factory=list)
    """What found the mentions of each group, in their order."""
    victims: list[Victim] = field(default_factory=list)
    """Opened last."""
    shared: SharedCache | None = None
    """Answers of other runs; opened with the run."""
    portion: Portion = Portion()
    """What this run holds of it."""
    roles: list[RolePart] = field(default_factory=list)
    """Opened with the victims."""
    kind: Kind = KINDS[0]
    """The kind of all its items."""
    classes: tuple[str, ...] = ()
    """What the items are sorted into (`Kind.classes`)."""
    started: float = field(default_factory=time.monotonic)
    """When this process began to ask, on the monotonic clock."""
    drain_seconds: float = DRAIN_SECONDS
    """For calls in flight once the run is stopped."""

    @property
    def question_groups(self) -> list[GroupPart]:
        """The groups of questions; none where the data are sentences."""
        return [group for group in self.groups if isinstance(group, GroupPart)]

    def items(self, dataset: DatasetPart, group: GroupPart | SentenceGroupPart) -> tuple[Any, ...]:
        """The items a group's trials run over."""
        return tuple(filter(self.portion.keep, group.items(dataset)))

    def without_victims(self, labels: Collection[str]) -> Prepared:
        """The same experiment without some of its victims."""
        pairs = zip(self.experiment.victim, self.victims, strict=True)
        kept = [(table, victim) for table, victim in pairs if victim.label not in labels]
        experiment = self.experiment.model_copy(update={"victim": tuple(t for t, _ in kept)})
        return replace(self, experiment=experiment, victims=[victim for _, victim in kept])

    def trials(self) -> Iterator[Trial]:
        """All trials, those of one item together, so that back ends can share prefixes."""
        settings = self.experiment.experiment
        for victim, dataset in product(self.victims, self.datasets):
            chosen = [(group, {q.id for q in self.items(dataset, group)}) for group in self.groups]
            called = self.portion.names.get(victim.label, victim.label)
            known = replace(victim.on(dataset.label), label=called)
            for item in dataset.questions:
                if not self.portion.asks(victim.label, item):
                    continue
                for (group, ids), part in product(chosen, self.attacks):
                    if item.id not in ids or not self.holds(dataset, group, victim.label, part):
                        continue
                    repeats = range(part.traits.repeats)
                    arms = product(self._seeds(part), repeats, self.kind.units(item))
                    for seed, repeat, unit in arms:
                        asked = known
                        if part.traits.in_turns:
                            asked = victim_of(known, part.attack, dataset.label, item, seed, repeat)
                        yield Trial(
                            dataset=dataset.label,
                            group=group.label,
                            item=unit,
                            victim=asked,
                            repeat=repeat,
                            attack_label=part.label,
                            attack=part.attack,
                            resources=group.resources,
                            seed=seed,
                            flip_check=settings.flip_check,
                        )

    def holds(
        self,
        dataset: DatasetPart,
        group: GroupPart | SentenceGroupPart,
        victim: str,
        part: AttackPart,
    ) -> bool:
        """Whether an attack runs on a group: one that draws no names has a group of its own."""
        needs = part.traits.needs_entities
        if isinstance(group, GroupPart) and needs == (group.table is None):
            return False
        return self.portion.holds(dataset.label, group.label, victim, part)

    def selected(self) -> dict[str, list[str]]:
        """Item hashes of each data set and group, sorted: what the trials run over."""
        return {
            f"{dataset.label}/{group.label}": sorted(
                content_hash([q.id, q.hash]) for q in self.items(dataset, group)
            )
            for dataset, group in product(self.datasets, self.groups)
        }

    def n_trials(self, n_victims: int) -> int:
        """How many trials there are."""
        victims = [victim.label for victim in self.victims] or [""] * n_victims
        n = 0
        for dataset, group, victim in product(self.datasets, self.groups, victims):
            arms = sum(
                len(self._seeds(part)) * part.traits.repeats
                for part in self.attacks
                if self.holds(dataset, group, victim, part)
            )
            items = (i for i in self.items(dataset, group) if self.portion.asks(victim, i))
            n += sum(len(self.kind.units(item)) for item in items) * arms
        return n

    def _seeds(self, part: AttackPart) -> Sequence[int | None]:
        return (None,) if part.traits.deterministic else self.experiment.experiment.seeds
