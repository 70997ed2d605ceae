"""What a kind of item is: an item class, a reader, a task and scores.

The kinds that come with the package stand at the end; plug-ins register more under the entry point
`medstress.kinds`. The item class says what is asked, edited and right (`core.items.Item`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any

from medstress.core import registry
from medstress.core.calls import Compare, Compared, Request, Tag, Tagged
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import OUTSIDE, QUESTIONS, TAGGED, EditedTexts, Item, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.sentences import (
    SentencePair,
    TaggedCandidate,
    TaggedText,
    are_bare,
    entities_of,
)
from medstress.tasks.scores import CORRELATIONS, ENTITIES, Scoring

if TYPE_CHECKING:
    from medstress.tasks.multiple_choice import AnyTask, Flow
    from medstress.tasks.victim import Tasks, VictimRequest


@dataclass(frozen=True, kw_only=True)
class EntityTagging:
    """The task of a victim that labels tokens.

    An entity is found if the victim marks exactly its tokens with its type (strict match). A mark
    of a type that the data do not annotate is a false alarm, as in seqeval, unless `names` calls
    it O. Marks without a type (B, I) are of the data's only type.
    """

    types: tuple[str, ...]
    """The types that the data annotate, sorted."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The victim's type -> the data's type, where they differ; O leaves its marks out."""

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints."""
        return {"kind": "ner", "types": list(self.types), "names": dict(sorted(self.names.items()))}

    def listing(self, candidate: TaggedCandidate) -> str:
        """Return the sentence, tokens joined by spaces."""
        return " ".join(candidate.tokens)

    def flow(self, candidate: TaggedCandidate) -> Flow:
        """Ask for the labels of one candidate, and look for its entity."""
        (reply,) = yield (Request(Tag(candidate.tokens)),)
        assert isinstance(reply, Tagged)
        if len(reply.labels) != len(candidate.tokens):
            raise UsageError(
                f"the model returned {len(reply.labels)} labels for the {len(candidate.tokens)} "
                f"words of {self.listing(candidate)[:60]!r}; expected one for each word"
            )
        labels = self.read(reply.labels)
        entity = candidate.entity
        if entity is None:
            # Without an entity, what the victim marks only counts for precision.
            return Prediction(outcome=Outcome.RIGHT, answer=None, text=" ".join(labels))
        is_marked = entity in entities_of(labels)
        return Prediction(
            outcome=Outcome.RIGHT if is_marked else Outcome.WRONG,
            answer=" ".join(labels[entity.start : entity.end]),
            text=" ".join(labels),
        )

    def read(self, labels: Sequence[str]) -> list[str]:
        """Translate a victim's labels to the types of the data.

        Raises:
            UsageError: a mark without a type may be of several.
        """
        read = []
        for label in labels:
            # Types of the data are one word, a victim's need not be.
            type_ = "_".join(self.type_of(label).split())
            read.append(OUTSIDE if type_ in ("", OUTSIDE) else f"{label[0]}-{type_}")
        return read

    def type_of(self, label: str) -> str:
        """Return the type that a victim's label means, by the data's names; empty or O for none."""
        if label == OUTSIDE or len(label) > 1:
            return self.names.get(label[2:], label[2:])
        if len(self.types) > 1:
            raise UsageError(
                f"the model marks {label!r} without a type, and the data have the types "
                f"{', '.join(self.types)}: keep one of them with types in [[dataset]], as in types "
                f'= ["{self.types[0]}"]'
            )
        return self.types[0] if self.types else ""

    def check(self, victim: str, labels: Sequence[str]) -> None:
        """Check that a model's labels cover the types of the data.

        Args:
            victim: its label, for the message.
            labels: the model's labels; empty if it declares none.

        Raises:
            UsageError: a label is not IOB, or a type of the data is missing; names both.
        """
        theirs = [label for label in labels if label != OUTSIDE]
        data = ", ".join(self.types)
        if are_bare(theirs, "iob2"):
            self.read(theirs)
            return
        for label in theirs:
            if label[:2] not in ("B-", "I-") or not label[2:]:
                raise UsageError(
                    f"model {victim!r}: its labels are {', '.join(labels)}, and the data's types "
                    f"are {data}; expected IOB labels such as 'B-{self.types[0]}': set id2label in "
                    "the model's config.json"
                )
        types = sorted({label[2:] for label in theirs})
        if not types:
            return
        for name in self.names:
            if name not in types:
                raise UsageError(
                    f"model {victim!r}: labels: it has no type {name!r}"
                    f"{did_you_mean(name, types)} (it has: {', '.join(types)})"
                )
        used = {self.names.get(type_, type_) for type_ in types}
        if missing := [type_ for type_ in self.types if type_ not in used]:
            raise UsageError(
                f"model {victim!r} knows the types {', '.join(types)}, and the data's types are "
                f"{data}: say which of its types is {missing[0]!r}, e.g. "
                f'labels = {{"{types[0]}" = "{missing[0]}"}}, or take another model'
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Similarity:
    """The task of a victim that scores pairs.

    Every answer counts as right, because no distance from the gold score is defined as wrong.
    """

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints."""
        return {"kind": "similarity"}

    def listing(self, candidate: EditedTexts) -> str:
        """Return both texts, one on each line."""
        return "\n".join(candidate.texts.values())

    def flow(self, candidate: EditedTexts) -> Flow:
        """Ask for the similarity of one candidate."""
        (reply,) = yield (Request(Compare(*candidate.texts.values())),)
        assert isinstance(reply, Compared)
        return Prediction(outcome=Outcome.RIGHT, answer=None, scores=(reply.score,))


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
                f"dataset: expected at least one entity in {sources}, got tagged texts without "
                "one; give data in which some are marked"
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


def _asked_once(
    request: VictimRequest, task: AnyTask, kind: Kind, call: str, backends: str
) -> Tasks:
    """Return a task without a prompt as the tasks of a victim that can do it."""
    from medstress.tasks.victim import Tasks

    request.refuse(kind.name, "answer_by", "shots_from", "wrap")
    if call not in request.backend.traits.calls:
        raise request.cannot(kind.name, f"; use transformers, python or {backends}")
    return Tasks(default=task)


def _tagging(request: VictimRequest) -> Tasks:
    task = EntityTagging(types=request.classes, names=request.table.labels or {})
    tasks = _asked_once(request, task, TAGGING, "tag", "spacy")
    task.check(request.label, request.backend.traits.labels)
    return tasks


def _similarity(request: VictimRequest) -> Tasks:
    return _asked_once(request, Similarity(), SIMILARITY, "compare", "sentence_transformers")


CHOICE = Kind(
    item=Question, task="multiple_choice", tasks=choice_tasks, task_from_spec=choice_from_spec
)
TAGGING = Kind(
    item=TaggedText,
    task="ner",
    tasks=_tagging,
    task_from_spec=lambda spec, _: EntityTagging(types=tuple(spec["types"]), names=spec["names"]),
    scores=ENTITIES,
)
SIMILARITY = Kind(
    item=SentencePair,
    task="similarity",
    tasks=_similarity,
    task_from_spec=lambda *_: Similarity(),
    scores=CORRELATIONS,
)
KINDS: tuple[Kind, ...] = (CHOICE, TAGGING, SIMILARITY)
