"""Items that are no questions: a sentence with IOB2 labels, and a pair of texts with a score.

Their candidates are an item plus edits, as for questions; tokens, labels and texts are derived. An
edit of a tagged text has the field `tokens`, its offsets count tokens, and its replacement is the
new tokens joined by spaces. An edit of a pair has the field `text_a` or `text_b`, in characters.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeAlias

from medstress.core.errors import DataError
from medstress.core.hashing import content_hash
from medstress.core.items import OUTSIDE as OUTSIDE
from medstress.core.items import PAIRS, TAGGED, Item, Marked, Texts, Words
from medstress.core.text import WHOLE, Edit

if TYPE_CHECKING:
    from numpy.random import Generator


TOKENS = "tokens"
"""The field of edits of tagged texts."""


@dataclass(frozen=True, kw_only=True)
class Entity:
    """A typed entity of a tagged text, in tokens."""

    start: int
    """First token."""
    end: int
    """One past the last token."""
    type: str
    """What follows ``B-`` in its labels."""


@dataclass(frozen=True, kw_only=True)
class TaggedText(Item):
    """A tokenised sentence with one IOB2 label a token; never mutated.

    A trial is about one of its gold entities: the same sentence with `entity` set.
    """

    kind: ClassVar[str] = TAGGED

    id: str
    """Unique within its data set."""
    tokens: tuple[str, ...]
    """At least one; none is empty or holds white space."""
    labels: tuple[str, ...]
    """``O``, ``B-TYPE`` or ``I-TYPE``, one a token; an I- continues an entity of its type."""
    entity: Entity | None = None
    """What a trial is about; None for the whole sentence, and for one without any entity."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Further fields of the source, such as the document."""

    def __post_init__(self) -> None:
        check_tagged_text(self)

    @cached_property
    def entities(self) -> tuple[Entity, ...]:
        """The gold entities, in order.

        >>> item = TaggedText(id="1", tokens=("Take", "salicylic", "acid"),
        ...                   labels=("O", "B-Chemical", "I-Chemical"))
        >>> item.entities
        (Entity(start=1, end=3, type='Chemical'),)
        """
        return entities_of(self.labels)

    @cached_property
    def hash(self) -> str:
        """Content hash over tokens and labels."""
        return content_hash([self.tokens, self.labels])

    @property
    def key(self) -> str:
        """The type of the entity; empty without one."""
        return "" if self.entity is None else self.entity.type

    @property
    def texts(self) -> dict[str, str]:
        """None: edits count tokens."""
        return {}

    @property
    def classes(self) -> tuple[str, ...]:
        """The types of its entities."""
        return tuple({label[2:] for label in self.labels if len(label) > 2})

    def candidate(self, edits: tuple[Edit, ...] = ()) -> TaggedCandidate:
        """The sentence with edits, and the entity in it."""
        return TaggedCandidate(item=self, edits=edits)

    def replaced(self, edit: Edit) -> str:
        """What an edit replaces, tokens joined by spaces."""
        return " ".join(self.tokens[edit.start : edit.end])

    def shown(self) -> dict[str, str]:
        """The sentence, and its entities with their types.

        >>> labels = ("O", "B-Drug")
        >>> TaggedText(id="1", tokens=("no", "aspirin"), labels=labels).shown()
        {'text': 'no aspirin', 'entities': 'aspirin (Drug)'}
        """
        entities = (f"{' '.join(self.tokens[e.start : e.end])} ({e.type})" for e in self.entities)
        return {"text": " ".join(self.tokens), "entities": "; ".join(entities)}

    def changed(self, edits: tuple[Edit, ...]) -> TaggedText:
        """The whole sentence with its new tokens and their labels."""
        new = self.candidate(edits)
        return replace(self, tokens=new.tokens, labels=new.labels, entity=None)

    def words(
        self,
        mentions: Mapping[str, tuple[Marked, ...]],
        field: str | None = None,
        side: str | None = None,
        rng: Generator | None = None,
    ) -> Iterator[Words]:
        """The sentence itself, whichever entity is meant."""
        yield Words(field=TOKENS, tokens=self.tokens, labels=self.labels)

    def lacks_words(self, field: str) -> str | None:
        """A sentence without an entity is only perturbed as a part of its data set."""
        return None if self.entity or self.entities else "the sentence has no gold entity"

    def nearest_first(self, edits: Sequence[Edit]) -> list[Edit]:
        """Sort edits: those in the entity first, then the nearest to it."""
        e = self.entity
        if e is None:
            return list(edits)
        return sorted(
            edits, key=lambda x: (max(e.start - x.end + 1, x.start - e.end + 1, 0), x.start)
        )

    @property
    def unit(self) -> str:
        """First token, one past the last, and type of the entity: `3:5:Chemical`."""
        e = self.entity
        return WHOLE if e is None else f"{e.start}:{e.end}:{e.type}"

    @property
    def whole(self) -> TaggedText:
        """The sentence."""
        return self._about(None)

    def units(self) -> tuple[TaggedText, ...]:
        """One for every gold entity; the sentence where it has none."""
        return tuple(map(self._about, self.entities)) or (self,)

    def of_unit(self, name: str) -> TaggedText:
        """The sentence with the entity that a unit names.

        >>> text = TaggedText(id="1", tokens=("no", "aspirin"), labels=("O", "B-Drug"))
        >>> text.of_unit("1:2:Drug").entity
        Entity(start=1, end=2, type='Drug')
        """
        if name == WHOLE:
            return self.whole
        start, end, type_ = name.split(":", 2)
        return self._about(Entity(start=int(start), end=int(end), type=type_))

    def _about(self, entity: Entity | None) -> TaggedText:
        # Nothing else changes, so nothing is checked again, and all parts share one hash.
        part = object.__new__(type(self))
        vars(part).update(vars(self), entity=entity, hash=self.hash)
        return part

    def encode(self) -> dict[str, Any]:
        """Return the fields of the sentence."""
        return {name: value for name, value in super().encode().items() if name != "entity"}


