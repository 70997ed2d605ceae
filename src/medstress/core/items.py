"""Items (examples with gold) and candidates (items plus edits)."""

from __future__ import annotations

import math
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeAlias

from medstress.core.errors import DataError
from medstress.core.frozen import fast_init
from medstress.core.hashing import content_hash
from medstress.core.text import WHOLE, Edit, apply_edits, cut_word, join_tokens, token_spans

if TYPE_CHECKING:
    from numpy.random import Generator

LETTERS = "ABCDEFGHIJ"
TEXTS = ("passage", "context", "stem")
"""The fields of a question besides its options."""
_NAMED = (*TEXTS, "question")
FOLLOW_UP = "follow_up"
"""What is said after the victim's answer: a field that is empty in every item, for edits."""
QUESTIONS, TAGGED, PAIRS = "questions", "tagged texts", "sentence pairs"
"""The kinds of items that come with the package."""
OUTSIDE = "O"
"""The label of a token that belongs to no entity."""
Marked: TypeAlias = tuple[int, int, str]
"""(first character, one past the last, type) of an entity in a text."""


class Edited(Protocol):
    """A candidate: an item plus edits."""

    @property
    def item(self) -> Any:
        """The original item."""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Replacements in the offsets of the original item."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """The words of one text of an item, as noise reads them."""

    field: str
    """The name that edits give the text."""
    tokens: tuple[str, ...]
    labels: tuple[str, ...]
    """An IOB2 label of each token."""
    spans: Sequence[tuple[int, int]] | None = None
    """Characters of each token; None where edits count tokens."""

    @classmethod
    def of(cls, name: str, text: str, mentions: Iterable[Marked]) -> Words:
        """Return the words of a running text and its entities."""
        spans = token_spans(text)
        tokens = tuple(text[start:end] for start, end in spans)
        return cls(field=name, tokens=tokens, labels=labels_of(spans, mentions), spans=spans)

    def edit(self, start: int, end: int, *new: str) -> Edit:
        """Return the edit that puts new tokens in the place of some, given by their numbers."""
        if self.spans is None:
            return Edit(field=self.field, start=start, end=end, replacement=" ".join(new))
        first, last = self.spans[start][0], self.spans[end - 1][1]
        return Edit(field=self.field, start=first, end=last, replacement=join_tokens(new))


def labels_of(spans: Sequence[tuple[int, int]], mentions: Iterable[Marked]) -> tuple[str, ...]:
    """Return IOB2 labels of tokens, which are in order, from entities in characters.

    An entity takes every token it touches, because annotators may differ in spaces and hyphens at
    its borders. Of overlapping entities the first, and of those the longest, wins.

    >>> labels_of([(0, 2), (3, 9), (10, 14)], [(3, 14, "Drug")])
    ('O', 'B-Drug', 'I-Drug')
    """
    labels = [OUTSIDE] * len(spans)
    firsts, lasts = [first for first, _ in spans], [last for _, last in spans]
    for start, end, type_ in sorted(set(mentions), key=lambda m: (m[0], -m[1], m[2])):
        touched = range(bisect_right(lasts, start), bisect_left(firsts, end))
        if touched and all(labels[n] == OUTSIDE for n in touched):
            for n in touched:
                labels[n] = f"{'B' if n == touched[0] else 'I'}-{type_}"
    return tuple(labels)


class Item:
    """One example with gold, never mutated: a question, a tagged text, a pair of texts.

    A subclass is a frozen dataclass with at least the fields `id` and `metadata`. It says what is
    asked, edited and right, so that no one has to look up its class. Trials are about its `units`:
    the item itself, or parts of it that are items too and share its id. Most kinds of running texts
    only have to inherit `Texts`.
    """

    kind: ClassVar[str]
    """The kind, in the plural, as messages, attacks and stored rows name it."""

    if TYPE_CHECKING:  # at run time a property would be taken for the default of a field

        @property
        def id(self) -> str:
            """Unique within its data set, except that the parts of an item share it."""

        @property
        def metadata(self) -> Mapping[str, Any]:
            """Other fields of the row, unchanged."""

        @property
        def hash(self) -> str:
            """Content hash over everything that can reach a prompt or a judgement."""

        @property
        def key(self) -> str:
            """The right answer as text: a letter, a label, the type of an entity, a score."""

        @property
        def texts(self) -> Mapping[str, str]:
            """Its texts by the names that edits give them; empty where edits count tokens."""

        @property
        def unit(self) -> str:
            """Name of the part that the trial is about; `item` for the whole item."""

        @property
        def is_judged(self) -> bool:
            """True if answers are right or wrong; False if only their change is measured."""

        @property
        def choices(self) -> Sequence[str]:
            """The possible answers in the order of scores; empty where answers are no choice."""

        @property
        def shared_texts(self) -> tuple[str, ...]:
            """Texts that link items: items with a common text form one cluster."""

        @property
        def classes(self) -> tuple[str, ...]:
            """What victims have to tell apart in it: types of entities, labels."""

        @property
        def mentions(self) -> tuple[Mention, ...]:
            """Typed entities in its texts."""
    else:
        unit, is_judged = WHOLE, True
        choices = shared_texts = classes = mentions = ()

    # -- what is asked and edited
    def candidate(self, edits: tuple[Edit, ...] = ()) -> Any:
        """Return the item with edits (`Edited`)."""
        raise NotImplementedError

    def replaced(self, edit: Edit) -> str:
        """Return the text of the original item that an edit replaces."""
        return self.texts[edit.field][edit.start : edit.end]

    def changed(self, edits: tuple[Edit, ...]) -> Any:
        """Return the edited item as a new one, without mentions, because their places move."""
        raise NotImplementedError

    def right_score(self, scores: Sequence[float]) -> float:
        """Return P(right answer) of a choice, else the first score."""
        return math.exp(scores[self.choices.index(self.key)]) if self.choices else float(scores[0])

    def shown(self) -> Mapping[str, str]:
        """Return its texts by name, for people to read."""
        return self.texts

    # -- what noise perturbs
    def words(
        self,
        mentions: Mapping[str, tuple[Marked, ...]],
        field: str | None = None,
        side: str | None = None,
        rng: Generator | None = None,
    ) -> Iterator[Words]:
        """Yield the texts that noise may change.

        Args:
            mentions: text -> its entities, for the texts that `marks` leaves open.
            field: of a question, the text that is wanted; None gives all but the options.
            side: of a pair, `first`, `second` or `random`; None gives both.
            rng: draws a random side, and nothing else; both without.
        """
        raise NotImplementedError

    def marks(self) -> Mapping[str, tuple[Marked, ...] | None]:
        """Return the texts whose entities noise looks up: text -> entities, None to find."""
        return {}

    def lacks_words(self, field: str) -> str | None:
        """Return why noise cannot attack it, or None."""
        return None

    def sound(self, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """Leave out the edits of noise that would break the item."""
        return edits

    def nearest_first(self, edits: Sequence[Edit]) -> Sequence[Edit]:
        """Sort edits by their promise, for a search that asks few."""
        return edits

    # -- its parts, and how it is stored
    @property
    def whole(self) -> Any:
        """The item that data sets hold and runs store."""
        return self

    def units(self) -> tuple[Any, ...]:
        """Return what trials are about, one for each trial; at least one."""
        return (self,)

    def of_unit(self, name: str) -> Any:
        """Return the unit with a name: the inverse of `unit`."""
        return self

    def row(self) -> dict[str, Any]:
        """Return its fields as its reader takes them, without id and metadata."""
        return self.columns()

    def columns(self) -> dict[str, Any]:
        """Return its columns in exports, without id, hash and metadata."""
        return {
            name: [asdict(one) if isinstance(one, Mention) else one for one in value]
            if isinstance(value, tuple)
            else value
            for name, value in self.encode().items()
            if name not in ("id", "metadata")
        }

    def encode(self) -> dict[str, Any]:
        """Return its fields, which JSON takes as they are."""
        return {one.name: getattr(self, one.name) for one in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def decode(cls, row: Mapping[str, Any]) -> Self:
        """Return the inverse of `encode`, from JSON values."""
        values = {k: tuple(v) if isinstance(v, list) else v for k, v in row.items()}
        if "mentions" in values:
            values["mentions"] = tuple(Mention(**one) for one in values["mentions"])
        return cls(**values)


@dataclass(frozen=True, kw_only=True)
class Texts(Item):
    """Base of items that are running texts: candidates, hashes, words and storing follow."""

    fields: ClassVar[tuple[str, ...]]
    """The fields that hold the texts, in order."""

    id: str
    """Unique within its data set."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Other fields of the row, unchanged."""

    @cached_property
    def hash(self) -> str:
        """Content hash over all fields but id and metadata."""
        values = [v for name, v in self.encode().items() if name not in ("id", "metadata")]
        return content_hash([[asdict(m) for m in v] if v is self.mentions else v for v in values])

    @property
    def texts(self) -> dict[str, str]:
        """Its texts."""
        return {name: getattr(self, name) for name in self.fields}

    def candidate(self, edits: tuple[Edit, ...] = ()) -> EditedTexts:
        """The item with edits."""
        return EditedTexts(item=self, edits=edits)

    def changed(self, edits: tuple[Edit, ...]) -> Self:
        """The item with its new texts."""
        new: dict[str, Any] = dict(self.candidate(edits).texts)
        if self.mentions:
            new["mentions"] = ()
        return replace(self, **new)

    def words(
        self,
        mentions: Mapping[str, tuple[Marked, ...]],
        field: str | None = None,
        side: str | None = None,
        rng: Generator | None = None,
    ) -> Iterator[Words]:
        """One text or all."""
        if side == "random" and rng is not None:
            side = "first" if rng.random() < 0.5 else "second"
        one = {"first": self.fields[:1], "second": self.fields[-1:]}
        for name in one.get(side or "", self.fields):
            text = getattr(self, name)
            yield Words.of(name, text, mentions.get(text, ()))

    def marks(self) -> dict[str, tuple[Marked, ...] | None]:
        """Its own mentions; where it has none they have to be found."""
        return {
            text: marked_in(self.mentions, {name: 0}, len(text)) if self.mentions else None
            for name, text in self.texts.items()
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class EditedTexts:
    """Running texts plus edits."""

    item: Any
    """The original item."""
    edits: tuple[Edit, ...] = ()
    """Replacements in the characters of the texts that they name."""

    @property
    def texts(self) -> dict[str, str]:
        """The texts as they will be asked."""
        return {
            name: apply_edits(text, [edit for edit in self.edits if edit.field == name])
            for name, text in self.item.texts.items()
        }


def marked_in(
    mentions: Iterable[Mention], shifts: Mapping[str, int], length: int
) -> tuple[Marked, ...]:
    """Return the mentions in one text, in its characters.

    Args:
        mentions: of an item.
        shifts: field of a mention -> where the text begins in it.
        length: of the text.
    """
    placed = (
        (m.start - shifts[m.field], m.end - shifts[m.field], m.type or "entity")
        for m in mentions
        if m.field in shifts
    )
    return tuple(mark for mark in placed if mark[0] < length and mark[1] > 0)


def changes_nothing(candidate: Edited) -> bool:
    """Return whether every edit of a candidate replaces a text by itself."""
    return all(candidate.item.replaced(edit) == edit.replacement for edit in candidate.edits)


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Mention:
    """A typed entity inside one field of an item."""

    field: str
    """An option letter, or `passage`, `context`, `stem`, `question`."""
    start: int
    """First character, in that field's text."""
    end: int
    """One past the last character."""
    type: str
    """A UMLS semantic type identifier, or empty if unknown."""


@dataclass(frozen=True, kw_only=True)
class Question(Item):
    """A multiple-choice question with its key; never mutated."""

    kind: ClassVar[str] = QUESTIONS

    id: str
    """Unique within its data set."""
    context: str = ""
    """Everything before the stem; may be empty."""
    passage: str = ""
    """A text to read before answering; may be empty. Only prompts with `{{ passage }}` show it."""
    stem: str
    """The sentence that asks the question."""
    options: tuple[str, ...]
    """2 to 10 distinct texts, lettered A, B, ... in order."""
    key: str
    """The letter of the right option."""
    mentions: tuple[Mention, ...] = ()
    """Typed entities in options and vignette."""
    metadata: Mapping[str, Any] = field(default_factory=dict, compare=False)
    """Other fields of the row, unchanged."""

    def __post_init__(self) -> None:
        check_question(self)

    def __hash__(self) -> int:
        # Equal questions have equal ids; hashing all texts would cost more than rendering.
        return hash(self.id)

    @property
    def letters(self) -> str:
        """The option letters, such as ``"ABCD"``."""
        return LETTERS[: len(self.options)]

    @property
    def choices(self) -> str:
        """The option letters."""
        return self.letters

    @property
    def shared_texts(self) -> tuple[str]:
        """All its words, the options in any order: what is asked again is one cluster."""
        return (" ".join((self.question, self.passage, *sorted(self.options))).casefold(),)

    @property
    def texts(self) -> dict[str, str]:
        """Passage, context, stem and options."""
        return {name: self.text_of(name) for name in (*TEXTS, *self.letters)}

    @property
    def question(self) -> str:
        """Context and stem as one text."""
        return f"{self.context} {self.stem}" if self.context else self.stem

    @property
    def key_text(self) -> str:
        """The text of the right option."""
        return self.option(self.key)

    def option(self, letter: str) -> str:
        """Return the text of one option."""
        return self.options[LETTERS.index(letter)]

    def text_of(self, name: str) -> str:
        """Return a field's text: an option letter, `question`, `follow_up`, or one of `TEXTS`."""
        if name in _NAMED:
            return str(getattr(self, name))
        return "" if name == FOLLOW_UP else self.option(name)

    def candidate(self, edits: tuple[Edit, ...] = ()) -> Candidate:
        """Return the question with edits."""
        return Candidate(item=self, edits=edits)

    def replaced(self, edit: Edit) -> str:
        """Return the text that an edit replaces."""
        return self.text_of(edit.field)[edit.start : edit.end]

    def with_mentions(self, mentions: Iterable[Mention]) -> Question:
        """Return this question with other mentions; only new mentions are checked.

        Raises:
            DataError: a mention lies outside its field.
        """
        new, checked = tuple(mentions), set(self.mentions)
        for mention in new:
            if mention not in checked:
                _check_mention(self, mention)
        copy = object.__new__(type(self))
        vars(copy).update({one.name: vars(self)[one.name] for one in fields(self)})
        vars(copy)["mentions"] = new
        return copy

    @cached_property
    def hash(self) -> str:
        """Content hash over everything that can reach a prompt or a judgement."""
        mentions = [[m.field, m.start, m.end, m.type] for m in self.mentions]
        texts = [self.context, self.stem, self.options, self.key, mentions]
        return content_hash([*texts, self.passage])

    def columns(self) -> dict[str, Any]:
        """Texts, key and mentions."""
        return {
            "context": self.context,
            "stem": self.stem,
            "options": dict(zip(self.letters, self.options, strict=True)),
            "key": self.key,
            "mentions": [asdict(mention) for mention in self.mentions],
            "passage": self.passage,
        }

    def row(self) -> dict[str, Any]:
        """Texts and key, and the passage where there is one."""
        return {
            "context": self.context,
            "stem": self.stem,
            "options": dict(zip(self.letters, self.options, strict=True)),
            "answer_idx": self.key,
            **({"passage": self.passage} if self.passage else {}),
        }

    def changed(self, edits: tuple[Edit, ...]) -> Question:
        """The question with its new texts."""
        new = self.candidate(edits)
        texts = {name: getattr(new, name) for name in (*TEXTS, "options")}
        return replace(self, **texts, mentions=())

    def words(
        self,
        mentions: Mapping[str, tuple[Marked, ...]],
        field: str | None = None,
        side: str | None = None,
        rng: Generator | None = None,
    ) -> Iterator[Words]:
        """Passage, context and stem, or the texts of one field.

        Entities are its own mentions in a text, whatever their type; where it has none, those
        that were found.
        """
        for name in TEXTS if field is None else self._named(field):
            text = self.text_of(name)
            if text:
                yield Words.of(name, text, self._marks(name) or mentions.get(text, ()))

    def marks(self) -> dict[str, tuple[Marked, ...] | None]:
        """Its own; they have to be found in texts without any."""
        return {self.text_of(name): self._marks(name) or None for name in (*TEXTS, *self.letters)}

    def lacks_words(self, field: str) -> str | None:
        """A field may be empty."""
        texts = map(self.text_of, self._named(field))
        return None if any(map(str.strip, texts)) else f"the question has no {field}"

    def sound(self, edits: tuple[Edit, ...]) -> tuple[Edit, ...]:
        """Leave out edits of the right answer, and those that make an option equal to another.

        Options are compared after each edit alone, and with the other edits.
        """
        if not any(edit.field in self.letters for edit in edits):
            return edits
        alone = [edit for edit in edits if edit.field != self.key and self._is_distinct(edit)]
        kept: list[Edit] = []
        for letter in self.letters:
            new = [edit for edit in alone if edit.field == letter]
            if self._is_distinct(*new) and self._is_distinct(*kept, *new):
                kept += new
        return tuple(kept)

    def _is_distinct(self, *edits: Edit) -> bool:
        options = [text.strip() for text in self.candidate(edits).options]
        return len(set(options)) == len(options)

    def _named(self, field: str) -> tuple[str, ...]:
        """Return the names of the texts that a field of noise means."""
        several = {"options": tuple(self.letters), "question": ("context", "stem")}
        return several.get(field, (field,))

    def _marks(self, name: str) -> tuple[Marked, ...]:
        """Return its own mentions in one text; those in `question` count where they lie."""
        length, shifts = len(self.text_of(name)), {name: 0}
        if name in ("context", "stem"):  # the question is context, a space and stem
            shifts["question"] = 0 if name == "context" else len(self.question) - length
        return marked_in(self.mentions, shifts, length)


def check_question(item: Question) -> None:
    """Check the contract of a question.

    Raises:
        DataError: it is broken; the message names the item, the field and the value.
    """
    n = len(item.options)
    if not 2 <= n <= len(LETTERS):
        raise DataError(
            f"item {item.id!r}, field 'options': expected 2 to 10 options, got {n}; change their "
            "number"
        )
    texts = [text.strip() for text in item.options]
    if not all(texts):
        raise DataError(f"item {item.id!r}, field 'options': an option is empty; fill it")
    if len(set(texts)) < n:
        at = next(at for at, text in enumerate(texts) if text in texts[:at])
        raise DataError(
            f"item {item.id!r}, field 'options': {LETTERS[texts.index(texts[at])]} and "
            f"{LETTERS[at]} are both {item.options[at]!r}; make them different"
        )
    if len(item.key) != 1 or item.key not in item.letters:
        raise DataError(
            f"item {item.id!r}, field 'answer_idx': expected one of {', '.join(item.letters)}, "
            f"got {item.key!r}"
        )
    if not item.question.strip():
        raise DataError(f"item {item.id!r}, field 'question': the text is empty")
    for mention in item.mentions:
        _check_mention(item, mention)


def _check_mention(item: Question, mention: Mention) -> None:
    if mention.field not in _NAMED and mention.field not in tuple(item.letters):
        raise DataError(
            f"item {item.id!r}, field 'mentions': field {mention.field!r} is neither an option "
            f"letter nor {', '.join(TEXTS)}, question"
        )
    length = len(item.text_of(mention.field))
    if not 0 <= mention.start < mention.end <= length:
        raise DataError(
            f"item {item.id!r}, field 'mentions': offsets [{mention.start}, {mention.end}) lie "
            f"outside {mention.field} (length {length})"
        )


def check_words(item: Question) -> None:
    """Check that no mention begins or ends inside a word: replacing it would leave a rest.

    Raises:
        DataError: a mention cuts a word; the message names the item, the mention and the word.
    """
    for mention in item.mentions:
        text = item.text_of(mention.field)
        word = cut_word(text, mention.start, mention.end)
        if word is not None:
            raise DataError(
                f"item {item.id!r}, field 'mentions': expected whole words, got "
                f"{text[mention.start : mention.end]!r} at [{mention.start}, {mention.end}) of "
                f"{mention.field}, which cuts {word!r}; correct start or end"
            )


@fast_init
@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate:
    """An item plus edits; the text is derived, never stored."""

    item: Question
    """The original item."""
    edits: tuple[Edit, ...] = ()
    """Replacements in the offsets of the original item."""

    def edit(self, span: Mention, replacement: str) -> Candidate:
        """Return this candidate with one more replacement, at `span` of the original item.

        Raises:
            ValueError: the span lies in `question`; edit `context` or `stem` instead.
        """
        if span.field == "question":
            raise ValueError("edit context or stem: an edit of question would reach no prompt")
        new = Edit(field=span.field, start=span.start, end=span.end, replacement=replacement)
        return Candidate(item=self.item, edits=(*self.edits, new))

    @property
    def options(self) -> tuple[str, ...]:
        """The options with edits."""
        options = list(self.item.options)
        for letter in {edit.field for edit in self.edits} & set(self.item.letters):
            place = LETTERS.index(letter)
            options[place] = self._edited(letter, options[place])
        return tuple(options)

    @property
    def passage(self) -> str:
        """The passage with edits."""
        return self._edited("passage", self.item.passage)

    @property
    def context(self) -> str:
        """The context with edits."""
        return self._edited("context", self.item.context)

    @property
    def stem(self) -> str:
        """The stem with edits."""
        return self._edited("stem", self.item.stem)

    @property
    def question(self) -> str:
        """Context and stem with edits, as one text."""
        return f"{self.context} {self.stem}" if self.context else self.stem

    @property
    def follow_up(self) -> str:
        """What is said after the victim's answer; empty if nothing is."""
        return self._edited(FOLLOW_UP, "")

    def _edited(self, name: str, text: str) -> str:
        edits = self.edits
        if len(edits) == 1:  # as nearly always: every query asks for every field
            return apply_edits(text, edits) if edits[0].field == name else text
        edits = tuple(edit for edit in edits if edit.field == name)
        return apply_edits(text, edits) if edits else text
