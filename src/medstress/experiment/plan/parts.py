"""Build data sets, entity groups, victims and attacks from checked tables."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress.attacks.noise import DEFAULT_FIELD, Noise, NoiseResources, noise_of
from medstress.attacks.protocol import Attack
from medstress.backends.options import ANSWER_SECONDS, BackendOptions
from medstress.core import registry
from medstress.core.errors import UsageError
from medstress.core.hashing import content_hash
from medstress.core.items import Question
from medstress.core.resources import DrugNames, Passages, Resources
from medstress.datasets.source import DatasetOptions, Loaded, draw
from medstress.entities.groups import LABEL, NoNames, typed_options, types_of
from medstress.experiment.file import config
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.experiment.plan.noise_resources import (
    absence_remark,
    describe_noise,
    noise_resources,
)
from medstress.tasks.kinds import KINDS, Kind, kind_of_all
from medstress.tasks.victim import Victim, VictimRequest
from medstress.tasks.wrappers import SPARE

if TYPE_CHECKING:
    from medstress.entities.perturbations import VectorPerturbationSet


Note = Callable[[str], None]
"""Receives what is being prepared, for displays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """One entity group, with its vectors."""

    label: str
    """Name in results."""
    table: config.Entities | None
    """Its table; None for the group of attacks that draw no names, which tagged texts and pairs
    have alone."""
    resources: Resources
    """What attacks on it may read."""
    perturbations: VectorPerturbationSet | NoNames
    """The perturbation set of `resources`, with its hash."""
    needs_passages: bool = False
    """Whether an attack on it reads the passages of the data set."""
    ties: str | None = None
    """A warning about names at one distance from the right answers, or None."""

    @property
    def fingerprint(self) -> str:
        """Hash of what attacks may read."""
        parts = [sorted(self.resources.types), self.perturbations.hash]
        return content_hash([*parts, self.noise.hash] if self.noise else parts)

    @property
    def noise(self) -> NoiseResources | None:
        """What noise may read, if an attack is noise."""
        return noise_of(self.resources)

    @property
    def remark(self) -> str | None:
        """A warning about names without a distance or with the same one, or word lists that do not
        occur; None without any."""
        of_noise = absence_remark(self.noise) if self.noise else None
        remarks = (undefined_names(self.label, self.perturbations), self.ties, of_noise)
        return "; ".join(filter(None, remarks)) or None

    def describe(self) -> dict[str, Any]:
        """Return its entry in the manifest."""
        if self.table is None or isinstance(self.perturbations, NoNames):
            of_noise = describe_noise(self.noise) if self.noise else {}
            return {"n_names": 0, **of_noise, "hash": self.perturbations.hash}
        return {
            "vocabulary": self.table.vocabulary,
            "n_names": len(self.perturbations.names),
            "vocabulary_hash": self.perturbations.vocabulary.hash,
            "synonyms_hash": self.perturbations.synonyms_hash,
            "embedding": self.table.embedding,
            "distance": self.table.distance,
            "n_undefined": len(self.perturbations.undefined),
            "undefined": self.remark,
            "hash": self.perturbations.hash,
        }

    def resources_on(self, dataset: DatasetPart) -> Resources:
        """Return what attacks may read on a data set, with its passages if one needs them."""
        if not self.needs_passages:
            return self.resources
        # All items, so that neither a limit nor the draw of a sample changes what is read.
        passages = Passages.of(item.passage for item in dataset.all_items)
        return replace(self.resources, passages=passages)

    def items(self, dataset: DatasetPart) -> tuple[Any, ...]:
        """Return the items that its trials run over.

        A group's limit draws among the attackable items. Items that are not attackable stay, so
        that they are counted; they are never asked.
        """
        if self.table is None or self.table.limit is None:
            return dataset.questions
        attackable = [q for q in dataset.questions if typed_options(q, self.resources.types)]
        drawn = {q.id for q in draw(attackable, self.table.limit, dataset.sample_seed)}
        left_out = {q.id for q in attackable} - drawn
        return tuple(q for q in dataset.questions if q.id not in left_out)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackPart:
    """One attack with its label."""

    label: str
    """Name in results."""
    attack: Attack
    """The attack."""
    is_labelled: bool = False
    """True if the user gave the label."""


