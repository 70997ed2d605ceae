"""The texts of a call that is explained, its parts, and the call with some of them masked."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.backends.local.tokens import shared_length
from medstress.core.calls import (
    Answer,
    Call,
    Choose,
    Chosen,
    Classify,
    Compare,
    Generate,
    Prompt,
    Rank,
    Request,
    Score,
    Tag,
)
from medstress.core.errors import TrialError
from medstress.core.text import Edit
from medstress.tasks.multiple_choice import Flow, changed

# -- the texts of a call ---------------------------------------------------------------------------


Texts: TypeAlias = tuple[str, ...]


def texts_of(call: Call) -> Texts:
    """Return the texts of a call that are explained.

    A plain prompt is explained as a whole; of a conversation, the last turn of the user, which
    shows the question. A multiple-choice head reads the question and each option.

    Raises:
        TrialError: the call is no question, or a conversation without a turn of the user.
    """
    match call:
        case Score() | Generate() | Choose():
            if isinstance(call.prompt, str):
                return (call.prompt,)
            said = [turn.content for turn in call.prompt if turn.role == "user"]
            if not said:
                raise TrialError("not explained: the conversation has no turn of the user")
            return (said[-1],)
        case Rank():
            return (call.prompt, *call.options)
        case Tag() | Compare() | Classify():
            raise TrialError("not explained: only answers to questions are")


def with_texts(call: Call, old: Texts, new: Texts) -> Call:
    """Return a call with other texts, wherever the old ones stand in it.

    Later turns of a conversation repeat its first ones, and there the texts are replaced too. A
    call that does not show them stays as it is, such as that for the likelihood of an option alone.

    >>> with_texts(Choose("Is it? A. yes", "A"), ("Is it? A. yes",), ("... A. yes",)).prompt
    '... A. yes'
    """
    match call:
        case Choose():
            return replace(call, prompt=_with_text(call.prompt, old[0], new[0]))
        case Score() | Generate():
            return replace(call, prompt=_with_prompt(call.prompt, old[0], new[0]))
        case Rank():
            if texts_of(call) != old:
                return call
            return replace(call, prompt=new[0], options=new[1:])
        case Tag() | Compare() | Classify():
            return call


def _with_text(text: str, old: str, new: str) -> str:
    # A conversation with a model without turns is one text that begins with the first turns.
    return new + text[len(old) :] if text.startswith(old) else text


def _with_prompt(prompt: Prompt, old: str, new: str) -> Prompt:
    if isinstance(prompt, str):
        return _with_text(prompt, old, new)
    return tuple(
        replace(turn, content=new) if turn.role == "user" and turn.content == old else turn
        for turn in prompt
    )


def masked_flow(flow: Flow, old: Texts, new: Texts) -> Flow:
    """Run a flow that shows other texts; its answers are read as if it showed its own."""

    def ask(request: Request) -> Request:
        return replace(request, call=with_texts(request.call, old, new))

    def read(answer: Answer) -> Answer:
        # Some functions return their prompt followed by the answer.
        if isinstance(answer, Chosen) and answer.text is not None and answer.text.startswith(new):
            shown = next(text for text in new if answer.text.startswith(text))
            return replace(answer, text=old[new.index(shown)] + answer.text[len(shown) :])
        return answer

    return changed(flow, ask, read)


def first_texts(flow: Flow) -> Texts:
    """Return the explained texts of a flow's first call; the flow is closed."""
    try:
        return texts_of(next(flow)[0].call)
    finally:
        flow.close()


# -- tokens and masks ------------------------------------------------------------------------------


Mask: TypeAlias = NDArray[np.bool_]
"""Which tokens are shown, `(n_tokens,)`."""
Cuts: TypeAlias = Callable[[str], Sequence[int]]
"""Returns the places, in characters, where the tokens of a text begin."""

MASK = "..."
"""The mask text by default, as in shap's masker of texts for models without a mask token."""
_WORD = re.compile(r"\s*\S+")


def word_cuts(text: str) -> list[int]:
    r"""Return where the words of a text begin, each with the white space before it.

    White space at the end belongs to the last word.

    >>> text = "  Take aspirin.\r\nWhy?\n"
    >>> pieces(text, word_cuts)
    ('  Take', ' aspirin.', '\r\nWhy?\n')
    """
    return [found.start() for found in _WORD.finditer(text)]


def pieces(text: str, cuts: Cuts) -> tuple[str, ...]:
    """Cut a text into tokens, whose concatenation is the text.

    Args:
        text: any.
        cuts: places outside the text, repeated or unordered ones do no harm.
    """
    places = sorted({0, len(text), *(place for place in cuts(text) if 0 < place < len(text))})
    return tuple(text[start:end] for start, end in pairwise(places))


@dataclass(frozen=True, slots=True, kw_only=True)
class Masker:
    """Shows a text with some of its tokens masked."""

    texts: tuple[tuple[str, ...], ...]
    """The tokens of each text."""
    mask: str = MASK
    """Stands for a run of masked tokens; empty leaves them out."""

    @property
    def n_tokens(self) -> int:
        """Tokens of all texts together."""
        return sum(map(len, self.texts))

    def __call__(self, shown: Mask) -> tuple[str, ...]:
        """Return the texts under a mask; if all tokens are shown, they are the texts themselves."""
        masked, start = [], 0
        for tokens in self.texts:
            part = shown[start : start + len(tokens)]
            start += len(tokens)
            masked.append("".join(_runs(tokens, part, self.mask)))
        return tuple(masked)


def _runs(tokens: Sequence[str], shown: Mask, mask: str) -> Iterable[str]:
    """Yield shown tokens, and the mask in place of each run of others.

    The white space around a run stays, so that words stay apart; without a mask text it goes with
    the run. A run of nothing but white space stays.
    """
    hidden = ""
    for token, is_shown in zip(tokens, shown, strict=True):
        if not is_shown:
            hidden += token
            continue
        yield from _masked(hidden, mask)
        hidden = ""
        yield token
    yield from _masked(hidden, mask)


def _masked(run: str, mask: str) -> Iterable[str]:
    bare = run.strip()
    if not bare:
        yield run  # nothing to hide, and words would be joined
    elif mask:
        start = run.index(bare)
        yield run[:start] + mask + run[start + len(bare) :]


def as_key(mask: Any) -> bytes:
    """Return a mask as a key of a dictionary."""
    return np.packbits(np.asarray(mask, dtype=bool)).tobytes()


# -- segments --------------------------------------------------------------------------------------


PROMPT = "prompt"
"""The place of what the prompt says around the item."""
_FIRST_MARK = 0xF0000
"""Characters for private use from here on stand for fields, to find them in a prompt."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """A part of an asked text; may be empty."""

    text: str
    """As asked."""
    place: str
    """Field of the item, an option letter (with the letter before the option), or `prompt`."""
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
