"""The bench of a run folder: its items, tasks and attacks, and models that have no answers.

A folder may come from a stranger, so nothing that it names is opened but what ships with medstress:
no function, path, hub id or template. What is the user's own comes from an experiment that the user
names, where it has the hash that the folder stores.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias, cast

from medstress.attacks.controls.arm import ControlArm, control_arm
from medstress.attacks.controls.harmless import Control
from medstress.attacks.noise import Noise
from medstress.attacks.protocol import Attack, Ends, Need, TurnAttack, Validity, rebuilt
from medstress.core.calls import Backend, BackendTraits, Decoding, ModelIdentity
from medstress.core.errors import MedstressError
from medstress.core.hashing import content_hash
from medstress.core.items import Question
from medstress.core.outcomes import Goal, parse_goal
from medstress.core.queries import Steps
from medstress.core.resources import Resources
from medstress.core.validity import VARIANT_CLASSES
from medstress.datasets.source import Loaded
from medstress.engine.replay import NotHereError, Recorded
from medstress.engine.trial import Trial
from medstress.engine.work import Work
from medstress.entities.alike import NameRules, option_texts
from medstress.entities.distances import NAMED
from medstress.entities.groups import LABEL as NO_NAMES
from medstress.entities.groups import NoNames, types_of
from medstress.entities.names import DIFFERENT, variant_class
from medstress.entities.vocabularies import SHIPPED, SynonymGroups, load_synonyms
from medstress.experiment import config
from medstress.experiment.arms import AttackPart
from medstress.experiment.data import DatasetPart
from medstress.experiment.groups import GroupPart, free_group, load_groups, noise_resources
from medstress.experiment.models import RolePart, draw_examples
from medstress.experiment.plan import Prepared
from medstress.store.reader import RunReader
from medstress.tasks.conversation import Conversation
from medstress.tasks.kinds import kind_described, kind_of_all
from medstress.tasks.prompt_sets import Exemplar
from medstress.tasks.prompt_sets import shipped_sets as shipped_prompt_sets
from medstress.tasks.victim import Victim, VictimRequest

_SHIPPED: Mapping[str, tuple[Any, ...]] = {
    "vocabulary": (None, *SHIPPED),
    "embedding": ("minilm", "ngram"),
    "distance": NAMED,
    "synonyms": ("default", "none"),
    "words": (None,),
    "recogniser": (None, "gazetteer"),
    "pairs": (None, "default"),
}
"""Key of a group or attack -> its values that name nothing of a user's."""
_GIVE = "name the experiment with --experiment"
_OF_ALL = f"noise reads all of the data, of which the folder holds what was asked; {_GIVE}"
_SAID = ("n_names", "n_undefined", "hash", "undefined")
"""What a group says of its names; the last is of the right answers of its items too."""
_NO_LIST = SynonymGroups("", "", ())
Place: TypeAlias = tuple[str, str]


class _Rules(NameRules):
    """The rules for names, which need no vectors."""

    def evidence(self, item: Question, name: str, field: str) -> tuple[()]:
        """Return nothing: what tables said is taken as it is stored."""
        return ()

    def __getattr__(self, name: str) -> Any:
        raise NotHereError(name)


class _UnknownList(_Rules):
    """The same without the user's list of synonyms."""

    def variant_class(self, item: Question, name: str) -> str:
        """Return the class of a name, unless it could be that of a synonym."""
        kind = variant_class(name, option_texts(item, item.key))
        if kind == VARIANT_CLASSES[DIFFERENT]:
            raise NotHereError("synonyms")
        return kind


class _Absent:
    """In place of what a folder does not hold."""

    def __getattr__(self, name: str) -> Any:
        raise NotHereError(name)


