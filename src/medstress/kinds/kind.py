"""A kind of item: everything that an experiment has to know about its items.

An item itself knows what readers of a run need: its candidates, units, texts and right answer, and
how it is stored (`medstress.core.items.Item`, `StoredItem`). A kind defines everything else.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from medstress.attacks.noise.texts import Field, Side
from medstress.core.calls import Backend
from medstress.core.errors import UsageError
from medstress.core.outcomes import Prediction
from medstress.core.text import Edit
from medstress.kinds.victim_keys import VictimKeys
from medstress.tasks.task import AnyTask

Marked: TypeAlias = tuple[int, int, str]
"""(first character, one past the last, type) of an entity in a text."""
Words: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""(tokens, IOB2 labels) of a text, as noise reads it."""
Layout: TypeAlias = Literal["jsonl", "iob", "pairs"]
"""Layout of a file of perturbed items."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VictimRequest:
    """A victim and the data it is asked about, from which a kind builds the victim's tasks."""

    table: VictimKeys
    """The victim's keys."""
    label: str
    """The victim's label, for messages."""
    base: Path
    """Folder that relative paths start from."""
    backend: Backend
    """Answers the victim's calls."""
    classes: tuple[str, ...] = ()
    """See `Kind.classes`."""
    datasets: Sequence[tuple[str, str]] = ()
    """(label, name) of each data set, for prompts by data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """The tasks of a victim."""

    default: AnyTask
    """Task for data sets without a task of their own."""
    by_dataset: tuple[tuple[str, AnyTask], ...] = ()
    """(label, task) of each data set with a task of its own."""


class Kind(ABC):
    """A kind of item. One instance of each kind is registered in `medstress.kinds`.

    Items have the type `item`. A trial is about a unit: the item, or a part of it of type
    `unit_type`.
    """

    name: ClassVar[str]
    """Name in attacks (`AttackTraits.item_kinds`) and messages, in the plural."""
    task: ClassVar[str]
    """Task of a back end (`BackendOptions.task`)."""
    item: ClassVar[type]
    """The class of its items."""
    unit_type: ClassVar[type | None] = None
    """The class of its units, if they are not items."""

    draws_names: ClassVar[bool] = False
    """True if attacks draw names of `[[entities]]` groups; only such kinds have the tables
    [entities], [tune] and [analysis]."""
    has_fields: ClassVar[bool] = False
    """True if the key `field` of noise says which text is perturbed."""
    has_controls: ClassVar[bool] = False
    """True if `controls = true` adds arms of noise outside entities."""
    keeps_metadata: ClassVar[bool] = True
    """True if items of a folder keep their first metadata; False if a later run may name
    documents."""
    layouts: ClassVar[Mapping[str, Layout]] = {".jsonl": "jsonl"}
    """Extension of a file of perturbed items -> its layout."""

    learner: ClassVar[str | None] = None
    """`module:function` that opens a model to train; None: no model is trained."""
    may_be_folded: ClassVar[bool] = False
    """True if training data may be split into folds."""
    may_be_vectors: ClassVar[bool] = False
    """True if a model that compares vectors may be trained (`encoder = "bi_encoder"`)."""

    def is_taken(self, kinds: frozenset[str]) -> bool:
        """Return whether an attack on these kinds, given by name, can attack this kind."""
        return self.name in kinds

    @property
    def is_judged(self) -> bool:
        """Whether an answer about one of its items is right or wrong."""
        asked: Any = self.unit_type or self.item
        judged: bool = asked.is_judged
        return judged

    # Items

    def shown(self, item: Any) -> Mapping[str, str]:
        """Return the texts of an item by name, for people to read."""
        return dict(item.texts)

    def edited_options(self, unit: Any, edits: Sequence[Edit]) -> frozenset[str] | None:
        """Return the options that edits change; None if items have no options."""
        return None

    @abstractmethod
    def answered(self, unit: Any, *, right: bool) -> Prediction:
        """Return a made-up prediction, to check attacks without a victim."""

    # What is perturbed

    @abstractmethod
    def changed(self, candidate: Any) -> Any:
        """Return a candidate as a new item, without mentions, because their places have moved."""

    @abstractmethod
    def values(self, candidate: Any) -> dict[str, Any]:
        """Return the fields of a candidate that a reader of its kind needs, without the id."""

    def edit_row(self, edit: Edit) -> dict[str, Any]:
        """Return an edit as JSON values."""
        return asdict(edit)

    @abstractmethod
    def words(
        self,
        item: Any,
        mentions: Mapping[str, tuple[Marked, ...]],
        side: Side = "random",
        field: Field | None = None,
    ) -> Iterable[Words]:
        """Return the texts of an item that noise may change, as tokens and labels.

        Args:
            item: the item.
            mentions: entities of the texts that `mentions` names.
            side: which of two texts; `random` gives both.
            field: which text of a question; None gives all but the options, which are no sentences.
        """

    def mentions(self, item: Any) -> Mapping[str, tuple[Marked, ...] | None]:
        """Return the texts whose entities noise looks up: text -> entities, None to find."""
        return {}

    # Data sets and victims

    def classes(self, items: Iterable[Any]) -> tuple[str, ...]:
        """Return the sorted classes of items: entity types or labels; empty without classes."""
        return ()

    def check(self, classes: tuple[str, ...], sources: str) -> None:  # noqa: B027 - most take all
        """Check that victims can be asked about the data.

        Args:
            classes: classes of all items.
            sources: names of the files, for the message.

        Raises:
            UsageError: they cannot; the message names the files.
        """

    @abstractmethod
    def tasks(self, asked: VictimRequest) -> Tasks:
        """Build the tasks of a victim and check that its back end can do them.

        Raises:
            UsageError: a key does not apply to this kind, or the back end is for other tasks.
        """

    @abstractmethod
    def task_from_spec(self, spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> AnyTask:
        """Rebuild a task from a manifest: the inverse of `AnyTask.spec`."""

    def is_described(self, spec: Mapping[str, Any]) -> bool:
        """Return whether a task in a manifest has this kind."""
        return bool(spec.get("kind") == self.task)

    def trained_victim(self, encoder: str, prompt: str) -> dict[str, Any]:
        """Return the keys of the `[[victim]]` table of a model trained by `medstress train`."""
        return {"backend": "transformers"}

    def check_training(self, prompt: str, base: Path) -> None:
        """Check that a model can be trained, before anything is loaded.

        Args:
            prompt: the prompt of [train], for kinds with prompts.
            base: folder that its path starts from.

        Raises:
            UsageError: this kind trains no model, or its model cannot use the prompt.
        """
        if self.learner is None:
            raise UsageError(f"medstress train trains no model for {self.name}")

    def refuse_keys(self, asked: VictimRequest, *keys: str) -> None:
        """Refuse keys that are only for questions.

        Raises:
            UsageError: a key is set; the message names it.
        """
        for key in keys:
            if getattr(asked.table, key):
                raise UsageError(
                    f"victim {asked.label!r}: {key} is for questions, not for {self.name}"
                )
