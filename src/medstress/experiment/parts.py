"""From checked tables to parts: data sets, entity groups, victims, attacks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from medstress import registry
from medstress.attacks.protocol import Attack, AttackTraits
from medstress.backends.llama_cpp import NO_TEXT
from medstress.backends.options import ANSWER_SECONDS, BackendOptions
from medstress.calls import Backend, Decoding
from medstress.datasets.draw import draw, draw_documents
from medstress.datasets.source import DatasetOptions, Loaded, LoadedTexts
from medstress.entities.grouping import typed_options
from medstress.entities.no_names import NoNames
from medstress.errors import UsageError
from medstress.experiment.config import (
    AttackTable,
    DatasetTable,
    EntitiesTable,
    Experiment,
    VictimTable,
)
from medstress.experiment.examples import draw_examples
from medstress.experiment.labels import unique_labels, victim_labels
from medstress.experiment.recognising import group_labels
from medstress.experiment.texts_to_embed import key_texts, texts_to_embed
from medstress.experiment.victim_prompts import prompt_for
from medstress.hashing import content_hash
from medstress.items import Question
from medstress.resources import Resources
from medstress.tasks.multiple_choice import AnswerBy, MultipleChoice, TextScore
from medstress.tasks.parsers import DEFAULT as DEFAULT_PARSER
from medstress.tasks.task import Task
from medstress.tasks.templates import load_template
from medstress.tasks.wrapping import wrapped
from medstress.victim import Victim

if TYPE_CHECKING:
    from medstress.entities.perturbations import VectorPerturbationSet
    from medstress.experiment.sentence_groups import Asked

_CALLS = {
    AnswerBy.LETTER: "score",
    AnswerBy.TEXT: "score",
    AnswerBy.GENERATE: "generate",
    AnswerBy.HEAD: "rank",
}
"""The kind of call each way of answering makes."""

Note = Callable[[str], None]
"""Told what is being prepared, for displays."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetPart:
    """One data set, loaded and drawn."""

    label: str
    """Name in results."""
    questions: tuple[Any, ...]
    """The items after the limit: questions, tagged texts or sentence pairs."""
    loaded: Loaded | LoadedTexts
    """Everything the source gave, with skipped rows."""
    sample_seed: int = 0
    """Which samples are drawn of it, the groups' too: smaller ones lie inside larger ones."""

    @property
    def all_items(self) -> tuple[Any, ...]:
        """The items before the limit."""
        return self.loaded.questions if isinstance(self.loaded, Loaded) else self.loaded.items


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupPart:
    """One entity group, with its vectors."""

    label: str
    """Name in results."""
    table: EntitiesTable | None
    """As configured; None for the group of attacks that draw no names."""
    resources: Resources
    """What attacks on it may read."""
    perturbations: VectorPerturbationSet | NoNames
    """The same set, with its hash."""

    @property
    def fingerprint(self) -> str:
        """Hash of what attacks may read."""
        return content_hash([sorted(self.resources.types), self.perturbations.hash])

    @property
    def remark(self) -> str | None:
        """How many names have no distance, or None where all have."""
        return undefined_names(self.label, self.perturbations)

    def describe(self) -> dict[str, Any]:
        """What the manifest says of it."""
        if self.table is None or isinstance(self.perturbations, NoNames):
            return {"n_names": 0, "hash": self.perturbations.hash}
        return {
            "vocabulary": self.table.vocabulary,
            "n_names": len(self.perturbations.names),
            "vocabulary_hash": self.perturbations.vocabulary.hash,
            "embedding": self.table.embedding,
            "distance": self.table.distance,
            "n_undefined": len(self.perturbations.undefined),
            "undefined": self.remark,
            "hash": self.perturbations.hash,
        }

    def items(self, dataset: DatasetPart) -> tuple[Any, ...]:
        """The items its trials run over."""
        return select_items(dataset, self)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttackPart:
    """One attack under its label."""

    label: str
    """Name in results."""
    attack: Attack
    """The attack."""
    is_labelled: bool = False
    """Whether the user named it."""
    traits: AttackTraits = field(init=False, repr=False, compare=False)
    """What the attack declares; asked once, as every trial needs it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "traits", self.attack.traits)


def load_datasets(
    tables: Sequence[DatasetTable], base: Path, limit: int | None
) -> list[DatasetPart]:
    """Load and draw every data set; `limit` caps each one (the command line's --limit)."""
    labels = unique_labels(
        "dataset",
        [(t.label, t.name, t.model_dump(exclude={"name", "label", "use"})) for t in tables],
    )
    parts = []
    for table, label in zip(tables, labels, strict=True):
        loaded = registry.load("datasets", table.name)(dataset_options(table, base))
        seed = table.sample_seed
        whole = DatasetPart(label=label, questions=(), loaded=loaded, sample_seed=seed)
        limits = [value for value in (table.limit, limit) if value is not None]
        documents = draw_documents(whole.all_items, table.limit_documents, seed)
        drawn = draw(documents, min(limits, default=None), seed)
        parts.append(replace(whole, questions=drawn))
    return parts


def dataset_options(table: DatasetTable, base: Path) -> DatasetOptions:
    """What a source of items is given; relative paths start from `base`."""
    return DatasetOptions(
        path=_path(base, table.path),
        annotations=_path(base, table.annotations),
        split=table.split,
        on_bad_row=table.on_bad_row,
        hub=table.hub,
        on_bad_labels=table.on_bad_labels,
        types=table.types,
        scheme=table.scheme,
        columns=table.columns or {},
        scale=table.scale,
        documents=_path(base, table.documents),
    )


def load_groups(
    tables: Sequence[EntitiesTable],
    base: Path,
    datasets: Sequence[DatasetPart],
    note: Note,
    on_vectors: Callable[[int, int], None] | None = None,
) -> list[GroupPart]:
    """Build every entity group: vocabulary, synonyms, vectors of names, keys and spans.

    Raises:
        UsageError: a part is missing or malformed.
    """
    from medstress.entities.distances import check_types
    from medstress.entities.embeddings import Embedder
    from medstress.entities.perturbations import VectorPerturbationSet
    from medstress.entities.semantic_types import types_of
    from medstress.entities.synonyms import load_synonyms
    from medstress.entities.vocabularies import load_vocabulary

    labels = group_labels(tables)
    questions = [item for dataset in datasets for item in dataset.questions]
    parts = []
    for table, label in zip(tables, labels, strict=True):
        types = types_of(table.type)
        check_types(table.distance, types)
        vocabulary = load_vocabulary(table.vocabulary, base, table.column)
        note(f"vectors of {len(vocabulary.names):,} names ({label}, {table.embedding})")
        embedder = Embedder(
            table.embedding,
            table.pooling,
            corpus=vocabulary.names,
            base=base,
            choices=table.choices,
        )
        needed = {*vocabulary.names, *key_texts(questions)}
        synonyms = load_synonyms(table.synonyms, base, needed)
        perturbations = VectorPerturbationSet(
            vocabulary, embedder, synonyms, table.distance, base=base
        )
        perturbations.prepare(*texts_to_embed(questions, types), progress=on_vectors)
        if told := undefined_names(label, perturbations):
            note(told)
        resources = Resources(group=label, types=types, perturbations=perturbations)
        parts.append(
            GroupPart(label=label, table=table, resources=resources, perturbations=perturbations)
        )
    return parts


def open_victims(
    tables: Sequence[VictimTable],
    base: Path,
    note: Note,
    asked: Asked | None = None,
    timeout_seconds: float = ANSWER_SECONDS,
    datasets: Sequence[tuple[str, str]] = (),
) -> list[Victim]:
    """Open every victim's back end, for items that ask questions by default.

    Args:
        tables: the victims.
        base: folder that relative paths start from.
        note: told what is opened.
        asked: what the items ask; default: questions.
        timeout_seconds: of one request.
        datasets: label and name of each, for prompts by data set.

    Raises:
        UsageError: a combination the back end cannot do, or a missing extra, model or function.
    """
    victims: list[Victim] = []
    names = {field.name for field in fields(BackendOptions)} - {"base", "task", "timeout_seconds"}
    with ExitStack() as opened:
        for table, label in zip(tables, victim_labels(tables), strict=True):
            note(f"victim {label} ({table.backend})")
            task = asked.task if asked is not None else "multiple_choice"
            given = table.model_dump(include=names)
            options = BackendOptions(base=base, task=task, timeout_seconds=timeout_seconds, **given)
            backend = registry.open_backend(table.backend, options)
            opened.callback(backend.close)
            if asked is not None and asked.task != "multiple_choice":
                tagging = asked.task_of(table, backend, label)
                victims.append(Victim(label=label, task=tagging, backend=backend))
                continue
            victims.append(_prompted(table, base, backend, label, datasets))
        opened.pop_all()  # all of them can be used: they stay open
    return victims


def _prompted(
    table: VictimTable,
    base: Path,
    backend: Backend,
    label: str,
    datasets: Sequence[tuple[str, str]],
) -> Victim:
    """A victim that is asked questions, with a task of its own for data sets that have a prompt."""
    examples = draw_examples(table, base, label)

    def task(prompt: str) -> Task:
        own = task_of(table, base, backend.traits.calls, label, prompt)
        return wrapped(own, table.wrap, base, label, examples)

    default = prompt_for(table.prompt)
    prompts = {dataset: prompt_for(table.prompt, dataset, name) for dataset, name in datasets}
    return Victim(
        label=label,
        task=task(default),
        backend=backend,
        by_dataset=tuple((d, task(name)) for d, name in prompts.items() if name != default),
    )


def task_of(
    table: VictimTable, base: Path, kinds: frozenset[str], label: str, prompt: str | None = None
) -> MultipleChoice:
    """The multiple-choice task of a victim; checks what its back end can do.

    `prompt` is one of the table's; default: that for data sets which the table does not name.
    """
    prompt = prompt or prompt_for(table.prompt)
    template = load_template(prompt, base)
    parser = table.parser or DEFAULT_PARSER
    is_function = "choose" in kinds and "score" not in kinds
    if is_function or (table.answer_by is None and "choose" in kinds):
        if table.answer_by is not None:
            raise UsageError(
                f"victim {label!r}: answer_by is not for functions, which answer as they like; "
                "leave it out"
            )
        return MultipleChoice(template=template, answer_by=AnswerBy.CHOICE, parser=parser)
    answer_by = AnswerBy(table.answer_by or "letter")
    if _CALLS[answer_by] not in kinds:
        raise UsageError(
            f"victim {label!r}: backend {table.backend!r} cannot answer by {answer_by.value}"
        )
    if answer_by is AnswerBy.HEAD and (template.lists_options or template.chat):
        raise UsageError(
            f"victim {label!r}: a head reads the question and one option at a time, and prompt "
            f"{prompt!r} {'lists the options' if template.lists_options else 'is a chat'}; "
            'use prompt = "question" or a plain template with lists_options = false'
        )
    if answer_by is AnswerBy.TEXT and template.chat and table.backend == "openai":
        raise UsageError(
            f"victim {label!r}: servers give no log probabilities of a conversation, which prompt "
            f'{prompt!r} is, so answer_by = "text" needs a prompt that is plain text'
        )
    if answer_by is AnswerBy.TEXT and table.backend == "llama_cpp":
        raise UsageError(f"victim {label!r}: {NO_TEXT}")
    if answer_by not in (AnswerBy.TEXT, AnswerBy.HEAD) and not template.lists_options:
        raise UsageError(
            f"victim {label!r}: prompt {prompt!r} does not list the options, so only "
            'answer_by = "text" or "head" makes sense with it'
        )
    return MultipleChoice(
        template=template,
        answer_by=answer_by,
        text_score=TextScore(table.text_score),
        parser=parser,
        decoding=Decoding(max_new_tokens=table.max_new_tokens, temperature=table.temperature),
        reasoning_tokens=table.reasoning_tokens,
    )


def make_attacks(tables: Sequence[AttackTable], base: Path | None = None) -> list[AttackPart]:
    """The attacks of all tables under their labels, with the files that they read.

    Args:
        tables: the attacks.
        base: folder that files of theirs are relative to; default: the working folder.

    Raises:
        UsageError: an attack refuses its parameters, or is not installed.
    """
    entries: list[tuple[str | None, str, dict[str, Any]]] = []
    attacks: list[Attack] = []
    for table in tables:
        for n, attack in zip(table.exponents, table.attacks, strict=True):
            attack = attack.with_files(base or Path())
            attacks.append(attack)
            one_of_several = isinstance(table.parameters.get("n"), list)
            label = f"{table.label} n={n:g}" if table.label and one_of_several else table.label
            entries.append((label, table.name, attack.label_parameters()))
    labels = unique_labels("attack", entries)
    return [
        AttackPart(label=label, attack=attack, is_labelled=given is not None)
        for label, attack, (given, _, _) in zip(labels, attacks, entries, strict=True)
    ]


def undefined_names(label: str, perturbations: VectorPerturbationSet | NoNames) -> str | None:
    """Say how many names of a group have no distance, or None where all have."""
    n, total = len(perturbations.undefined), len(perturbations.names)
    if not n:
        return None
    return f"group {label!r}: {n:,} of {total:,} names are {perturbations.lack}: never drawn"


def select_items(dataset: DatasetPart, group: GroupPart) -> tuple[Question, ...]:
    """The items a group's trials run over: all, or the attackable ones drawn up to its limit.

    Items that are not attackable stay in, so that they are counted; they are never asked.
    """
    if group.table is None or group.table.limit is None:
        return dataset.questions
    attackable = [item for item in dataset.questions if _has_span(item, group.resources.types)]
    drawn = {item.id for item in draw(attackable, group.table.limit, dataset.sample_seed)}
    left_out = {item.id for item in attackable} - drawn
    return tuple(item for item in dataset.questions if item.id not in left_out)


def used_tables(experiment: Experiment) -> dict[str, Any]:
    """The completed configuration as JSON values, without what is unset."""
    return experiment.model_dump(mode="json", exclude_none=True)


def _has_span(item: Question, types: frozenset[str]) -> bool:
    return bool(typed_options(item, types))


def _path(base: Path, given: str | None) -> Path | None:
    return None if given is None else base / Path(given).expanduser()
