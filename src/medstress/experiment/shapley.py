"""The texts of a call, with some of their tokens masked, and the Owen values of these tokens.

The search, its order and its numbers are those of the partition explainer of the package shap,
which Xian et al. use. Here it is a generator, since shap calls a model, while a scheduler answers
many prompts at once; and shap spends 15 seconds on its imports and on compiling.

References:
    Owen, "Values of games with a priori unions", 1977.
    Lundberg and Lee, "A unified approach to interpreting model predictions", NeurIPS 2017.
    Xian et al., "Assessing biomedical knowledge robustness in large language models by
    query-efficient sampling attacks", TMLR 2025, section 5.3 and Appendix E.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
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


Floats: TypeAlias = NDArray[np.float64]
Masks: TypeAlias = list[Mask]
Tree: TypeAlias = "int | tuple[Tree, Tree]"
"""A token, or two branches."""

EVALUATIONS = 500
"""Masked texts of one prompt at most, by default; shap's own default."""
BATCH = 64
"""Masked texts that the search asks at once. shap asks 10; more fill the batches of a back end, and
the search, which goes on where values are largest, chooses a little less well."""
LEVELS = 3
"""Levels of the tree whose masks are asked in the first round: with batches of 32 or more the
search asks them in any case."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Owen:
    """The values of one prompt."""

    values: Floats
    """Of each token for each output, `(n_tokens, n_outputs)`."""
    base: Floats
    """The outputs with all tokens masked, `(n_outputs,)`."""
    full: Floats
    """The outputs of the prompt itself, `(n_outputs,)`."""
    n_evaluations: int
    """Distinct masked texts that were asked, the prompt itself included."""

    @property
    def gap(self) -> float:
        """How far the values and the base are from adding up to the prompt's outputs."""
        return float(np.max(np.abs(self.values.sum(axis=0) + self.base - self.full)))


def owen_values(
    tree: Tree, n: int, *, evaluations: int = EVALUATIONS, batch: int = BATCH
) -> Generator[Masks, Floats, Owen]:
    """Compute the Owen values of a prompt's tokens.

    The search halves the tree from the top where the outputs change most, until the evaluations
    are used up; what is left at a branch is shared equally among its tokens. Values add up to the
    difference that the whole prompt makes, however early the search ends.

    Args:
        tree: over the tokens; groups of tokens before their parts.
        n: tokens, at least 1.
        evaluations: masked texts at most; the first levels may take a few more.
        batch: masked texts that are asked at once.

    Yields:
        Distinct masks; expects their outputs, `(n_masks, n_outputs)`.
    """
    levels = LEVELS if batch >= 2 * 4 ** (LEVELS - 1) <= evaluations else 0
    known: dict[bytes, Floats] = {}

    def asked(masks: Masks) -> Generator[Masks, Floats, list[Floats]]:
        """Return the outputs of masks; those that are new are asked."""
        new = {as_key(mask): mask for mask in masks if as_key(mask) not in known}
        if new:
            known.update(zip(new, (yield list(new.values())), strict=True))
        return [known[as_key(mask)] for mask in masks]

    yield from asked(first_masks(tree, n, levels))
    nothing = np.zeros(n, dtype=bool)
    base, full = known[as_key(nothing)], known[as_key(~nothing)]
    children, inside = _numbered(tree, n)
    credit = np.zeros((len(inside), len(base)))
    # Branches to halve: where outputs change most, then by lot, which is the same in every process.
    lots = np.random.RandomState(0)
    waiting = [(0.0, 0.0, (nothing, base, full, len(inside) - 1, 1.0))]
    n_asked, most = 0, evaluations - 2
    while waiting:
        halved: list[tuple[Mask, Mask, Mask, Floats, Floats, int, float]] = []
        while waiting and (n_asked >= most or 2 * len(halved) < min(batch, most - n_asked)):
            shown, low, high, branch, weight = heappop(waiting)[2]
            if branch < n or n_asked >= most:
                credit[branch] += (high - low) * weight
                continue
            left, right = children[branch]
            halved.append(
                (shown, shown | inside[left], shown | inside[right], low, high, branch, weight)
            )
        outputs = iter((yield from asked([mask for part in halved for mask in part[1:3]])))
        n_asked += 2 * len(halved)
        for shown, with_left, with_right, low, high, branch, weight in halved:
            left, right = children[branch]
            of_left, of_right = next(outputs), next(outputs)
            for context, before, after, half in (
                (shown, low, of_left, left),
                (shown, low, of_right, right),
                (with_right, of_right, high, left),
                (with_left, of_left, high, right),
            ):
                change = float(np.max(np.abs(after - before))) * (weight / 2)
                entry = (context, before, after, half, weight / 2)
                heappush(waiting, (-change, float(lots.randn()), entry))
    sizes = [int(one.sum()) for one in inside]
    for branch in range(len(inside) - 1, n - 1, -1):  # parents before children
        for half in children[branch]:
            credit[half] += credit[branch] * sizes[half] / sizes[branch]
    return Owen(values=credit[:n], base=base, full=full, n_evaluations=len(known))