def load_groups(
    tables: Sequence[config.Entities],
    base: Path,
    datasets: Sequence[DatasetPart],
    note: Note,
    on_vectors: Callable[[int, int], None] | None = None,
) -> list[GroupPart]:
    """Build every entity group: vocabulary, synonyms, vectors of names, keys and spans.

    Raises:
        UsageError: a resource is missing or malformed.
    """
    from medstress.entities.distances import check_types
    from medstress.entities.embeddings import Embedder
    from medstress.entities.perturbations import VectorPerturbationSet
    from medstress.entities.vocabularies import load_synonyms, load_vocabulary

    labels = config.group_labels(tables)
    questions = [item for dataset in datasets for item in dataset.questions]
    parts = []
    for table, label in zip(tables, labels, strict=True):
        types = types_of(table.type)
        check_types(table.distance, types)
        vocabulary = load_vocabulary(table.vocabulary, base, table.column)
        note(f"vectors of {len(vocabulary.names):,} names ({label}, {table.embedding})")
        embedder = Embedder(table.embedding, table.pooling, base=base, choices=table.choices)
        # Synonyms are looked up for the right answers and the entities in them, too.
        needed = {*vocabulary.names, *(item.key_text for item in questions)}
        for item in questions:
            own = (m for m in item.mentions if m.field == item.key)
            needed |= {item.key_text[m.start : m.end] for m in own}
        synonyms = load_synonyms(table.synonyms, base, needed)
        perturbations = VectorPerturbationSet(
            vocabulary, embedder, synonyms, table.distance, base=base
        )
        attackable = [item for item in questions if typed_options(item, types)]
        anchors = list(dict.fromkeys(item.key_text for item in attackable))
        spans = dict.fromkeys(
            item.option(m.field)[m.start : m.end]
            for item in attackable
            for m in item.mentions
            if m.type in types and m.field in item.letters and m.field != item.key
        )
        perturbations.prepare(anchors, list(spans), progress=on_vectors)
        ties = tied_names(label, perturbations, anchors) if embedder.is_sparse else None
        for warning in filter(None, (undefined_names(label, perturbations), ties)):
            note(warning)
        resources = Resources(group=label, types=types, perturbations=perturbations)
        parts.append(
            GroupPart(
                label=label,
                table=table,
                resources=resources,
                perturbations=perturbations,
                ties=ties,
            )
        )
    return parts


_KEYS_LOOKED_AT = 200
"""Right answers that the share of tied names is measured on: enough for a percentage."""
_FEW = 0.005
"""A smaller share of tied names is not worth a warning."""


def tied_names(label: str, perturbations: VectorPerturbationSet, keys: Sequence[str]) -> str | None:
    """Return a warning about names that share nothing with right answers; None if there are none.

    In the embedding `ngram` they are all at the largest distance: 1, or by `euclidean` its root.
    """
    largest = {"cosine": 1.0, "euclidean": math.sqrt(2)}.get(perturbations.distance)
    looked_at = list(dict.fromkeys(keys))[:_KEYS_LOOKED_AT]
    if largest is None or not looked_at:
        return None
    n_tied = sum(int((perturbations.distances(key) >= largest).sum()) for key in looked_at)
    share = n_tied / (len(looked_at) * len(perturbations.names))
    if share < _FEW:
        return None
    return (
        f"group {label!r}: {share:.0%} of the names share nothing with the right answer (a mean) "
        "and are equally far from it by ngram: a draw of far names is a random one among them"
    )


_OPTIONS = {field.name for field in fields(BackendOptions)} - {"base", "task", "timeout_seconds"}


def backend_options(table: config.Victim) -> dict[str, Any]:
    """Return the keys that determine a back end; of `answer_by` only `head` matters."""
    keys = {"backend": table.backend, **table.model_dump(include=_OPTIONS)}
    return {**keys, "answer_by": table.answer_by == "head"}


def open_victims(
    tables: Sequence[config.Victim],
    base: Path,
    note: Note,
    kind: Kind = KINDS[0],
    classes: tuple[str, ...] = (),
    timeout_seconds: float = ANSWER_SECONDS,
    datasets: Sequence[tuple[str, str]] = (),
    *,
    greets: bool = True,
) -> list[Victim]:
    """Open every victim's back end and build its tasks.

    Args:
        tables: the victims.
        base: folder that relative paths start from.
        note: receives what is being opened.
        kind: kind of the items.
        classes: classes of the items (`Kind.classes`).
        timeout_seconds: time limit of one request.
        datasets: (label, name) of each data set, for prompts by data set.
        greets: whether servers have to be there.

    Raises:
        UsageError: the back end cannot do the task, or an extra, model or function is missing.
    """
    victims: list[Victim] = []
    with ExitStack() as opened:
        for table, label in zip(tables, config.victim_labels(tables), strict=True):
            note(f"victim {label} ({table.backend})")
            options = BackendOptions(
                base=base,
                task=kind.task,
                timeout_seconds=timeout_seconds,
                greets=greets,
                **table.model_dump(include=_OPTIONS),
            )
            backend = registry.open_backend(table.backend, options)
            opened.callback(backend.close)
            tasks = kind.tasks(
                VictimRequest(
                    table=table,
                    label=label,
                    base=base,
                    backend=backend,
                    classes=classes,
                    datasets=datasets,
                    examples=partial(draw_examples, table, base, label),
                )
            )
            victims.append(
                Victim(
                    label=label,
                    task=tasks.default,
                    backend=backend,
                    by_dataset=tasks.by_dataset,
                )
            )
        opened.pop_all()  # all could be opened, so they stay open
    return victims


