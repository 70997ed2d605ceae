"""Perturbations of running text: sentence pairs, and the texts of questions.

The text is tokenised (`medstress.core.text.token_spans`) and perturbed as a tagged text. The edits
are carried back to characters, so that white space and everything not edited stay as they are.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from medstress.attacks.noise.protocol import NoiseResources, Perturbation
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import Candidate, Question
from medstress.core.sentences import OUTSIDE, TaggedText
from medstress.core.text import Edit, join_tokens, token_spans

if TYPE_CHECKING:
    from numpy.random import Generator

Side: TypeAlias = Literal["first", "second", "random"]
Field: TypeAlias = Literal["question", "stem", "context", "passage", "options"]
"""A text of a question; `question` is context and stem, `options` are all of them."""
OPTIONS: Field = "options"
Marked: TypeAlias = tuple[int, int, str]
"""(first character, one past the last, type) of an entity in a text."""


def perturb_text(
    text: str,
    mentions: Iterable[Marked],
    perturbation: Perturbation,
    rng: Generator,
    resources: NoiseResources,
    *,
    field: str,
) -> tuple[Edit, ...]:
    """Return the edits of one text, in characters, for a field of an item.

    Args:
        text: running text; one without a token is not edited.
        mentions: its entities, used as gold labels.
        perturbation: what is done to it.
        rng: of the item.
        resources: what the perturbation may read.
        field: the field that the edits name.
    """
    spans = token_spans(text)
    if not spans:
        return ()
    tokens = tuple(text[start:end] for start, end in spans)
    item = TaggedText(id=field, tokens=tokens, labels=labels_of(spans, mentions))
    return tuple(
        Edit(
            field=field,
            start=spans[edit.start][0],
            end=spans[edit.end - 1][1],
            replacement=join_tokens(edit.replacement),
        )
        for edit in perturbation.perturb(item, rng, resources).edits
    )


class TwoTexts(Protocol):
    """An item of two texts: edits have the field `text_a` or `text_b`."""

    @property
    def text_a(self) -> str:
        """The first."""

    @property
    def text_b(self) -> str:
        """The second."""

    def candidate(self, edits: tuple[Edit, ...] = ()) -> Any:
        """The item with edits."""


def perturb_pair(
    pair: TwoTexts,
    perturbation: Perturbation,
    rng: Generator,
    resources: NoiseResources,
    side: Side = "first",
) -> Any:
    """Perturb one text of a pair; the other, and what is gold, stay. Returns the candidate.

    Entities are those of `resources.mentions`. The paper does not say which text it perturbs; the
    default is the first (METHODS 4.6).

    Raises:
        UsageError: an unknown side.
    """
    if side not in get_args(Side):
        raise UsageError(
            f"side: expected one of {', '.join(get_args(Side))}, got {side!r}"
            f"{did_you_mean(str(side), get_args(Side))}"
        )
    is_first = side == "first" or (side == "random" and rng.random() < 0.5)
    field = "text_a" if is_first else "text_b"
    text = pair.text_a if is_first else pair.text_b
    found = resources.mentions.get(text, ())
    edits = perturb_text(text, found, perturbation, rng, resources, field=field)
    return pair.candidate(edits)


def perturb_question(
    item: Question,
    perturbation: Perturbation,
    rng: Generator,
    resources: NoiseResources,
    field: Field = "question",
) -> Candidate:
    """Perturb one field of a question; the others stay.

    Entities are those of `marks_of`. Of options all are perturbed, the key too, because a typo
    does not change what an option says. An edit that would make two options equal is not made.
    """
    edits: list[Edit] = []
    for name in texts_of(item, field):
        found = marks_of(item, name, resources.mentions)
        edits += perturb_text(item.text_of(name), found, perturbation, rng, resources, field=name)
    return Candidate(
        item=item, edits=tuple(_distinct(item, edits)) if field == OPTIONS else tuple(edits)
    )


def texts_of(item: Question, field: Field) -> tuple[str, ...]:
    """Return the names of the texts that a field stands for, as edits name them."""
    if field == OPTIONS:
        return tuple(item.letters)
    return ("context", "stem") if field == "question" else (field,)


def marks_of(
    item: Question, name: str, found: Mapping[str, tuple[Marked, ...]]
) -> tuple[Marked, ...]:
    """Return the entities of one text of a question, in its characters.

    They are the item's own mentions there, whatever their type; where it has none, those found.

    Args:
        item: the question.
        name: an option letter, `passage`, `context` or `stem`.
        found: text -> entities that were found in it.
    """
    return own_marks(item, name) or found.get(item.text_of(name), ())


def own_marks(item: Question, name: str) -> tuple[Marked, ...]:
    """Return the item's own mentions in one text; those in `question` count where they lie."""
    length = len(item.text_of(name))
    shifts = {name: 0}
    if name in ("context", "stem"):  # the question is context, a space and stem
        shifts["question"] = 0 if name == "context" else len(item.question) - length
    placed = (
        (m.start - shifts[m.field], m.end - shifts[m.field], m.type or "entity")
        for m in item.mentions
        if m.field in shifts
    )
    return tuple(mark for mark in placed if mark[0] < length and mark[1] > 0)


def _distinct(item: Question, edits: Sequence[Edit]) -> list[Edit]:
    """Leave out edits that make an option equal to another, alone or with the other edits."""
    alone = [edit for edit in edits if _are_distinct(item, [edit])]
    kept: list[Edit] = []
    for letter in item.letters:
        new = [edit for edit in alone if edit.field == letter]
        if _are_distinct(item, new) and _are_distinct(item, [*kept, *new]):
            kept += new
    return kept


def _are_distinct(item: Question, edits: Sequence[Edit]) -> bool:
    options = [text.strip() for text in Candidate(item=item, edits=tuple(edits)).options]
    return len(set(options)) == len(options)


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