def _numbered(tree: Tree, n: int) -> tuple[dict[int, tuple[int, int]], Masks]:
    """Number the branches of a tree over tokens 0 to n - 1, from n on and children before parents.

    Returns:
        The two halves of each branch, and the tokens inside of each token and branch.
    """
    children: dict[int, tuple[int, int]] = {}
    inside: Masks = list(np.eye(n, dtype=bool))

    def number(part: Tree) -> int:
        if isinstance(part, int):
            return part
        left, right = number(part[0]), number(part[1])
        children[len(inside)] = left, right
        inside.append(inside[left] | inside[right])
        return len(inside) - 1

    number(tree)
    return children, inside


def tree_of(sizes: Sequence[int]) -> Tree | None:
    """Return a balanced tree over segments, and over the tokens within each.

    A segment never shares a branch with part of another one, so a group of tokens is a whole option
    or edit before it is a part of one. Segments without tokens count when the tree is balanced.
    Hence two prompts that differ in the length of one segment have the same tree above it, and
    share all masked texts in which it is hidden.

    Args:
        sizes: tokens of each segment, in order.

    >>> tree_of([1, 2, 1])
    (0, ((1, 2), 3))
    >>> tree_of([0, 3, 0])
    (0, (1, 2))
    >>> tree_of([0]) is None
    True
    """
    starts = np.concatenate([[0], np.cumsum(sizes)])
    segments = [
        _halves([*range(int(start), int(start) + size)])
        for start, size in zip(starts, sizes, strict=False)
    ]
    return _halves(segments)


def _halves(parts: Sequence[Tree | None]) -> Tree | None:
    if len(parts) < 2:
        return parts[0] if parts else None
    middle = len(parts) // 2
    left, right = _halves(parts[:middle]), _halves(parts[middle:])
    if left is None or right is None:
        return right if left is None else left
    return (left, right)


def first_masks(tree: Tree, n: int, levels: int) -> Masks:
    """Return the masks that a search asks in its first levels, whatever it is answered.

    The search begins with nothing shown and everything shown. At every branching it shows the left
    and the right branch on top of what is shown already, which at the next level is nothing more or
    the sibling as well.
    """
    found = [np.zeros(n, dtype=bool), np.ones(n, dtype=bool)]
    open_: list[tuple[Mask, Tree]] = [(found[0], tree)]
    for _ in range(levels):
        deeper: list[tuple[Mask, Tree]] = []
        for shown, branch in open_:
            if isinstance(branch, int):
                continue
            left, right = shown.copy(), shown.copy()
            left[_tokens(branch[0])] = True
            right[_tokens(branch[1])] = True
            found += [left, right]
            deeper += [(shown, branch[0]), (shown, branch[1])]
            deeper += [(right, branch[0]), (left, branch[1])]
        open_ = deeper
    return found


def _tokens(branch: Tree) -> list[int]:
    if isinstance(branch, int):
        return [branch]
    return [*_tokens(branch[0]), *_tokens(branch[1])]
