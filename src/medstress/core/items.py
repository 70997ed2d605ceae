"""Items (examples with gold) and candidates (items plus edits)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Protocol, Self

from medstress.core.errors import DataError
from medstress.core.frozen import fast_init
from medstress.core.hashing import content_hash
from medstress.core.text import WHOLE, Edit, apply_edits, cut_word

LETTERS = "ABCDEFGHIJ"
TEXTS = ("passage", "context", "stem")
"""The fields of a question beside its options."""
FOLLOW_UP = "follow_up"
"""What is said after the victim's answer: a field that is empty in every item, for edits."""


class Item(Protocol):
    """The subject of a trial: a question, an entity in its sentence, a pair of texts."""

    @property
    def id(self) -> str:
        """Unique within its data set, except that entities of one sentence share it."""

    @property
    def hash(self) -> str:
        """Content hash."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Other fields of the row, unchanged."""

    @property
    def unit(self) -> str:
        """Name of the part that the trial is about; `item` for the whole item."""

    @property
    def is_judged(self) -> bool:
        """True if answers are right or wrong; False if only their change is measured."""

    @property
    def shared_texts(self) -> tuple[str, ...]:
        """Texts that link items: items with a common text form one cluster."""

    @property
    def whole(self) -> Any:
        """The item that data sets hold and runs store; a whole item is its own unit."""

    @property
    def gold(self) -> str:
        """The right answer as text: a letter, a label, the type of an entity, a score."""

    @property
    def letters(self) -> Sequence[str]:
        """The possible answers in the order of scores; empty where answers are no choice."""

    @property
    def texts(self) -> Mapping[str, str]:
        """Its texts by the names that edits give them; empty where edits count tokens."""

    def right_score(self, scores: Sequence[float]) -> float:
        """Return P(right answer) of a choice, else the first score."""

    def candidate(self, edits: tuple[Edit, ...] = ()) -> Edited:
        """Return the item with edits."""

    def replaced(self, edit: Edit) -> str:
        """Return the text of the original item that an edit replaces."""


class StoredItem(Protocol):
    """A whole item, as data sets hold it and runs store it."""

    tag: ClassVar[str]
    """Mark of its class in run folders."""

    @property
    def id(self) -> str:
        """Unique within its data set."""

    @property
    def hash(self) -> str:
        """Content hash."""

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Other fields of the row, unchanged."""

    @property
    def whole(self) -> Any:
        """The item itself."""

    def units(self) -> tuple[Item, ...]:
        """Return what trials are about, one for each trial; at least one."""

    def of_unit(self, name: str) -> Item:
        """Return the unit with a name: the inverse of `Item.unit`."""

    def encode(self) -> dict[str, Any]:
        """Return JSON values, without the tag."""

    @classmethod
    def decode(cls, row: dict[str, Any]) -> Self:
        """Return the inverse of `encode`."""

    def columns(self) -> dict[str, Any]:
        """Return its columns in exports, without id, hash and metadata."""


class WholeUnit:
    """Base of items that trials are about as a whole."""

    unit: ClassVar[str] = WHOLE

    @property
    def whole(self) -> Self:
        """The item itself."""
        return self

    def units(self) -> tuple[Self, ...]:
        """The item itself."""
        return (self,)

    def of_unit(self, name: str) -> Self:
        """The item itself."""
        return self


class Edited(Protocol):
    """A candidate: an item plus edits."""

    @property
    def item(self) -> Any:
        """The original item."""

    @property
    def edits(self) -> tuple[Edit, ...]:
        """Replacements in the offsets of the original item."""


def changes_nothing(candidate: Edited) -> bool:
    """Return whether every edit of a candidate replaces a text by itself."""
    return all(candidate.item.replaced(edit) == edit.replacement for edit in candidate.edits)


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

    def encode(self) -> list[Any]:
        """Field, start, end and type."""
        return [self.field, self.start, self.end, self.type]


def decode_mentions(rows: Iterable[Sequence[Any]]) -> tuple[Mention, ...]:
    """Invert `Mention.encode`."""
    return tuple(Mention(field=f, start=s, end=e, type=t) for f, s, e, t in rows)


@dataclass(frozen=True, kw_only=True)
class Question(WholeUnit):
    """A multiple-choice question with its key; never mutated."""

    tag: ClassVar[str] = "question"
    is_judged: ClassVar[bool] = True
    shared_texts: ClassVar[tuple[str, ...]] = ()

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
    def gold(self) -> str:
        """The letter of the right option."""
        return self.key

    @property
    def texts(self) -> dict[str, str]:
        """Passage, context, stem and options."""
        return {name: self.text_of(name) for name in (*TEXTS, *self.letters)}

    def right_score(self, scores: Sequence[float]) -> float:
        """P(key)."""
        return math.exp(scores[self.letters.index(self.key)])

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
        if name in (*TEXTS, "question"):
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
        vars(copy).update({each.name: vars(self)[each.name] for each in fields(self)})
        vars(copy)["mentions"] = new
        return copy

    @cached_property
    def hash(self) -> str:
        """Content hash over everything that can reach a prompt or a judgement."""
        mentions = [mention.encode() for mention in self.mentions]
        texts = [self.context, self.stem, self.options, self.key, mentions]
        return content_hash([*texts, self.passage])

    def encode(self) -> dict[str, Any]:
        """All fields; the passage where there is one."""
        return {
            "id": self.id,
            "context": self.context,
            "stem": self.stem,
            "options": self.options,
            "key": self.key,
            "mentions": [mention.encode() for mention in self.mentions],
            "metadata": dict(self.metadata),
            **({"passage": self.passage} if self.passage else {}),
        }

    @classmethod
    def decode(cls, row: dict[str, Any]) -> Self:
        """The inverse of `encode`."""
        options, mentions = tuple(row.pop("options")), decode_mentions(row.pop("mentions"))
        return cls(options=options, mentions=mentions, **row)

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
    if any(not text.strip() for text in item.options):
        raise DataError(f"item {item.id!r}, field 'options': an option is empty; fill it")
    seen: dict[str, str] = {}
    for letter, text in zip(item.letters, item.options, strict=True):
        if (first := seen.setdefault(text.strip(), letter)) != letter:
            raise DataError(
                f"item {item.id!r}, field 'options': {first} and {letter} are both {text!r}; "
                "make them different"
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
    where = f"item {item.id!r}, field 'mentions'"
    if mention.field not in (*TEXTS, "question", *item.letters):
        raise DataError(
            f"{where}: field {mention.field!r} is neither an option letter nor "
            f"{', '.join(TEXTS)}, question"
        )
    length = len(item.text_of(mention.field))
    if not 0 <= mention.start < mention.end <= length:
        raise DataError(
            f"{where}: offsets [{mention.start}, {mention.end}) lie outside {mention.field} "
            f"(length {length})"
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
    def follow_up(self) -> str:
        """What is said after the victim's answer; empty if nothing is."""
        return self._edited(FOLLOW_UP, "")

    def _edited(self, name: str, text: str) -> str:
        edits = [edit for edit in self.edits if edit.field == name]
        return apply_edits(text, edits) if edits else text
