"""What a kind of item is: an item class, a reader, a task and scores.

The kinds that come with the package stand at the end; plug-ins register more under the entry point
`medstress.kinds`. The item class says what is asked, edited and right (`core.items.Item`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

from medstress.core import registry
from medstress.core.errors import UsageError
from medstress.core.items import QUESTIONS, TAGGED, Item, Question
from medstress.core.sentences import SentencePair, TaggedText
from medstress.tasks.scores import CORRELATIONS, ENTITIES, Scoring

if TYPE_CHECKING:
    from medstress.tasks.multiple_choice import AnyTask
    from medstress.tasks.victim import Tasks, VictimRequest


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of item. Plug-ins register one under `medstress.kinds`."""

    item: type[Item]
    """The class of its items."""
    task: str
    """What its task is called, by back ends (`BackendOptions.task`) and in `spec()["kind"]`."""
    tasks: Callable[[VictimRequest], Tasks]
    """Builds the tasks of a victim; raises `UsageError` for keys and back ends that do not fit."""
    task_from_spec: Callable[[Mapping[str, Any], Mapping[str, Any] | None], AnyTask]
    """Rebuilds a task from its `spec()` and its prompt (`Template.as_json`), which may be None."""
    read: Callable[[Any], Any] | None = None
    """Reads `[[dataset]] name = NAME`, where NAME is that of the entry point: a function from
    `DatasetOptions` to `Loaded`."""
    scores: Scoring | None = None
    """Scores of whole data sets; None where right and wrong say all."""
    takes: frozenset[str] = frozenset()
    """Other kinds whose attacks fit too, such as those on sentence pairs."""

    @property
    def name(self) -> str:
        """Name in attacks and messages, in the plural."""
        return self.item.kind

    @property
    def is_judged(self) -> bool:
        """Whether an answer about one of its items is right or wrong."""
        return bool(self.item.is_judged)

    @property
    def draws_names(self) -> bool:
        """Whether attacks draw names of `[[entities]]` groups, and noise names a `field`."""
        return self.name == QUESTIONS

    @property
    def has_parts(self) -> bool:
        """Whether trials are about parts of its items, which noise may leave alone."""
        return self.name == TAGGED

    def is_taken(self, kinds: frozenset[str]) -> bool:
        """Return whether an attack on these kinds, given by name, can attack this kind."""
        return not kinds.isdisjoint({self.name, *self.takes})

    def classes(self, items: Iterable[Item]) -> tuple[str, ...]:
        """Return the sorted classes of items: entity types or labels; empty without classes."""
        return tuple(sorted({name for item in items for name in item.classes}))

    def check(self, classes: tuple[str, ...], sources: str) -> None:
        """Refuse tagged texts without any entity.

        Args:
            classes: classes of all items.
            sources: names of the files, for the message.

        Raises:
            UsageError: naming the files.
        """
        if self.has_parts and not classes:
            raise UsageError(
                f"dataset: expected at least one entity in {sources}, got tagged texts with O "
                "alone; give a file with labels B-TYPE and I-TYPE in its last column"
            )


def kind_of_all(items: Iterable[Item]) -> Kind:
    """Return the kind of items that all have the same kind; questions if there are none."""
    return next((kind_named(item.kind) for item in items), CHOICE)


def kind_named(name: str) -> Kind:
    """Return the kind with the name that its items have.

    Raises:
        UsageError: no kind has it, or a plug-in cannot be loaded.
    """
    return _first(lambda kind: kind.name == name, f"items of the kind {name!r} belong to")


def kind_described(spec: Mapping[str, Any]) -> Kind:
    """Return the kind of a task in a manifest; tasks of questions do not say their kind.

    Raises:
        UsageError: no kind has it, or a plug-in cannot be loaded.
    """
    task = spec.get("kind", CHOICE.task)
    return _first(lambda kind: kind.task == task, f"the task {task!r} belongs to")


def _first(is_wanted: Callable[[Kind], bool], what: str) -> Kind:
    for kind in KINDS:  # before the plug-ins, which take long to list
        if is_wanted(kind):
            return kind
    for kind in map(_plugged_in, registry.installed("kinds")):
        if is_wanted(kind):
            return kind
    raise UsageError(f"{what} no kind that is installed here; install the plug-in that brings it")


@cache
def _plugged_in(name: str) -> Kind:
    kind = registry.load("kinds", name)
    if not isinstance(kind, Kind):
        raise UsageError(f"kind {name!r}: expected a medstress.plugin.Kind, got {kind!r}")
    return kind


# -- those that come with the package; what is heavy is imported when a victim is opened ---------
def choice_tasks(request: VictimRequest) -> Tasks:
    """Return the tasks of a victim of questions, as its keys say; of others too, asked as such."""
    from medstress.tasks.victim import prompted_tasks

    return prompted_tasks(request)


def choice_from_spec(spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> AnyTask:
    """Rebuild a task of questions."""
    from medstress.tasks.templates import stored_template
    from medstress.tasks.wrappers import task_from_spec

    assert prompt is not None
    return task_from_spec(spec, stored_template(prompt))


def _tagging(request: VictimRequest) -> Tasks:
    from medstress.tasks.sentences import EntityTagging
    from medstress.tasks.victim import Tasks

    request.refuse(TAGGING.name, "answer_by", "shots_from", "wrap")
    traits = request.backend.traits
    if "tag" not in traits.calls:
        raise request.cannot(TAGGING.name, "; use transformers, python or spacy")
    task = EntityTagging(types=request.classes, names=request.table.labels or {})
    task.check(request.label, traits.labels)
    return Tasks(default=task)


def _rebuilt_tagging(spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> AnyTask:
    from medstress.tasks.sentences import EntityTagging

    return EntityTagging(types=tuple(spec["types"]), names=spec["names"])


def _similarity(request: VictimRequest) -> Tasks:
    from medstress.tasks.sentences import Similarity
    from medstress.tasks.victim import Tasks

    request.refuse(SIMILARITY.name, "answer_by", "shots_from", "wrap")
    if "compare" not in request.backend.traits.calls:
        raise request.cannot(SIMILARITY.name, "; use transformers, python or sentence_transformers")
    return Tasks(default=Similarity())


def _rebuilt_similarity(spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> AnyTask:
    from medstress.tasks.sentences import Similarity

    return Similarity()


CHOICE = Kind(
    item=Question, task="multiple_choice", tasks=choice_tasks, task_from_spec=choice_from_spec
)
TAGGING = Kind(
    item=TaggedText, task="ner", tasks=_tagging, task_from_spec=_rebuilt_tagging, scores=ENTITIES
)
SIMILARITY = Kind(
    item=SentencePair,
    task="similarity",
    tasks=_similarity,
    task_from_spec=_rebuilt_similarity,
    scores=CORRELATIONS,
)
KINDS: tuple[Kind, ...] = (CHOICE, TAGGING, SIMILARITY)