@dataclass(frozen=True, kw_only=True)
class _Described(TurnAttack):
    """An attack that is not here: known by what the folder says that it declares."""

    of: Mapping[str, Any]
    """Its parameters."""
    budget: int
    takes: frozenset[str]
    needs: frozenset[Need]
    fields: frozenset[str]
    success: Goal
    ends: Ends
    is_random: bool
    is_judged: bool
    every_item: bool
    control: str | None
    is_control: bool
    stream: str
    repeats: int
    reasoning_tokens: int = 0

    @classmethod
    def read(cls, of: Mapping[str, Any], declared: Mapping[str, Any]) -> _Described:
        """Return the attack of some parameters that declared something (`declared_by`)."""
        values: dict[str, Any] = {
            k: frozenset(v) if isinstance(v, list) else v for k, v in declared.items()
        }
        goal = parse_goal(values.pop("success"), unreadable=values.pop("unreadable"))
        return cls(of=of, success=goal, **values)

    def spec(self) -> dict[str, Any]:
        """Return its parameters."""
        return dict(self.of)

    def obstacle(self, item: Any, resources: Any) -> str | None:
        """Say that it is not here."""
        raise NotHereError("attack")

    def validity(self, candidate: Any, resources: Any) -> Validity | None:
        """Say that its rules are not here."""
        raise NotHereError("attack")

    def turns(self, item: Any, rng: Any) -> tuple[Exemplar, ...]:
        """Return no worked questions: the words are taken from the stored requests."""
        return ()

    def run(self, item: Any, rng: Any, resources: Any) -> Steps[Any]:
        """Say that it is not here."""
        raise NotHereError("attack")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Group(GroupPart):
    """A group of questions whose items are those of the plan."""

    planned: Mapping[str, frozenset[str]]
    """Data set -> hashes of its items."""
    on: Mapping[str, Resources]
    """Data set -> what attacks may read."""

    def items(self, dataset: DatasetPart) -> tuple[Any, ...]:
        """Return the items of the plan."""
        planned = self.planned.get(dataset.label, frozenset())
        return tuple(q for q in dataset.questions if content_hash([q.id, q.hash]) in planned)

    def resources_on(self, dataset: DatasetPart) -> Resources:
        """Return what attacks may read on a data set."""
        return self.on[dataset.label]


