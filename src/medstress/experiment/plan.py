"""An experiment with everything loaded but the models; its trials, shards, limits."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from pathlib import Path
from typing import Any, TypeAlias

from medstress.attacks.attacked import on_trial
from medstress.backends.python import PythonBackend
from medstress.core.arms import arm_label
from medstress.core.calls import Answer, Backend
from medstress.core.errors import OtherRunError, UsageError, another_folder
from medstress.core.hashing import content_hash, file_hash
from medstress.engine.progress import DRAIN_SECONDS, Limits
from medstress.engine.trial import Trial
from medstress.experiment import config
from medstress.experiment.arms import AttackPart, LeftOut
from medstress.experiment.data import DatasetPart
from medstress.experiment.groups import GroupPart
from medstress.experiment.models import RolePart, all_prices, usd_of, victim_of
from medstress.store.counts import Price
from medstress.store.run_store import RunStore
from medstress.store.shards import KEY, Shard, cut
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
    used: Usage = field(default_factory=Usage)
    """What the command's other runs have used; it counts against its limits."""

    def owns(self, item: Any) -> bool:
        """Return whether an item is the shard's."""
        return self.own is None or (item.id, item.hash) in self.own


Arms: TypeAlias = Sequence[tuple[GroupPart, AttackPart]]
"""What is asked about one item."""


@dataclass(slots=True, kw_only=True)
class Prepared:
    """An experiment with everything loaded but the models."""

    experiment: config.Experiment
    """As checked, defaults filled in."""
    given: dict[str, Any]
    """As the user gave it: text or table, and overrides."""
    base: Path
    """Folder that relative paths start from."""
    datasets: list[DatasetPart]
    """Loaded, with their samples drawn."""
    groups: Sequence[GroupPart]
    """With their vectors."""
    attacks: list[AttackPart]
    """With their labels; control arms last."""
    left_out: LeftOut = field(default_factory=dict)
    """Controls that attacks have not, with the reason."""
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
            if part.as_control is not None and part.as_control[0] in renamed:
                of, control = part.as_control
                self.attacks[i] = replace(part, label=arm_label(renamed[of], control))
        self.left_out = {renamed.get(of, of): why for of, why in self.left_out.items()}

    @property
    def backends(self) -> list[Backend]:
        """The victims' back ends."""
        return [victim.backend for victim in self.victims]

    def items(self, dataset: DatasetPart, group: GroupPart) -> tuple[Any, ...]:
        """Return the items that a group's trials run over."""
        return tuple(filter(self.portion.keep, group.items(dataset)))

    def without_victims(self, labels: Collection[str]) -> Prepared:
        """Return the same experiment without some of its victims."""
        tables = self.experiment.victim
        named = zip(tables, config.labels_of(tables), strict=True)
        kept = tuple(table for table, label in named if label not in labels)
        victims = [victim for victim in self.victims if victim.label not in labels]
        experiment = self.experiment.model_copy(update={"victim": kept})
        return replace(self, experiment=experiment, victims=victims)

    def _planned(
        self,
    ) -> Iterator[tuple[int, DatasetPart, Any, list[tuple[GroupPart, AttackPart]]]]:
        """Yield (place of the victim, data set, item, its arms), so that prefixes can be shared.

        The victims need not be open.
        """
        labels = [v.label for v in self.victims] or config.labels_of(self.experiment.victim)
        for (place, victim), dataset in product(enumerate(labels), self.datasets):
            ids = [(one, {item.id for item in self.items(dataset, one)}) for one in self.groups]
            for item in dataset.questions:
                if self.portion.asks(victim, item):
                    yield (
                        place,
                        dataset,
                        item,
                        [
                            (group, part)
                            for (group, own), part in product(ids, self.attacks)
                            if item.id in own and self.holds(dataset, group, victim, part)
                        ],
                    )

    def n_trials(self) -> int:
        """Return the number of trials; the victims need not be open."""
        return sum(
            len(item.units()) * self._n_runs(part)
            for _, _, item, arms in self._planned()
            if self.portion.owns(item)
            for _, part in arms
        )

    def trials(self) -> Iterator[Trial]:
        """Yield all trials, item by item, so that back ends can share prefixes."""
        place, flip_check = self.portion.first_place, self.experiment.experiment.flip_check
        resources = {
            (dataset.label, group.label): group.resources_on(dataset)
            for dataset, group in product(self.datasets, self.groups)
        }
        names = (self.portion.names.get(victim.label, victim.label) for victim in self.victims)
        on = [
            {one.label: replace(victim.on(one.label), label=name) for one in self.datasets}
            for victim, name in zip(self.victims, names, strict=True)
        ]
        for number, dataset, item, arms in self._planned():
            if not self.portion.owns(item):
                place += len(item.units()) * sum(self._n_runs(part) for _, part in arms)
                continue
            for group, part in arms:
                repeats = range(part.attack.repeats)
                for seed, repeat, unit in product(self.seeds(part), repeats, item.units()):
                    victim, label = on[number][dataset.label], dataset.label
                    if "turns" in part.attack.needs:
                        victim = victim_of(victim, part.attack, label, item, seed, repeat)
                    yield Trial(
                        dataset=label,
                        group=group.label,
                        item=unit,
                        victim=victim,
                        repeat=repeat,
                        attack_label=part.label,
                        attack=on_trial(part.attack, seed, repeat),
                        resources=resources[label, group.label],
                        seed=seed,
                        place=place,
                        flip_check=flip_check,
                    )
                    place += 1

    def holds(
        self,
        dataset: DatasetPart,
        group: GroupPart,
        victim: str,
        part: AttackPart,
    ) -> bool:
        """Return whether an attack runs on a group.

        Attacks that draw no names have a group of their own.
        """
        needs = "names" in part.attack.needs
        if needs == (group.table is None):
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

    def _n_runs(self, part: AttackPart) -> int:
        return len(self.seeds(part)) * part.attack.repeats

    def seeds(self, part: AttackPart) -> Sequence[int | None]:
        """Return the seeds of an attack's trials; [None] without random numbers."""
        return self.experiment.experiment.seeds if part.attack.is_random else (None,)