@dataclass(frozen=True, kw_only=True)
class SentencePair(Texts):
    """Two texts with a gold similarity; never mutated."""

    kind: ClassVar[str] = PAIRS
    fields: ClassVar[tuple[str, ...]] = ("text_a", "text_b")
    is_judged: ClassVar[bool] = False
    """No one says how far from the gold score is wrong: an answer is only measured."""

    text_a: str
    """The first text."""
    text_b: str
    """The second text."""
    score: float
    """Gold similarity, within [low, high]; high means alike."""
    low: float = 0.0
    """The scale's lowest score."""
    high: float = 4.0
    """The scale's highest score."""

    def __post_init__(self) -> None:
        check_sentence_pair(self)

    @property
    def shared_texts(self) -> tuple[str, str]:
        """Both texts: pairs that share one are linked."""
        return self.text_a, self.text_b

    @property
    def key(self) -> str:
        """The gold score."""
        return f"{self.score:g}"

    def row(self) -> dict[str, Any]:
        """Texts and score."""
        return {**self.texts, "score": self.score}


@dataclass(frozen=True, slots=True, kw_only=True)
class TaggedCandidate:
    """An entity's sentence plus edits of its tokens."""

    item: TaggedText
    """The original sentence, with the entity."""
    edits: tuple[Edit, ...] = ()
    """Replacements in the tokens of the original sentence; none crosses an entity's border."""

    @property
    def tokens(self) -> tuple[str, ...]:
        """The tokens as they will be asked."""
        return self._projected()[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """The gold labels of these tokens."""
        return self._projected()[1]

    @property
    def entity(self) -> Entity | None:
        """The entity where it is now."""
        e = self.item.entity
        if e is None:
            return None
        growth = [
            (edit.end, len(edit.replacement.split()) - edit.end + edit.start) for edit in self.edits
        ]
        return Entity(
            start=e.start + sum(n for end, n in growth if end <= e.start),
            end=e.end + sum(n for end, n in growth if end <= e.end),
            type=e.type,
        )

    def _projected(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        edits = [(e.start, e.end, tuple(e.replacement.split())) for e in self.edits]
        return project(self.item, edits)


def project(
    text: TaggedText, edits: Iterable[tuple[int, int, tuple[str, ...]]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Replace ranges of tokens and carry the labels over: no other label moves.

    New tokens take the label of the first token they stand for; after a B- follow I- of its type.

    Args:
        text: the original.
        edits: (first token, one past the last, new tokens), in any order, without overlap.

    Returns:
        Tokens and labels.

    >>> text = TaggedText(id="1", tokens=("no", "aspirin"), labels=("O", "B-Drug"))
    >>> project(text, [(1, 2, ("acetylsalicylic", "acid"))])
    (('no', 'acetylsalicylic', 'acid'), ('O', 'B-Drug', 'I-Drug'))
    """
    edits = sorted(edits)
    tokens: list[str] = []
    position = 0
    for start, end, new in edits:
        tokens += (*text.tokens[position:start], *new)
        position = end
    return (*tokens, *text.tokens[position:]), projected_labels(text.labels, edits)


def projected_labels(
    labels: Sequence[str], edits: Iterable[tuple[int, int, tuple[str, ...]]]
) -> tuple[str, ...]:
    """The labels of `project`: those of new tokens follow the first that they stand for.

    >>> projected_labels(("O", "B-Drug"), [(1, 2, ("acetylsalicylic", "acid"))])
    ('O', 'B-Drug', 'I-Drug')
    """
    projected: list[str] = []
    position = 0
    for start, end, new in sorted(edits):
        first = labels[start]
        rest = OUTSIDE if first == OUTSIDE else f"I-{first[2:]}"
        projected += (*labels[position:start], first, *(rest for _ in new[1:]))
        position = end
    return (*projected, *labels[position:])


def entities_of(labels: Sequence[str]) -> tuple[Entity, ...]:
    """Return the entities that labels mark, in order.

    A model's labels may be malformed: as in the CoNLL-2000 and 2003 evaluation, an I- that
    continues no entity begins one.

    >>> [(e.start, e.end, e.type) for e in entities_of(["B-Drug", "B-Drug", "I-Drug", "I-Gene"])]
    [(0, 1, 'Drug'), (1, 3, 'Drug'), (3, 4, 'Gene')]

    References:
        Tjong Kim Sang and De Meulder, "Introduction to the CoNLL-2003 shared task", 2003; the
        evaluation script conlleval.
    """
    entities: list[Entity] = []
    start, type_ = 0, ""
    for place, label in enumerate((*labels, OUTSIDE)):
        if label[:1] == "I" and label[2:] == type_:
            continue
        if type_:
            entities.append(Entity(start=start, end=place, type=type_))
        start, type_ = place, label[2:]
    return tuple(entities)


def check_tagged_text(item: TaggedText) -> None:
    """Check the contract of a tagged text.

    Raises:
        DataError: naming the item, the token, what was expected and what came.
    """
    n = len(item.tokens)
    if n == 0:
        raise DataError(f"item {item.id!r}: expected at least one token, got none")
    if len(item.labels) != n:
        raise DataError(
            f"item {item.id!r}: expected a label for each of {n} tokens, got {len(item.labels)}"
        )
    for number, token in enumerate(item.tokens, start=1):
        if token.split() != [token]:
            raise DataError(
                f"item {item.id!r}, token {number}: expected a token without white space, "
                f"got {token!r}"
            )
    reading = read_labels(item.labels, "iob2")
    if reading.complaint is not None:
        raise DataError(f"item {item.id!r}, token {reading.place + 1}: {reading.complaint}")


def check_sentence_pair(item: SentencePair) -> None:
    """Check the contract of a pair.

    Raises:
        DataError: naming the item, the field, what was expected and what came.
    """
    for name in ("text_a", "text_b"):
        if not getattr(item, name).strip():
            raise DataError(f"item {item.id!r}, field {name!r}: the text is empty")
    if not (math.isfinite(item.low) and math.isfinite(item.high) and item.low < item.high):
        raise DataError(
            f"item {item.id!r}: expected a scale from a lower to a higher score, "
            f"got {item.low:g} to {item.high:g}"
        )
    if not item.low <= item.score <= item.high:
        raise DataError(
            f"item {item.id!r}, field 'score': expected a score from {item.low:g} to "
            f"{item.high:g}, got {item.score:g}"
        )


# -- Label schemes --------------------------------------------------------------------------------
Scheme: TypeAlias = Literal["iob2", "iobes", "io"]
SCHEMES: tuple[Scheme, ...] = ("iob2", "iobes", "io")
_PREFIXES: dict[str, str] = {"iob2": "BI", "iobes": "BIESLU", "io": ""}
_GO_ON = frozenset("IEL")
_ALONE_OR_LAST = frozenset("ELSU")
_EXPECTED = {
    "iob2": "an IOB label (O, B-TYPE or I-TYPE)",
    "iobes": "an IOBES label (O, B-TYPE, I-TYPE, E-TYPE or S-TYPE)",
    "io": "an IO label (O, TYPE or I-TYPE)",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """Labels of one sentence in IOB2, up to the first that its scheme does not allow."""

    labels: tuple[str, ...]
    """In IOB2; all of them if there is no complaint."""
    complaint: str | None = None
    """What was expected and what came."""
    place: int = 0
    """The token that the complaint is about, from 0."""
    can_repair: bool = False
    """Whether the complaint is about an order of labels that `repair` reads leniently."""
    repaired: tuple[int, ...] = ()
    """Tokens whose label was repaired, from 0."""


def read_labels(labels: Sequence[str], scheme: Scheme, *, repair: bool = False) -> Reading:
    """Read the labels of a sentence.

    Args:
        labels: one a token.
        scheme: how they are written.
        repair: begin an entity at a label that continues none, and end one that no label ends.

    >>> read_labels(["B-Drug", "E-Drug", "S-Drug", "O"], "iobes").labels
    ('B-Drug', 'I-Drug', 'B-Drug', 'O')
    >>> read_labels(["Drug", "Drug", "O", "Gene"], "io").labels
    ('B-Drug', 'I-Drug', 'O', 'B-Gene')
    >>> read_labels(["O", "I-Drug"], "iob2").complaint
    "expected 'B-Drug' at the beginning of an entity, got 'I-Drug' after 'O'"
    """
    read: list[str] = []
    repaired: list[int] = []
    before, going = OUTSIDE, ""
    for place, label in enumerate([*labels, OUTSIDE]):  # the last O ends what is still open
        prefix, type_ = _parts(label, scheme)
        at = min(place, len(labels) - 1)
        if type_ is None:
            complaint = f"expected {_EXPECTED[scheme]}, got {label!r}"
            return Reading(labels=tuple(read), complaint=complaint, place=at)
        goes_on = type_ == going != "" and (scheme == "io" or prefix in _GO_ON)
        if scheme == "iobes" and going and not goes_on:
            got = repr(label) if place < len(labels) else "the end of the sentence"
            complaint = f"expected 'I-{going}' or 'E-{going}' after {before!r}, got {got}"
        elif prefix in _GO_ON and not goes_on:
            begin = f"{'B' if prefix == 'I' else 'S'}-{type_}"
            complaint = f"expected {begin!r} at the beginning of an entity, got {label!r}"
            complaint += f" after {before!r}"
        else:
            complaint = ""
        if complaint and not repair:
            return Reading(labels=tuple(read), complaint=complaint, place=at, can_repair=True)
        if complaint:
            repaired.append(at)
        read.append(f"{'I' if goes_on else 'B'}-{type_}" if type_ else OUTSIDE)
        before, going = label, "" if prefix in _ALONE_OR_LAST else type_
    return Reading(labels=tuple(read[:-1]), repaired=tuple(repaired))


def type_of(label: str, scheme: Scheme) -> str | None:
    """Return the type that a label names, empty for O; None if it is no label of the scheme.

    >>> type_of("B-Drug", "iob2"), type_of("O", "iob2"), type_of("Drug", "iob2")
    ('Drug', '', None)
    """
    return _parts(label, scheme)[1]


def are_bare(labels: Iterable[str], scheme: Scheme) -> bool:
    """Return whether labels other than O are marks without a type.

    >>> are_bare(["O", "B", "I"], "iob2"), are_bare(["O", "B-Drug"], "iob2"), are_bare(["O"], "io")
    (True, False, False)
    """
    marks = set(labels) - {OUTSIDE}
    return bool(marks) and marks <= set(_PREFIXES[scheme] or "I")


def scheme_of(labels: Iterable[str]) -> Scheme | None:
    """Return the scheme of a model's labels; None if they mix several or fit none.

    >>> scheme_of(["O", "B-Drug", "I-Drug"]), scheme_of(["O", "Drug"]), scheme_of(["O", "B", "I"])
    ('iob2', 'io', 'iob2')
    """
    used = set(labels)
    has_outside = OUTSIDE in used
    used -= {OUTSIDE}
    if are_bare(used, "iobes"):
        return "iob2" if are_bare(used, "iob2") else "iobes"
    if not used or any(label.split() != [label] for label in used):
        return None
    if any(label[1:2] == "-" and label[0] in "ESLU" for label in used):
        return "iobes" if all(_parts(label, "iobes")[1] for label in used) else None
    marked = [label[:2] in ("B-", "I-") and label[2:] != "" for label in used]
    if all(marked):
        return "iob2"
    return "io" if has_outside and not any(marked) else None


def check_scheme(labels: Iterable[str], scheme: Scheme, source: object) -> None:
    """Raise if labels given as IO are evidently written in another scheme.

    Args:
        labels: all labels of a file.
        scheme: what the user says they are written in.
        source: the file, for the message.

    Raises:
        DataError: all labels but O have a prefix, and not the I- that IO may have, or are bare.

    >>> check_scheme(["O", "I-Drug"], "io", "a.iob")
    """
    used = set(labels) - {OUTSIDE}
    looks = scheme_of(used) if scheme == "io" else None
    begins = sorted(label for label in used if label[:2] != "I-" and label != "I")
    if looks in ("iob2", "iobes") and begins:
        advice = "leave out scheme" if looks == "iob2" else 'set scheme = "iobes"'
        raise DataError(
            f'{source}: scheme = "io" expects labels that are types (Drug), or I- and a type, got '
            f"{begins[0]!r} and no label without a prefix; {advice}, or write 'I-{begins[0]}' if "
            f"{begins[0]!r} is the name of a type"
        )


def in_iob2(labels: Sequence[str], scheme: Scheme) -> tuple[str, ...]:
    """Return a model's labels, which need not be well formed, in IOB2; bare ones stay bare.

    An I- or E- that continues nothing becomes or stays I-: whoever reads the labels judges it. It
    becomes B- where an I- would continue the entity that ends before it.

    >>> in_iob2(["B", "E", "S", "O", "E"], "iobes")
    ('B', 'I', 'B', 'O', 'I')
    """
    if scheme == "iob2":
        return tuple(labels)
    if are_bare(labels, scheme):
        typed = [label if label == OUTSIDE else f"{label}-_" for label in labels]
        return tuple(label[0] for label in in_iob2(typed, scheme))
    read = read_labels(labels, scheme, repair=True).labels
    if scheme == "io":
        return read
    before = (OUTSIDE, *read)
    return tuple(
        f"I{new[1:]}" if old[0] in _GO_ON and before[n][1:] != new[1:] else new
        for n, (old, new) in enumerate(zip(labels, read, strict=True))
    )


def _parts(label: str, scheme: Scheme) -> tuple[str, str | None]:
    """Return prefix and type of a label; the type is empty for O, and None if it is no label."""
    if label == OUTSIDE:
        return "", ""
    if label.split() != [label]:
        return "", None
    if scheme == "io":
        return "", (label[2:] if label[:2] == "I-" else label) or None
    has_prefix = label[1:2] == "-" and label[0] in _PREFIXES[scheme]
    return label[0], (label[2:] or None) if has_prefix else None
