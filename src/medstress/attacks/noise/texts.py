"""Perturbations of running text: sentence pairs, and the vignettes of questions.

The text is tokenised (`medstress.core.text.token_spans`) and perturbed as a tagged text. The edits
are carried back to characters, so that white space and everything not edited stay as they are.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeAlias, get_args

from medstress.attacks.noise.protocol import NoiseResources, Perturbation
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.items import Candidate, Question
from medstress.core.sentences import OUTSIDE, TaggedText
from medstress.core.text import Edit, join_tokens, token_spans

if TYPE_CHECKING:
    from numpy.random import Generator

Side: TypeAlias = Literal["first", "second", "random"]
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
    item: Question, perturbation: Perturbation, rng: Generator, resources: NoiseResources
) -> Candidate:
    """Perturb context and stem of a question; the options stay.

    Entities are the item's own mentions in context, stem and question.
    """
    edits: list[Edit] = []
    # The question is context, a space and stem.
    begins = {"context": 0, "stem": len(item.question) - len(item.stem)}
    for field, begin in begins.items():
        shifts = {field: 0, "question": begin}
        found = [
            (m.start - shifts[m.field], m.end - shifts[m.field], m.type or "entity")
            for m in item.mentions
            if m.field in shifts
        ]
        edits += perturb_text(item.text_of(field), found, perturbation, rng, resources, field=field)
    return Candidate(item=item, edits=tuple(edits))


def labels_of(spans: Sequence[tuple[int, int]], mentions: Iterable[Marked]) -> tuple[str, ...]:
    """Return IOB2 labels of tokens from entities in characters.

    An entity takes every token it touches, because annotators may differ in spaces and hyphens at
    its borders. Of overlapping entities the first, and of those the longest, wins.

    >>> labels_of([(0, 2), (3, 9), (10, 14)], [(3, 14, "Drug")])
    ('O', 'B-Drug', 'I-Drug')
    """
    labels = [OUTSIDE] * len(spans)
    for start, end, type_ in sorted(set(mentions), key=lambda m: (m[0], -m[1], m[2])):
        touched = [n for n, (first, last) in enumerate(spans) if first < end and start < last]
        if touched and all(labels[n] == OUTSIDE for n in touched):
            for n in touched:
                labels[n] = f"{'B' if n == touched[0] else 'I'}-{type_}"
    return tuple(labels)
