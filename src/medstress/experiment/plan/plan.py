"""An experiment with everything loaded but the models, and its trials."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

from medstress.attacks.attacked import on_trial
from medstress.attacks.controls.arm import ControlArm
from medstress.core.calls import Backend
from medstress.core.hashing import content_hash
from medstress.core.shards import Shard, cut
from medstress.engine.progress import DRAIN_SECONDS
from medstress.engine.trial import Trial
from medstress.experiment.file.config import LIMITS, Experiment, victim_labels
from medstress.experiment.plan.attack_checks import victim_of
from medstress.experiment.plan.controls import LeftOut
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.parts import AttackPart, GroupPart, SentenceGroupPart
from medstress.experiment.plan.roles import RolePart
from medstress.store.shards import KEY
from medstress.store.shared_cache import SharedCache
from medstress.tasks.kinds import KINDS, Kind
from medstress.tasks.victim import Victim


@dataclass(frozen=True, slots=True, kw_only=True)
class Usage:
    """What all processes of a run have used up."""

    n_queries: int = 0
    """Computed calls."""
    n_tokens: int = 0
    """Their tokens."""
    usd: float = 0.0
    """Their price in US dollars, at today's prices; 0 without prices."""
    seconds: float = 0.0
    """Time that finished processes spent asking."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Portion:
    """The part of an experiment that one of several runs holds; everything by default."""

    keep: Callable[[Any], bool] = lambda _: True
    """Selects items."""
    holds: Callable[[str, str, str, AttackPart], bool] = lambda *_: True
    """Selects arms: (data set, group, victim, attack)."""
    asks: Callable[[str, Any], bool] = lambda *_: True
    """Selects the items that a victim is asked about."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Label of each victim that answers only some items -> name of all such victims in results."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Joins the fingerprint's settings, so that no other kind of run can extend this one."""
    notes: Mapping[str, Any] = field(default_factory=dict)
    """More entries of the manifest."""
    may_lack: frozenset[str] = frozenset()
    """Victims that may be in the folder but no longer in the experiment."""
    shard: Shard | None = None
    """The shard that runs: its trials only; what is about all trials belongs to the merged run."""
    own: Collection[tuple[str, str]] | None = None
    """(id, hash) of the items of the shard; None: of all."""
    first_place: int = 0
    """The place of the plan's first trial: a plan that was extended goes on where it ended."""
    caps: Mapping[str, Any] | None = None
    """The shard's part of each of the experiment's limits (`LIMITS`) that is set."""
    is_judged: bool = True
    """Whether the criteria of `[[require]]` are about it."""
    used: Usage = Usage()
    """What the command's other runs have used; it counts against its limits."""

    def owns(self, item: Any) -> bool:
        """Return whether an item is the shard's."""
        return self.own is None or (item.id, item.hash) in self.own