# -- shards ----------------------------------------------------------------------------------------


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
    limits = limits_in(prepared.experiment.experiment)
    prepared.portion = replace(
        whole,
        shard=shard,
        own=own,
        notes={**whole.notes, KEY: entry},
        # The parts of all shards sum to the experiment's limits.
        caps={
            name: shard.share(limit) if isinstance(limit, int) else limit / shard.of
            for name, limit in limits.items()
        },
    )


def limits_in(settings: config.Settings) -> dict[str, Any]:
    """Return the limits that an experiment sets."""
    limits = ((name, getattr(settings, name)) for name in config.LIMITS)
    return {name: limit for name, limit in limits if limit is not None}


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


# -- limits ----------------------------------------------------------------------------------------


def usage_of(store: RunStore, prepared: Prepared) -> Usage:
    """Return what the folder's run has used up so far."""
    n_queries, n_tokens = store.computed_totals()
    prices = all_prices(prepared.experiment)
    # Summing by payer sorts every answer, so it is skipped when nothing has a price.
    usd = usd_of(store.spending(), prices) if prices else 0.0
    seconds = store.manifest().get("performance", {}).get("wall_seconds", 0.0)
    return Usage(n_queries=n_queries, n_tokens=n_tokens, usd=usd, seconds=seconds)


def limits_of(store: RunStore, prepared: Prepared) -> Limits:
    """Return when the run must stop, given what it and other runs of the command have used."""
    settings = prepared.experiment.experiment
    so_far, elsewhere = usage_of(store, prepared), prepared.portion.used
    caps = prepared.portion.caps or limits_in(settings)
    max_seconds = caps.get("max_seconds")
    prices = all_prices(prepared.experiment)
    # Where roles and victims share a back end, the dearest counts during the run.
    own: dict[int, list[Price]] = {}
    asked: list[Victim | RolePart] = [*prepared.victims, *prepared.roles]
    for part in asked:
        own.setdefault(id(part.backend), []).extend(filter(None, [prices.get(part.label)]))

    def usd(backend: Backend, answer: Answer) -> float:
        known = own.get(id(backend), [])
        return max((price.usd(answer.tokens_in, answer.tokens_out) for price in known), default=0.0)

    left = (max_seconds or math.inf) - so_far.seconds - elsewhere.seconds
    return Limits(
        until=None if max_seconds is None else prepared.started + left,
        trial_seconds=settings.trial_seconds or None,
        drain_seconds=prepared.drain_seconds,
        max_queries=caps.get("max_queries"),
        max_tokens=caps.get("max_tokens"),
        max_usd=caps.get("max_usd"),
        n_queries=so_far.n_queries + elsewhere.n_queries,
        n_tokens=so_far.n_tokens + elsewhere.n_tokens,
        n_usd=so_far.usd + elsewhere.usd,
        usd_of=usd,
    )


def reached(store: RunStore, prepared: Prepared) -> list[str]:
    """Return the limits that a folder has used up, of a shard its parts; if none is used up to the
    end, because what is left does not hold a query, those that it has."""
    used, caps = usage_of(store, prepared), prepared.portion.caps
    if caps is None:
        return []
    spent = {
        "max_queries": used.n_queries,
        "max_tokens": used.n_tokens,
        "max_usd": used.usd,
        "max_seconds": used.seconds,
    }
    return [name for name, cap in caps.items() if spent[name] >= cap] or list(caps)