class Bench:
    """A folder's plan on models that have an identity and no answers.

    Attributes:
        prepared: the plan, with the folder's items; resources are real where they are here.
        folds: name of victims that share the items -> all of them.
        rules: group -> what rules may read without names and vectors.
        names: group -> the names that may be put in, where they are here.
        groups: group -> what is said of these.
        lacks: attack, group, or (group, data set) -> why an attack is not drawn again.
        unknown: attack -> why nothing can be said of its trials.

    Args:
        run: the folder, open for reading.
        own: the experiment that the user names, loaded; None for what ships alone.
        version: whether this version of medstress wrote the folder.
    """

    def __init__(self, run: RunReader, own: Prepared | None, *, version: bool) -> None:
        self._manifest, self._own, self._version = run.manifest, own, version
        items: dict[str, list[Any]] = {label: [] for label in run.manifest["datasets"]}
        for dataset, item in run.items().values():
            items.setdefault(dataset, []).append(item)
        self._kind = kind_of_all(item for of_set in items.values() for item in of_set)
        self._datasets = [self._dataset(label, tuple(own)) for label, own in items.items()]
        self._roles = [
            RolePart(
                name=name,
                backend=backend_of(one),
                decoding=Decoding(
                    max_new_tokens=most,
                    temperature=temperature,
                    thoughts=(marks[0], marks[1]) if marks else None,
                ),
                is_shared=True,
            )
            for name, one in (run.manifest.get("roles") or {}).items()
            for most, temperature, *marks in (one["decoding"],)
        ]
        self.lacks: dict[Place | str, str] = {}
        self.unknown: dict[str, str] = {}
        self.muted: set[str] = set()
        """Attacks whose conversations begin with prompts that are not here."""
        self._restated: set[str] = set()
        """Names of victims whose prompts another version of medstress wrote."""
        self.rules: dict[str, Any] = {}
        self.names: dict[str, frozenset[str]] = {}
        self.groups: dict[str, dict[str, Any]] = {}
        self._attacks = self._read_attacks()
        groups = self._read_groups()
        self.folds = self._read_victims()
        settings = config.Settings.model_construct(
            seeds=tuple(run.manifest["seeds"]),
            flip_check=run.manifest["parts"]["settings"]["flip_check"],
        )
        given = run.manifest["config"]
        analysis = config.Analysis.model_validate(given.get("analysis") or {})
        test = config.Significance.model_validate(given["test"]) if given.get("test") else None
        self.prepared = Prepared(
            experiment=config.Experiment.model_construct(
                experiment=settings, analysis=analysis, test=test, victim=()
            ),
            given={},
            base=Path(),
            datasets=self._datasets,
            groups=groups,
            attacks=self._attacks,
            victims=[victims[0] for victims in self.folds.values()],
            roles=self._roles,
            kind=self._kind,
        )

    @property
    def described(self) -> list[AttackPart]:
        """The attacks that are here, so that what is said of them can be compared."""
        return [part for part in self._attacks if not isinstance(part.attack, _Described)]

    def why_judged(self, trial: Trial) -> str | None:
        """Return why the attack of a trial is not run again; None if it is."""
        places = (trial.attack_label, trial.group, (trial.group, trial.dataset))
        return next((self.lacks[place] for place in places if place in self.lacks), None)

    def may_differ(self, trial: Trial) -> bool:
        """Return whether an attack that runs again here may draw otherwise.

        Hashes cover the weights of an embedding, not its vectors: near ties may differ on another
        processor. Another version may ship other tables.
        """
        attack = trial.attack.harmless if isinstance(trial.attack, ControlArm) else trial.attack
        reads = trial.group != NO_NAMES and "names" in attack.needs
        return not self._version or reads or attack.spec().get("mode") == "related"

    def takes_requests(self, work: Work) -> bool:
        """Return whether the prompts of a work's victim are not here."""
        task: Any = work.victim.task
        if isinstance(task, Conversation):
            return work.attack_label in self.muted
        if work.victim.label in self._restated:
            return True
        template = getattr(task, "template", None)
        return template is not None and not template.is_shown

    def _dataset(self, label: str, items: tuple[Any, ...]) -> DatasetPart:
        stored = self._manifest["datasets"].get(label, {})
        loaded = Loaded(items=items, skipped=(), source_hash=stored.get("hash", ""))
        return DatasetPart(label=label, questions=items, loaded=loaded)

    @property
    def _decodings(self) -> dict[str, Decoding]:
        return {part.name: part.decoding for part in self._roles}

    # -- attacks -----------------------------------------------------------------------------
    def _read_attacks(self) -> list[AttackPart]:
        ours = {part.label: part.attack for part in self._own.attacks} if self._own else {}
        attacks = []
        for label, spec in self._manifest["attacks"].items():
            own = ours.get(label)
            if own is not None and content_hash(own.spec()) == content_hash(spec):
                attacks.append(AttackPart(label=label, attack=own))
                continue
            attack = self._attack(label, spec)
            if attack is None:
                name = spec.get("control_of", spec).get("name", spec.get("name"))
                self.unknown[label] = f"the attack {name!r} is not installed and has its own goal"
                continue
            attacks.append(AttackPart(label=label, attack=attack))
            if isinstance(attack, _Described):
                self.muted.add(label)
        return attacks

    def _attack(self, label: str, spec: Mapping[str, Any]) -> Attack | None:
        """Return the attack that parameters describe, as far as its rules go."""
        of = spec.get("control_of", spec)
        is_stored = "set" in of and "of" in of
        attack = None if is_stored else _own(spec)
        if attack is None:
            lack = f"its edits come from a file; {_GIVE}" if is_stored else "not installed"
            self.lacks[label] = lack
            declared = self._manifest["records"].get(label, {}).get("declared")
            return _Described.read(spec, declared) if declared else None
        if (why := _not_shipped({"pairs": of.get("pairs")})) is not None:
            self.lacks[label] = why
        if content_hash(attack.spec()) != content_hash(spec) or _reads_files(attack):
            self.lacks[label] = f"it reads a file of the user's; {_GIVE}"
            if "turns" in attack.needs:
                self.muted.add(label)
        return attack

    # -- groups ------------------------------------------------------------------------------
    def _read_groups(self) -> list[Any]:
        """Return the groups, and keep their rules."""
        parts = self._manifest["parts"]
        planned: dict[str, dict[str, frozenset[str]]] = {}
        for place, hashes in parts["items"].items():
            dataset, _, group = place.rpartition("/")
            planned.setdefault(group, {})[dataset] = frozenset(hashes)
        here, tables = self._here(), self._tables()
        groups: list[Any] = []
        for label, described in (self._manifest.get("groups") or {}).items():
            part = here.get(label)
            if part is not None and part.fingerprint != parts["groups"].get(label):
                if label == NO_NAMES and part.noise is not None:
                    self.lacks |= {p.label: _OF_ALL for p in self._attacks if _is_noisy(p.attack)}
                else:
                    part = self._lack(label, "what it reads has another hash here")
            names: Any = NoNames()
            types: frozenset[str] = frozenset()
            if part is not None:
                names, types = part.perturbations, part.resources.types
                if names.names:
                    said = part.describe()
                    self.names[label] = frozenset(names.names)
                    is_whole = self._own is not None or self._manifest.get("complete")
                    keys = _SAID if is_whole else _SAID[:-1]
                    self.groups[label] = {key: said[key] for key in keys}
            elif "vocabulary" in described:
                names, types = _rules(tables[label]), types_of(tables[label]["type"])
            self.rules[label] = rules = Resources(
                group=label,
                types=types,
                perturbations=names,
                roles=self._decodings,
                noise=_Absent(),
                passages=cast("Any", _Absent()),
            )
            on = {
                one.label: rules if part is None else self._on(part, label, one)
                for one in self._datasets
            }
            groups.append(
                _Group(
                    label=label,
                    table=cast("Any", tables.get(label, {})) if label != NO_NAMES else None,
                    resources=next(iter(on.values()), rules),
                    perturbations=names,
                    planned=planned.get(label, {}),
                    on=on,
                )
            )
        return groups

    def _on(self, part: GroupPart, label: str, dataset: DatasetPart) -> Resources:
        """Return the resources of a group on a data set, with the passages that the plan had."""
        of_own = self._own.datasets if self._own else self._datasets
        source = next((one for one in of_own if one.label == dataset.label), dataset)
        resources = replace(part.resources_on(source), group=label, roles=self._decodings)
        stored = self._manifest["datasets"].get(dataset.label, {}).get("passages")
        if part.needs_passages and stored != resources.passages.hash:
            self.lacks[label, dataset.label] = (
                f"it draws from passages that the folder does not hold; {_GIVE}"
            )
        return resources

    def _tables(self) -> dict[str, Mapping[str, Any]]:
        """Return the table of every group that has a vocabulary, by label."""
        groups = self._manifest.get("groups") or {}
        labels = [label for label, one in groups.items() if "vocabulary" in one]
        return dict(zip(labels, self._manifest["config"].get("entities") or (), strict=False))

    def _here(self) -> dict[str, Any]:
        """Return the groups that can be built here, by label."""
        if self._own is not None:
            return {part.label: part for part in self._own.groups}
        noisy = [part for part in self._attacks if isinstance(part.attack, Noise)]
        named = next((why for p in noisy if (why := _not_shipped(p.attack.spec()))), None)
        noise = None
        if noisy and named is None:
            items = [item for part in self._datasets for item in part.known_items]
            attacks = [part.attack for part in noisy]
            noise = self._tried(NO_NAMES, lambda: noise_resources(items, attacks, Path()))
        here: dict[str, Any] = {}
        for label, table in self._tables().items():
            if (why := _not_shipped(table)) is not None:
                self._lack(label, why)
                continue
            tables = [config.Entities.model_validate({**table, "limit": None})]
            built = self._tried(
                label, lambda t=tables: load_groups(t, Path(), self._datasets, lambda _: None)
            )
            if built:
                here[label] = replace(built[0], label=label)
        free = free_group([part.attack for part in self._attacks], noise)
        if noisy and noise is None and free:
            self._lack(NO_NAMES, named or "")
            free = []
        here |= {part.label: part for part in free}
        return here

    def _tried(self, label: str, build: Any) -> Any:
        try:
            return build()
        except (MedstressError, OSError) as error:
            return self._lack(label, str(error))

    def _lack(self, label: str, why: str) -> Any:
        """Note why a group is not here; return None in its place."""
        self.lacks.setdefault(label, why)
        return None

    # -- victims -----------------------------------------------------------------------------
    def _read_victims(self) -> dict[str, list[Victim]]:
        """Return the victims by the names that rows have, which folds share."""
        named: dict[str, list[Victim]] = {}
        for label, stored in self._manifest["victims"].items():
            name = stored.get("part_of", label)
            by_dataset = tuple(
                (dataset, self._task(one)) for dataset, one in stored.get("by_dataset", {}).items()
            )
            victim = Victim(
                label=label,
                task=self._task(stored),
                backend=backend_of(stored),
                by_dataset=by_dataset,
            )
            if content_hash(victim.task.spec()) != content_hash(stored["task"]):
                self._restated.add(name)
            named.setdefault(name, []).append(replace(self._rendering(victim), label=name))
        return named

    @staticmethod
    def _task(stored: Mapping[str, Any]) -> Any:
        return kind_described(stored["task"]).task_from_spec(stored["task"], stored["prompt"])

    def _rendering(self, victim: Victim) -> Victim:
        """Return a victim with the user's own templates, if the named experiment has them."""
        if self._own is None:
            return victim
        tables = self._own.experiment.victim
        for table, label in zip(tables, config.labels_of(tables), strict=True):
            if label != victim.label:
                continue
            pairs = zip(self._own.datasets, self._own.experiment.dataset, strict=True)
            request = VictimRequest(
                table=table,
                label=label,
                base=self._own.base,
                backend=victim.backend,
                classes=self._own.classes,
                datasets=[(part.label, one.name) for part, one in pairs],
                examples=partial(draw_examples, table, self._own.base, label),
            )
            tasks = self._own.kind.tasks(request)
            own = replace(victim, task=tasks.default, by_dataset=tasks.by_dataset)
            if own.spec() == victim.spec() and own.prompt_specs() == victim.prompt_specs():
                return own
        return victim