@dataclass(slots=True, kw_only=True)
class Prepared:
    """An experiment with everything loaded but the models."""

    experiment: Experiment
    """As checked, defaults filled in."""
    given: dict[str, Any]
    """As the user gave it: text or table, and overrides."""
    base: Path
    """Folder that relative paths start from."""
    datasets: list[DatasetPart]
    """Loaded, with their samples drawn."""
    groups: Sequence[GroupPart | SentenceGroupPart]
    """With their vectors."""
    attacks: list[AttackPart]
    """With their labels; control arms last."""
    left_out: LeftOut = field(default_factory=dict)
    """Controls that attacks have not, with the reason."""
    recognisers: list[dict[str, Any]] = field(default_factory=list)
    """What recognised the mentions of each group, in the order of groups."""
    victims: list[Victim] = field(default_factory=list)
    """Empty until they are opened."""
    shared: SharedCache | None = None
    """Answers of other runs; opened with the run."""
    portion: Portion = Portion()
    """The part of the experiment that this run holds."""
    roles: list[RolePart] = field(default_factory=list)
    """Opened with the victims."""
    kind: Kind = KINDS[0]
    """The kind of all its items."""
    classes: tuple[str, ...] = ()
    """The classes of the items (`Kind.classes`)."""
    started: float = field(default_factory=time.monotonic)
    """When this process began to ask, on the monotonic clock."""
    drain_seconds: float = DRAIN_SECONDS
    """Time for calls in flight after the run is stopped."""

    def keep_labels(self, known: Mapping[str, str]) -> None:
        """Let attacks with a default label keep the label that the folder gave them.

        A default label grows longer when another attack of the same name joins.

        Args:
            known: label -> hash of the attacks in the folder.
        """
        labels = {value: label for label, value in known.items()}
        taken = {part.label for part in self.attacks}
        renamed: dict[str, str] = {}
        for i, part in enumerate(self.attacks):
            old = labels.get(content_hash(part.attack.spec()))
            if old is not None and old not in taken and not part.is_labelled:
                self.attacks[i] = replace(part, label=old)
                renamed[part.label] = old
        # New control arms, and those left out, follow the label of their attack.
        for i, part in enumerate(self.attacks):
            if isinstance(part.attack, ControlArm):
                ending = f" / {part.attack.harmless.name}"
                of = part.label.removesuffix(ending)
                if of in renamed:
                    self.attacks[i] = replace(part, label=f"{renamed[of]}{ending}")
        self.left_out = {renamed.get(of, of): why for of, why in self.left_out.items()}

    @property
    def backends(self) -> list[Backend]:
        """The victims' back ends."""
        return [victim.backend for victim in self.victims]

    @property
    def question_groups(self) -> list[GroupPart]:
        """The groups of questions; empty if the data are sentences."""
        return [group for group in self.groups if isinstance(group, GroupPart)]

    def items(self, dataset: DatasetPart, group: GroupPart | SentenceGroupPart) -> tuple[Any, ...]:
        """Return the items that a group's trials run over."""
        return tuple(filter(self.portion.keep, group.items(dataset)))

    def without_victims(self, labels: Collection[str]) -> Prepared:
        """Return the same experiment without some of its victims."""
        tables = self.experiment.victim
        named = zip(tables, victim_labels(tables), strict=True)
        kept = tuple(table for table, label in named if label not in labels)
        victims = [victim for victim in self.victims if victim.label not in labels]
        experiment = self.experiment.model_copy(update={"victim": kept})
        return replace(self, experiment=experiment, victims=victims)

    def trials(self) -> Iterator[Trial]:
        """Yield all trials, item by item, so that back ends can share prefixes."""
        settings, place = self.experiment.experiment, self.portion.first_place
        for victim, dataset in product(self.victims, self.datasets):
            selected = [
                (
                    group,
                    {item.id for item in self.items(dataset, group)},
                    group.resources_on(dataset),
                )
                for group in self.groups
            ]
            name = self.portion.names.get(victim.label, victim.label)
            on_dataset = replace(victim.on(dataset.label), label=name)
            for item in dataset.questions:
                if not self.portion.asks(victim.label, item):
                    continue
                arms_of_item = [
                    (group, resources, part)
                    for (group, ids, resources), part in product(selected, self.attacks)
                    if item.id in ids and self.holds(dataset, group, victim.label, part)
                ]
                if not self.portion.owns(item):
                    place += len(item.units()) * sum(self._n_runs(p) for *_, p in arms_of_item)
                    continue
                for group, resources, part in arms_of_item:
                    repeats = range(part.attack.repeats)
                    arms = product(self._seeds(part), repeats, item.units())
                    for seed, repeat, unit in arms:
                        asked = on_dataset
                        if "turns" in part.attack.needs:
                            asked = victim_of(
                                on_dataset, part.attack, dataset.label, item, seed, repeat
                            )
                        yield Trial(
                            dataset=dataset.label,
                            group=group.label,
                            item=unit,
                            victim=asked,
                            repeat=repeat,
                            attack_label=part.label,
                            attack=on_trial(part.attack, seed, repeat),
                            resources=resources,
                            seed=seed,
                            place=place,
                            flip_check=settings.flip_check,
                        )
                        place += 1

    def holds(
        self,
        dataset: DatasetPart,
        group: GroupPart | SentenceGroupPart,
        victim: str,
        part: AttackPart,
    ) -> bool:
        """Return whether an attack runs on a group.

        Attacks that draw no names have a group of their own.
        """
        needs = "names" in part.attack.needs
        if isinstance(group, GroupPart) and needs == (group.table is None):
            return False
        return self.portion.holds(dataset.label, group.label, victim, part)

    def selected(self) -> dict[str, list[str]]:
        """Return the sorted hashes of the items that trials run over, by data set and group."""
        return {
            f"{dataset.label}/{group.label}": sorted(
                content_hash([q.id, q.hash]) for q in self.items(dataset, group)
            )
            for dataset, group in product(self.datasets, self.groups)
        }

    def n_trials(self) -> int:
        """Return the number of trials; the victims need not be open."""
        victims = [v.label for v in self.victims] or victim_labels(self.experiment.victim)
        n = 0
        for dataset, group, victim in product(self.datasets, self.groups, victims):
            arms = sum(
                self._n_runs(part)
                for part in self.attacks
                if self.holds(dataset, group, victim, part)
            )
            items = (
                item
                for item in self.items(dataset, group)
                if self.portion.asks(victim, item) and self.portion.owns(item)
            )
            n += sum(len(item.units()) for item in items) * arms
        return n

    def _n_runs(self, part: AttackPart) -> int:
        return len(self._seeds(part)) * part.attack.repeats

    def _seeds(self, part: AttackPart) -> Sequence[int | None]:
        return self.experiment.experiment.seeds if part.attack.is_random else (None,)


def take_shard(prepared: Prepared, shard: Shard) -> None:
    """Let a prepared experiment with open victims run one shard.

    Args:
        prepared: the whole plan, with passages fitted to the victims.
        shard: which part.
    """
    whole = prepared.portion
    shards = cut([part.questions for part in prepared.datasets], shard.of)
    own = frozenset(
        (item.id, item.hash)
        for part, numbers in zip(prepared.datasets, shards, strict=True)
        for item, number in zip(part.questions, numbers, strict=True)
        if number == shard.number
    )
    entry = {"number": shard.number, "of": shard.of, "n_trials": prepared.n_trials(), "first": 0}
    prepared.portion = replace(
        whole,
        shard=shard,
        own=own,
        notes={**whole.notes, KEY: entry},
        caps=_part_of_limits(prepared, shard),
    )


def _part_of_limits(prepared: Prepared, shard: Shard) -> dict[str, Any]:
    """Return a shard's part of the experiment's limits; the parts of all shards sum to them."""
    settings = prepared.experiment.experiment
    limits = {name: getattr(settings, name) for name in LIMITS}
    return {
        name: shard.share(whole) if isinstance(whole, int) else whole / shard.of
        for name, whole in limits.items()
        if whole is not None
    }


def go_on(prepared: Prepared, known: Mapping[str, Any]) -> None:
    """Give the trials that an extension adds places after those of the plan that it extends.

    So they stand in a run that is extended on one machine.

    Args:
        prepared: the shard that is to run.
        known: the folder's manifest, of the same shard.
    """
    portion, before = prepared.portion, known[KEY]
    entry, first = portion.notes[KEY], before["first"]
    if before["n_trials"] != entry["n_trials"]:
        first += before["n_trials"]
    notes = {**portion.notes, KEY: {**entry, "first": first}}
    prepared.portion = replace(portion, first_place=first, notes=notes)