# -- functions -------------------------------------------------------------------------------------


Named = tuple[str, Backend]
"""Name of a victim or role in messages, and its back end."""


def named_backends(prepared: Prepared) -> list[Named]:
    """Return the victims of an experiment and the roles with back ends of their own."""
    roles = [(part.label, part.backend) for part in prepared.roles if not part.is_shared]
    return [*((f"model {v.label!r}", v.backend) for v in prepared.victims), *roles]


def check_targets(backends: Sequence[Named]) -> None:
    """Check that no two functions can be confused by their answers or modules.

    Raises:
        UsageError: two functions can be confused; the message names both.
    """
    functions = [
        (name, backend) for name, backend in backends if isinstance(backend, PythonBackend)
    ]
    for (one, first), (other, second) in combinations(functions, 2):
        if _function(first) == _function(second):
            continue
        if first.identity.hash == second.identity.hash:
            what = "the same source" if first.version is None else f"version {first.version!r}"
            raise UsageError(
                f"{one} and {other}: targets {first.identity.name!r} and {second.identity.name!r} "
                f"have the same names and {what}; give them different versions or file names"
            )
        for name, path in _modules(first).items():
            if _modules(second).get(name, path) != path:
                raise UsageError(
                    f"{one} and {other}: both import a module {name!r}, from {path} and from "
                    f"{_modules(second)[name]}; rename one, or use two experiments"
                )


def check_same_targets(prepared: Prepared, known: Mapping[str, Any], folder: Path) -> None:
    """Check that the functions of a folder's victims and roles are in the same files.

    A version names one file, which may be edited, moved and copied. No file that the folder names
    is opened.

    Args:
        prepared: the experiment, with victims and roles open.
        known: the folder's manifest.
        folder: the run folder.

    Raises:
        StoreError: a target changed; the message names the victim or role, and both targets.
    """
    stored = {**known["victims"], **{f"role.{k}": v for k, v in known.get("roles", {}).items()}}
    current = [(f"model {v.label!r}", v.label, v.backend) for v in prepared.victims]
    current += [(part.label, part.label, part.backend) for part in prepared.roles]
    for what, label, backend in current:
        if "target_hash" not in stored.get(label, ()) or not isinstance(backend, PythonBackend):
            continue
        was, now = stored[label]["model"], backend.identity.name
        old_path, path = _place(was, Path(known["base"])), _place(now, prepared.base)
        is_same_file = old_path == path or _place(was, Path()) == _place(now, Path())
        is_same_text = stored[label].get("target_hash", "") == target_hash(backend)
        if was.rpartition(":")[2] != now.rpartition(":")[2] or not (is_same_file or is_same_text):
            raise OtherRunError(
                f"{folder} holds another experiment: the target of {what} was {was!r}, is {now!r}. "
                f"Give it another label. {another_folder()}",
                folder,
            )


def claim_answers(prepared: Prepared) -> None:
    """Check that no function has the name and version of another file in the shared cache.

    Raises:
        UsageError: it has; the message names the victim or role, and both files.
    """
    if prepared.shared is None:
        return
    for what, backend in named_backends(prepared):
        if not isinstance(backend, PythonBackend) or backend.version is None:
            continue
        path, identity = _function(backend)[0], backend.identity
        if path is None:
            continue
        file, text = prepared.shared.file_of(identity.hash) or (path, target_hash(backend))
        if file != path and text != target_hash(backend) and file.is_file():
            raise UsageError(
                f"{what}: target {identity.name!r} is {path}, but the cache "
                f"{prepared.shared.folder} holds answers of version {backend.version!r} of "
                f"{file}; give it another version or cache"
            )
        prepared.shared.keep_file(identity.hash, path, target_hash(backend))


def target_hash(backend: PythonBackend) -> str | None:
    """Of the file that a target names; None for what has none."""
    path = _function(backend)[0]
    return None if path is None or not path.is_file() else file_hash(path)


def _place(target: str, base: Path) -> Path:
    """Return the path that a target names, without opening it; dotted names differ from paths."""
    return (base / target.rpartition(":")[0]).resolve()


def _function(backend: PythonBackend) -> tuple[Path | None, str]:
    loaded, name = backend.loaded, backend.identity.name.rpartition(":")[2]
    path = None if loaded is None or loaded.path is None else loaded.path.resolve()
    return path, name


def _modules(backend: PythonBackend) -> dict[str, Path]:
    imports = {} if backend.loaded is None else backend.loaded.imports
    return {name: path.resolve() for name, path in imports.items()}