def draw_examples(table: config.Victim, base: Path, label: str) -> tuple[Question, ...]:
    """Draw a victim's examples, and two more in case the item is among them.

    Questions of the same text are drawn once.

    Raises:
        UsageError: `shots` without `shots_from` or the other way round, or too few questions.
    """
    source, n = table.shots_from, table.shots
    if not n and source is None:
        return ()
    if not n or source is None:
        raise UsageError(f"victim {label!r}: shots and shots_from go together: give both")
    name, colon, place = source.partition(":")
    if not colon:
        ending = "table" if Path(source).suffix in (".jsonl", ".parquet") else None
        name, place = (ending, source) if ending else (source, "")
    if name not in registry.installed("datasets"):
        raise UsageError(
            f"victim {label!r}: shots_from = {source!r}: expected 'sample', a .jsonl or .parquet "
            "file, or a data set and its file such as 'medqa:train.jsonl'"
        )
    path = base / Path(place).expanduser() if place else None
    loaded: Loaded = registry.load("datasets", name)(DatasetOptions(path=path))
    distinct: dict[str, Question] = {}
    for question in loaded.items:
        distinct.setdefault(question.question, question)
    if len(distinct) < n + SPARE:
        raise UsageError(
            f"victim {label!r}: shots = {n} needs {n + SPARE} different questions, and "
            f"shots_from = {source!r} holds {len(distinct)}"
        )
    return draw(tuple(distinct.values()), n + SPARE, table.shots_seed)


def make_attacks(tables: Sequence[config.Attack], base: Path | None = None) -> list[AttackPart]:
    """Build the attacks of all tables, with their labels and files.

    Args:
        tables: the attacks.
        base: folder that their relative paths start from; default: the working folder.

    Raises:
        UsageError: an attack has invalid parameters or is not installed.
    """
    entries: list[tuple[str | None, str, Mapping[str, Any]]] = []
    attacks: list[Attack] = []
    for table in tables:
        for n, attack in zip(table.exponents, table.attacks, strict=True):
            attack = attack.with_files(base or Path())
            attacks.append(attack)
            one_of_several = isinstance(table.parameters.get("n"), tuple)
            label = f"{table.label} n={n:g}" if table.label and one_of_several else table.label
            entries.append((label, table.name, attack.label_parameters()))
    labels = config.unique_labels("attack", entries)
    return [
        AttackPart(label=label, attack=attack, is_labelled=given is not None)
        for label, attack, (given, _, _) in zip(labels, attacks, entries, strict=True)
    ]


def undefined_names(label: str, perturbations: VectorPerturbationSet | NoNames) -> str | None:
    """Return a warning about a group's names without a distance; None if there are none."""
    n, total = len(perturbations.undefined), len(perturbations.names)
    if not n:
        return None
    return f"group {label!r}: {n:,} of {total:,} names are {perturbations.lack}: never drawn"


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
    names, drugs = NoNames(), DrugNames()
    if any("drugs" in needs for needs in free):
        from medstress.entities.alike import shipped_drug_names

        drugs = shipped_drug_names()
    resources = Resources(
        group=LABEL,
        types=frozenset(),
        perturbations=names,
        names_in=_names_in if needs_names else None,
        noise=noise,
        drugs=drugs,
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


def _names_in(text: str) -> list[str]:
    """Return the drugs and diseases in a text, found by the shipped gazetteer."""
    from medstress.entities.recognisers import shipped_gazetteer

    (mentions,) = shipped_gazetteer().find([text])
    return [text[mention.start : mention.end] for mention in mentions]


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


def check_kind(
    experiment: config.Experiment,
    attacks: Sequence[AttackPart],
    kind: Kind,
    classes: tuple[str, ...],
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
        kinds, wrong = part.attack.takes, ""
        field = part.attack.field if isinstance(part.attack, Noise) else DEFAULT_FIELD
        if not kind.is_taken(kinds):
            wrong = f"it is for {' and '.join(sorted(kinds))}"
        elif kind.is_judged and part.attack.spec().get("max_change") is not None:
            wrong = "max_change is for scored pairs"
        elif field != DEFAULT_FIELD and not kind.draws_names:
            wrong = f"field = {field!r} is for questions"
        if wrong:
            raise UsageError(f"attack {part.label!r}: {wrong}, but the data are {kind.name}")
    if kind.draws_names:
        if not experiment.entities and any("names" in p.attack.needs for p in attacks):
            raise UsageError("experiment: the table [[entities]] is missing")
        return
    analysis = experiment.analysis
    asks = analysis.transfer or analysis.reuse or analysis.prompt_similarity
    tables = {"entities": experiment.entities, "tune": experiment.tune, "analysis": asks}
    for table, is_there in tables.items():
        if is_there:
            raise UsageError(f"the table [{table}] is for questions, but the data are {kind.name}")
    if experiment.victim:  # classes are what a model answers
        kind.check(classes, ", ".join(table.path or table.name for table in experiment.dataset))
