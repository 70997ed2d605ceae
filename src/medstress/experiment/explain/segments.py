"""Which part of an asked text is which: fields of the item, edits, and the prompt around them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from medstress.backends.local.tokens import shared_length
from medstress.core.text import Edit
from medstress.experiment.explain.calls import Texts, first_texts
from medstress.tasks.multiple_choice import Flow

PROMPT = "prompt"
"""The place of what the prompt says around the item."""
ENTITY, SENTENCE = "entity", "sentence"
"""The places of a tagged text's tokens."""
_FIRST_MARK = 0xF0000
"""Characters for private use from here on stand for fields, to find them in a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of an asked text; may be empty."""

    text: str = ""
    """As asked; empty for a tagged text."""
    pieces: tuple[str, ...] = ()
    """The tokens of a tagged text."""
    place: str
    """Field of the item, an option letter (with the letter before the option), `entity`,
    `sentence`, or `prompt`."""
    edited: bool = False
    """Whether an edit replaces it, or put it in."""
    number: int = 0
    """Which of the asked texts it belongs to."""


@dataclass(frozen=True, slots=True)
class Pair:
    """The segments of a prompt before and after the edits, aligned: as many, in the same order."""

    before: tuple[Segment, ...]
    after: tuple[Segment, ...]


def segments_of(
    flow_of: Callable[[Any], Flow], unit: Any, fields: Mapping[str, str], edits: Sequence[Edit]
) -> Pair:
    """Return the segments of what is asked about a unit, clean and edited.

    Where fields stand is found by rendering the prompt once more, with a mark in place of each. If
    a prompt does more than place texts, only the part that differs is known as the edit.

    Args:
        flow_of: starts the victim's flow for a candidate.
        unit: the item, or its part.
        fields: its texts by name; empty if edits count tokens.
        edits: of the trial.
    """
    clean, edited = unit.candidate(), unit.candidate(tuple(edits))
    before, after = first_texts(flow_of(clean)), first_texts(flow_of(edited))
    if not fields:
        return _of_tokens(unit, before, edits)
    marks = {name: chr(_FIRST_MARK + i) for i, (name, text) in enumerate(fields.items()) if text}
    marked = unit.candidate(
        tuple(
            Edit(field=name, start=0, end=len(fields[name]), replacement=mark)
            for name, mark in marks.items()
        )
    )
    shown = first_texts(flow_of(marked))
    found = [
        _placed(shown, {mark: name for name, mark in marks.items()}, fields, edits, texts, is_after)
        for texts, is_after in ((before, False), (after, True))
    ]
    if found[0] is None or found[1] is None or len(found[0]) != len(found[1]):
        return _differing(before, after)
    pairs = [(a, b) for a, b in zip(found[0], found[1], strict=True) if a.text or b.text]
    return Pair(tuple(a for a, _ in pairs), tuple(b for _, b in pairs))


def _placed(
    shown: Texts,
    names: Mapping[str, str],
    fields: Mapping[str, str],
    edits: Sequence[Edit],
    texts: Texts,
    is_after: bool,
) -> list[Segment] | None:
    """Put fields in place of their marks; None if that is not what was asked."""
    if len(shown) != len(texts):
        return None
    found: list[Segment] = []
    for number, (marked, text) in enumerate(zip(shown, texts, strict=True)):
        part: list[Segment] = []
        for i, piece in enumerate(re.split(f"([{''.join(names)}])", marked)):
            if i % 2 == 0:
                part.append(Segment(text=piece, place=PROMPT))
                continue
            name = names[piece]
            part[-1:] = _with_label(part[-1], name) if len(name) == 1 else part[-1:]
            own = [edit for edit in edits if edit.field == name]
            part += _pieces(fields[name], own, name, is_after)
        fitted = _stripped(part, text)
        if fitted is None:
            return None
        found += [replace(segment, number=number) for segment in fitted]
    return found


def _with_label(literal: Segment, letter: str) -> list[Segment]:
    """Cut off the letter that introduces an option, which belongs to the option."""
    label = re.search(rf"\S*\b{letter}\b\S*\s*\Z", literal.text)
    at = label.start() if label else len(literal.text)
    return [
        replace(literal, text=literal.text[:at]),
        replace(literal, text=literal.text[at:], place=letter),
    ]


def _pieces(text: str, edits: Sequence[Edit], place: str, is_after: bool) -> Iterator[Segment]:
    """Cut a field at its edits: kept and edited pieces take turns, kept ones first and last."""
    last = 0
    for edit in sorted(edits, key=lambda edit: (edit.start, edit.end)):
        yield Segment(text=text[last : edit.start], place=place)
        piece = edit.replacement if is_after else text[edit.start : edit.end]
        yield Segment(text=piece, place=place, edited=True)
        last = edit.end
    yield Segment(text=text[last:], place=place)


def _stripped(part: Sequence[Segment], text: str) -> list[Segment] | None:
    """Return segments that make up a text, without white space that a prompt strips at its ends."""
    whole = "".join(segment.text for segment in part)
    start = 0 if whole == text else len(whole) - len(whole.lstrip())
    if whole[start : start + len(text)] != text or whole[start + len(text) :].strip():
        return None
    found, place = [], 0
    for segment in part:
        first = min(max(start - place, 0), len(segment.text))
        end = max(min(start + len(text) - place, len(segment.text)), first)
        place += len(segment.text)
        found.append(replace(segment, text=segment.text[first:end]))
    return found


def _of_tokens(unit: Any, tokens: Texts, edits: Sequence[Edit]) -> Pair:
    """Return the segments of a tagged text: edits, the entity, and the sentence around them."""
    entity = getattr(unit, "entity", None)
    inside = range(entity.start, entity.end) if entity is not None else range(0)
    ordered = sorted(edits, key=lambda edit: (edit.start, edit.end))
    cuts = {0, len(tokens)} | {place for e in ordered for place in (e.start, e.end)}
    # An edit that reaches over an end of the entity stays whole.
    cuts |= {
        place
        for place in (inside.start, inside.stop)
        if not any(edit.start < place < edit.end for edit in ordered)
    }
    new = {(edit.start, edit.end): tuple(edit.replacement.split()) for edit in ordered}
    before, after = [], []
    for start, end in pairwise(sorted(cuts)):
        segment = Segment(
            pieces=tokens[start:end],
            place=ENTITY if set(inside) & set(range(start, end)) else SENTENCE,
            edited=(start, end) in new,
        )
        before.append(segment)
        after.append(replace(segment, pieces=new.get((start, end), segment.pieces)))
    return Pair(tuple(before), tuple(after))


def _differing(before: Texts, after: Texts) -> Pair:
    """Return what two prompts share at both ends, and what differs between, as the edit."""
    sides: tuple[list[Segment], list[Segment]] = ([], [])
    for number, texts in enumerate(zip(before, after, strict=True)):
        start = shared_length(*texts)
        end = shared_length(*(text[start:][::-1] for text in texts))
        for side, text in zip(sides, texts, strict=True):
            cuts = (0, start, len(text) - end, len(text))
            side += [
                Segment(text=text[a:b], place=PROMPT, edited=i == 1, number=number)
                for i, (a, b) in enumerate(pairwise(cuts))
            ]
    return Pair(tuple(sides[0]), tuple(sides[1]))