def _own(spec: Mapping[str, Any]) -> Attack | None:
    """Return the attack that parameters describe, without the user's files; None: not installed."""
    own = {k: v for k, v in spec.items() if not (k == "budget" and v is None)}
    own.pop("exemplars_from", None)
    if own.get("template") not in shipped_prompt_sets():
        own.pop("template", None)
    if "control_of" not in spec:
        return rebuilt(own)
    own.pop("budget", None)  # that of its attack
    control, of = rebuilt(own), _own(spec["control_of"])
    return control_arm(control, of) if isinstance(control, Control) and of is not None else None


def _is_noisy(attack: Attack) -> bool:
    """Return whether an attack, or what a control is of, is noise."""
    parts = (attack.harmless, attack.of) if isinstance(attack, ControlArm) else (attack,)
    return any(isinstance(part, Noise) for part in parts)


def _reads_files(attack: Attack) -> bool:
    """Return whether a plug-in reads files that its parameters name."""
    of = attack.of if isinstance(attack, ControlArm) else attack
    is_ours = type(of).__module__.startswith("medstress.")
    return type(of).with_files is not Attack.with_files and not is_ours


def _rules(table: Mapping[str, Any]) -> NameRules:
    """Return the rules for the names of a group whose vectors are not here."""
    source = str(table.get("synonyms", "default"))
    is_shipped = source in _SHIPPED["synonyms"]
    return _Rules(load_synonyms(source, Path())) if is_shipped else _UnknownList(_NO_LIST)


def _not_shipped(table: Mapping[str, Any]) -> str | None:
    """Return which key of a table names what is the user's; None if all ships with medstress."""
    for key, shipped in _SHIPPED.items():
        value = table.get(key) or shipped[0]
        if value not in shipped and not (key == "recogniser" and "type" in table):
            return f"{key} = {value!r} does not ship with medstress; {_GIVE}"
    return None


def backend_of(stored: Mapping[str, Any]) -> Backend:
    """Return what replaces a model of the manifest."""
    identity = stored["backend"]
    return Recorded(
        ModelIdentity(name=stored["model"], hash=stored["model_hash"]),
        BackendTraits(
            calls=frozenset(identity["calls"]),
            structured=identity["structured"],
            in_turns=identity["in_turns"],
            labels=tuple(identity.get("labels", ())),
        ),
    )
