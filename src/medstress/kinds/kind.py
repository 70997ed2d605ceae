"""What a kind of item is: everything that an experiment has to know about its items.

What concerns one item alone (its candidates, its unit, whether answers about it are judged) is
said by the item itself (`medstress.items.Item`). All else is said here, once for each kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeAlias

from medstress.attacks.noise.texts import Side
from medstress.calls import Backend
from medstress.errors import UsageError
from medstress.items import Item
from medstress.kinds.scores import DatasetScores
from medstress.kinds.victim_keys import VictimKeys
from medstress.outcomes import Prediction
from medstress.tasks.task import AnyTask
from medstress.text import Edit

Marked: TypeAlias = tuple[int, int, str]
"""(first character, one past the last, type) of an entity in a text."""
Words: TypeAlias = tuple[tuple[str, ...], tuple[str, ...]]
"""(tokens, IOB2 labels) of a text, as noise reads it."""
Layout: TypeAlias = Literal["jsonl", "iob", "pairs"]
"""How a file of perturbed items is laid out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """Who is asked, about what: what a kind makes the tasks of a victim from."""

    table: VictimKeys
    """The victim's keys."""
    label: str
    """The victim's, for messages."""
    base: Path
    """Folder that relative paths start from."""
    backend: Backend
    """Who answers."""
    classes: tuple[str, ...] = ()
    """See `Kind.classes`."""
    datasets: Sequence[tuple[str, str]] = ()
    """Label and name of each data set, for prompts by data set."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """What a victim is asked."""

    default: AnyTask
    """About items of any data set that has no task of its own."""
    by_dataset: tuple[tuple[str, AnyTask], ...] = ()
    """Label of a data set, and its task."""


class Kind(ABC):
    """A kind of item. One instance of each kind is registered in `medstress.kinds`.

    Items are of the type `item`; what a trial is about may be a part of one, `unit_type`.
    """

    name: ClassVar[str]
    """As attacks declare it (`AttackTraits.kinds`) and messages say it, in the plural."""
    task: ClassVar[str]
    """What is asked of a back end (`BackendOptions.task`)."""
    tag: ClassVar[str]
    """What stored items are marked with; items without a mark are questions."""
    item: ClassVar[type]
    """The class of its items."""
    unit_type: ClassVar[type | None] = None
    """The class of what trials are about, where that is not the item."""

    draws_names: ClassVar[bool] = False
    """Whether attacks draw names of `[[entities]]` groups; the tables [entities], [tune] and
    [analysis] are for such kinds alone."""
    has_controls: ClassVar[bool] = False
    """Whether `controls = true` adds arms of noise outside entities."""
    keeps_metadata: ClassVar[bool] = True
    """Whether items of a folder keep the metadata that they were first stored with; else a later
    run may name documents."""
    layouts: ClassVar[Mapping[str, Layout]] = {".jsonl": "jsonl"}
    """Ending of a file of perturbed items -> its layout."""

    learner: ClassVar[str | None] = None
    """Where `medstress train` opens a model of this kind, `module:function`; None: not trained."""
    may_be_folded: ClassVar[bool] = False
    """Whether training data may be parted into folds."""
    may_be_vectors: ClassVar[bool] = False
    """Whether a model may be trained that compares vectors (`encoder = "bi_encoder"`)."""

    def is_taken(self, kinds: frozenset[str]) -> bool:
        """Whether an attack that is for some kinds, by name, attacks this one."""
        return self.name in kinds

    # Items

    def units(self, item: Any) -> tuple[Item, ...]:
        """What trials on an item are about; at least one."""
        return (item,)

    def with_unit(self, item: Any, unit: str) -> Item:
        """The unit of a stored item, by its name: the inverse of `Item.unit`."""
        found: Item = item
        return found

    def whole(self, unit: Any) -> Any:
        """The item that a unit is of, as it is stored; an item is its own."""
        return unit

    @abstractmethod
    def encode(self, item: Any) -> dict[str, Any]:
        """An item as JSON values, without the mark of its kind."""

    @abstractmethod
    def decode(self, row: dict[str, Any]) -> Any:
        """The inverse of `encode`."""

    @abstractmethod
    def columns(self, item: Any) -> dict[str, Any]:
        """The columns of an item in exports, beside its id, hash and metadata."""

    @abstractmethod
    def key(self, unit: Any) -> str:
        """What is right, as rows say it: a letter, a label, the type of an entity, a score."""

    def letters(self, unit: Any) -> Sequence[str]:
        """What an answer may be, in the order of scores; empty where answers are no choice."""
        return ()

    def score(self, unit: Any, scores: Sequence[float]) -> float:
        """What rows say of a prediction's scores: P(key) of a choice, else the score itself."""
        return float(scores[0])

    def edited_options(self, unit: Any, edits: Sequence[Edit]) -> frozenset[str] | None:
        """The options that edits change; None where items have none of their own."""
        return None

    @abstractmethod
    def answered(self, unit: Any, *, right: bool) -> Prediction:
        """A prediction such as a victim's would be, to check attacks without one."""

    # What is perturbed

    @abstractmethod
    def changed(self, candidate: Any) -> Any:
        """What a candidate shows as an item of its own; its mentions are left out, as their
        places have moved."""

    @abstractmethod
    def values(self, candidate: Any) -> dict[str, Any]:
        """The fields of a candidate that a reader of its kind needs, beside the id."""

    def edit_row(self, edit: Edit) -> dict[str, Any]:
        """An edit as JSON values."""
        return asdict(edit)

    @abstractmethod
    def words(
        self, item: Any, mentions: Mapping[str, tuple[Marked, ...]], side: Side = "random"
    ) -> Iterable[Words]:
        """The texts of an item that noise may change, as tokens and labels.

        Args:
            item: the item.
            mentions: entities of the texts that `mentions` names.
            side: which of two texts; `random`, which may be either, stands for both.
        """

    def mentions(self, item: Any) -> Mapping[str, tuple[Marked, ...] | None]:
        """Texts of an item whose entities noise looks up: text -> its entities, None where they
        have to be found."""
        return {}

    @abstractmethod
    def characters(self, item: Any) -> int:
        """How long an item is as it is asked, for estimates of tokens."""

    # Data sets and victims

    @property
    def scores(self) -> DatasetScores | None:
        """Scores of whole data sets; None where accuracy says all."""
        return None

    def classes(self, items: Iterable[Any]) -> tuple[str, ...]:
        """What items are sorted into, sorted: entity types, or labels; empty where nothing is."""
        return ()

    def check(self, classes: tuple[str, ...], sources: str) -> None:  # noqa: B027 - most take all
        """Refuse data that nothing can be asked about.

        Args:
            classes: of all items.
            sources: names of the files, for the message.

        Raises:
            UsageError: naming them.
        """

    @abstractmethod
    def tasks(self, asked: Asked) -> Tasks:
        """What a victim is asked; checks what its back end can do.

        Raises:
            UsageError: keys that mean nothing here, or a back end for other tasks.
        """

    @abstractmethod
    def task_from_spec(self, spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> AnyTask:
        """The task that a manifest describes: the inverse of `AnyTask.spec`."""

    def is_described(self, spec: Mapping[str, Any]) -> bool:
        """Whether a task in a manifest is one of this kind."""
        return bool(spec.get("kind") == self.task)

    def trained_victim(self, encoder: str, prompt: str) -> dict[str, Any]:
        """Keys of the `[[victim]]` table of a model that `medstress train` has trained."""
        return {"backend": "transformers"}

    def check_training(self, prompt: str, base: Path) -> None:
        """Refuse what cannot be trained, before anything is loaded.

        Args:
            prompt: that of [train], for kinds that are asked with one.
            base: folder that its path starts from.

        Raises:
            UsageError: no model is trained for this kind, or it does not read the prompt.
        """
        if self.learner is None:
            raise UsageError(f"medstress train trains no model for {self.name}")

    def refuse_keys(self, asked: Asked, *keys: str) -> None:
        """Refuse keys that are for questions.

        Raises:
            UsageError: naming the key.
        """
        for key in keys:
            if getattr(asked.table, key):
                raise UsageError(
                    f"victim {asked.label!r}: {key} is for questions, not for {self.name}"
                )
