"""Explain answers: the Owen values of the tokens of prompts before and after the edits of a trial.

An explanation is work for the scheduler: journalled, answered, cached and replayed like a trial.
Its calls have the purpose `explain` and count in the ledger under `other`.

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

import math
import re
from collections import Counter
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from itertools import accumulate, groupby, pairwise
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.run import Run
from medstress.backends.local.tokens import shared_length
from medstress.core.arms import Place
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
    Reply,
    Request,
    Score,
    Tag,
)
from medstress.core.errors import TrialError, UsageError, did_you_mean
from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.core.outcomes import Prediction, Verdict
from medstress.core.text import Edit
from medstress.core.trials import Trial
from medstress.core.words import plural
from medstress.engine.inquiry import Asked, InquiryFlow, InquiryResult
from medstress.engine.work import CallRound, Guard, Purpose, answer_all
from medstress.experiment.follow_ups import Again, Asking, Stage
from medstress.experiment.plan import Prepared
from medstress.store.codec import decode_edits, edits_text
from medstress.store.reader import RunReader
from medstress.tasks.multiple_choice import Flow, Task, changed
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import ShuffledOptions, Wrapper

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
            turns = [turn.content for turn in call.prompt if turn.role == "user"]
            if not turns:
                raise TrialError("not explained: the conversation has no turn of the user")
            return (turns[-1],)
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
"""Replaces a run of masked tokens, as in shap's masker of texts for models without a mask
token."""
_WORD = re.compile(r"\s*\S+")


def word_cuts(text: str) -> list[int]:
    r"""Return where the words of a text begin, each with the white space before it.

    White space at the end belongs to the last word.

    >>> text = "  Take aspirin.\r\nWhy?\n"
    >>> pieces(text, word_cuts)
    ('  Take', ' aspirin.', '\r\nWhy?\n')
    """
    return [match.start() for match in _WORD.finditer(text)]


def pieces(text: str, cuts: Cuts) -> tuple[str, ...]:
    """Cut a text into tokens, whose concatenation is the text.

    Args:
        text: any.
        cuts: places outside the text, repeated or unordered ones do no harm.
    """
    places = sorted({0, len(text), *(place for place in cuts(text) if 0 < place < len(text))})
    return tuple(text[start:end] for start, end in pairwise(places))


def masked(texts: Sequence[Sequence[str]], shown: Mask) -> Texts:
    """Return texts with some of their tokens masked.

    The white space around a run of masked tokens stays, so that words stay apart. A run of nothing
    but white space stays.

    Args:
        texts: the tokens of each text.
        shown: which of all tokens are shown; if all are, the texts are as they were.

    >>> masked([("Take", " the", " red", " pill.")], np.array([True, False, False, True]))
    ('Take ... pill.',)
    """
    is_shown, made = iter(shown.tolist()), list[str]()
    for tokens in texts:
        text = ""
        for shows, run in groupby(zip(tokens, is_shown, strict=False), key=lambda one: one[1]):
            part = "".join(token for token, _ in run)
            bare = part.strip()
            text += part if shows or not bare else part.replace(bare, MASK)
        made.append(text)
    return tuple(made)


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
    both = [
        _placed(shown, {mark: name for name, mark in marks.items()}, fields, edits, texts, is_after)
        for texts, is_after in ((before, False), (after, True))
    ]
    if both[0] is None or both[1] is None or len(both[0]) != len(both[1]):
        return _differing(before, after)
    pairs = [(a, b) for a, b in zip(both[0], both[1], strict=True) if a.text or b.text]
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
    segments: list[Segment] = []
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
        segments += [replace(segment, number=number) for segment in fitted]
    return segments


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
    kept, place = [], 0
    for segment in part:
        first = min(max(start - place, 0), len(segment.text))
        end = max(min(start + len(text) - place, len(segment.text)), first)
        place += len(segment.text)
        kept.append(replace(segment, text=segment.text[first:end]))
    return kept


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


# -- Owen values -----------------------------------------------------------------------------------


Floats: TypeAlias = NDArray[np.float64]
Masks: TypeAlias = list[Mask]

EVALUATIONS = 500
"""Masked texts of one prompt at most, by default; shap's own default."""
BATCH = 64
"""Masked texts that the search asks at once. shap asks 10; more fill the batches of a back end, and
the search, which goes on where values are largest, chooses a little less well."""


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
    sizes: Sequence[int], *, evaluations: int = EVALUATIONS, batch: int = BATCH
) -> Generator[Masks, Floats, Owen]:
    """Compute the Owen values of a prompt's tokens.

    The search halves the tree from the top where the outputs change most, until the evaluations
    are used up; what is left at a branch is shared equally among its tokens. Values add up to the
    difference that the whole prompt makes, however early the search ends.

    Args:
        sizes: tokens of each segment, at least 1 in all; segments are halved before their parts.
        evaluations: masked texts at most.
        batch: masked texts that are asked at once.

    Yields:
        Distinct masks; expects their outputs, `(n_masks, n_outputs)`.
    """
    values: dict[bytes, Floats] = {}

    def asked(masks: Masks) -> Generator[Masks, Floats, list[Floats]]:
        """Return the outputs of masks; those that are new are asked."""
        new = {as_key(mask): mask for mask in masks if as_key(mask) not in values}
        if new:
            values.update(zip(new, (yield list(new.values())), strict=True))
        return [values[as_key(mask)] for mask in masks]

    n, (children, inside) = sum(sizes), branches_of(sizes)
    nothing = np.zeros(n, dtype=bool)
    base, full = yield from asked([nothing, ~nothing])
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
    return Owen(values=credit[:n], base=base, full=full, n_evaluations=len(values))


def branches_of(sizes: Sequence[int]) -> tuple[dict[int, tuple[int, int]], Masks]:
    """Return a balanced tree over segments, and over the tokens within each.

    A segment never shares a branch with part of another one, so a group of tokens is a whole option
    or edit before it is a part of one. Segments without tokens count when the tree is balanced.
    Hence two prompts that differ in the length of one segment have the same tree above it, and
    share all masked texts in which it is hidden.

    Args:
        sizes: tokens of each segment, in order.

    Returns:
        The two halves of each branch, and the tokens inside of each token and branch. Tokens are
        numbered from 0, branches after them and after their halves.

    >>> branches_of([1, 2, 1])[0]
    {4: (1, 2), 5: (4, 3), 6: (0, 5)}
    >>> branches_of([0, 3, 0])[0]
    {3: (1, 2), 4: (0, 3)}
    """
    children: dict[int, tuple[int, int]] = {}
    inside: Masks = list(np.eye(sum(sizes), dtype=bool))

    def halved(parts: Sequence[int | None]) -> int | None:
        if len(parts) < 2:
            return parts[0] if parts else None
        middle = len(parts) // 2
        left, right = halved(parts[:middle]), halved(parts[middle:])
        if left is None or right is None:
            return right if left is None else left
        children[len(inside)] = left, right
        inside.append(inside[left] | inside[right])
        return len(inside) - 1

    starts = accumulate(sizes, initial=0)
    halved([halved(range(a, a + size)) for a, size in zip(starts, sizes, strict=False)])
    return children, inside


# -- the explanation -------------------------------------------------------------------------------


DIGITS = 9
"""Decimals of stored values."""


def outputs_of(prediction: Prediction, letters: Sequence[str]) -> Floats:
    """Return the outputs of one question, `(n_options,)`; an unreadable answer has 0 for all.

    Probabilities stay between 0 and 1, so that values are shares of a change of probability, and
    victims with and without scores are on one scale; log odds would be ruled by prompts that no one
    would ask.
    """
    if prediction.scores is not None:
        return np.array([math.exp(value) for value in prediction.scores])
    return np.array([float(name == prediction.answer) for name in letters])


def kind_of(predictions: Iterable[Prediction]) -> str:
    """Return what outputs are: probabilities by the victim's scores, 1 for the answer, or both."""
    scored = {prediction.scores is not None for prediction in predictions}
    return "mixed" if len(scored) > 1 else "probability" if scored == {True} else "answer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation(Asked):
    """The explanation of one trial's prompt, clean and edited."""

    edits: tuple[Edit, ...]
    """Of the success, or of the last query of an attack that failed."""
    evaluations: int
    """Masked texts of one prompt at most."""

    def start(self) -> InquiryFlow:
        """Begin to explain.

        Yields:
            Rounds of calls; every masked text is a query, numbered from 1.

        Returns:
            The result, with the values as its findings.
        """
        result = InquiryResult(purpose=self.purpose, spec=self.spec)
        with Guard(result):
            result.findings = yield from _explain(self)
        return result


Search: TypeAlias = Generator[Masks, Floats, Owen]


class _Side:
    """One of the two prompts: its tokens, and the search for their values."""

    def __init__(
        self, work: Explanation, segments: Sequence[Segment], edits: Sequence[Edit]
    ) -> None:
        self._work = work
        self._candidate = work.item.candidate(tuple(edits))
        self.segments = segments
        cut = [_cut(segment.text, work.victim) for segment in segments]
        self.sizes = [len(tokens) for tokens in cut]
        self.tokens = [token for tokens in cut for token in tokens]
        of_text: dict[int, list[str]] = {}
        for segment, part in zip(segments, cut, strict=True):
            of_text.setdefault(segment.number, []).extend(part)
        self._of_text = list(of_text.values())
        if not self.tokens:
            raise TrialError("not explained: the prompt is empty")
        self._whole = masked(self._of_text, np.ones(len(self.tokens), dtype=bool))
        self.search: Search = owen_values(self.sizes, evaluations=work.evaluations)
        self.masks: Masks = next(self.search)
        self.found: Owen | None = None
        self.answer: Prediction | None = None

    @property
    def texts(self) -> list[Texts]:
        """What is asked next."""
        return [masked(self._of_text, mask) for mask in self.masks]

    def flow(self, texts: Texts) -> Any:
        """Return the victim's flow about masked texts."""
        flow = self._work.victim.flow(self._candidate)
        return flow if texts == self._whole else masked_flow(flow, self._whole, texts)

    def take(self, predictions: Sequence[Prediction]) -> None:
        """Go on with the answers to `masks`."""
        for mask, prediction in zip(self.masks, predictions, strict=True):
            if mask.all():
                self.answer = prediction
        outputs = [outputs_of(one, self._work.item.letters) for one in predictions]
        try:
            self.masks = self.search.send(np.stack(outputs))
        except StopIteration as stop:
            self.masks, self.found = [], stop.value

    def as_json(self) -> dict[str, Any]:
        """Return the findings."""
        assert self.found is not None
        assert self.answer is not None
        # Rounded first, so that readers can check the gap.
        rounded = Owen(
            values=np.round(self.found.values, DIGITS),
            base=np.round(self.found.base, DIGITS),
            full=np.round(self.found.full, DIGITS),
            n_evaluations=self.found.n_evaluations,
        )
        return {
            "answer": self.answer.answer,
            "segments": [
                [segment.place, segment.edited, size]
                for segment, size in zip(self.segments, self.sizes, strict=True)
            ],
            "tokens": self.tokens,
            "values": rounded.values.tolist(),
            "base": rounded.base.tolist(),
            "full": rounded.full.tolist(),
            "evaluations": rounded.n_evaluations,
            "gap": rounded.gap,
        }


def _explain(
    work: Explanation,
) -> Generator[CallRound, tuple[Reply, ...], dict[str, Any]]:
    """Search both prompts at once: they share batches, and texts in which the edit is masked."""
    pair = segments_of(work.victim.flow, work.item, work.item.texts, work.edits)
    sides = [_Side(work, pair.before, ()), _Side(work, pair.after, work.edits)]
    n_asked, predictions = 0, list[Prediction]()
    try:
        while open_ := [side for side in sides if side.masks]:
            flows = [side.flow(texts) for side in open_ for texts in side.texts]
            held = yield from answer_all(flows, work.purpose, n_asked)
            answers = [one.answer for one in held]
            n_asked += len(answers)
            predictions += answers
            replies = iter(answers)
            for side in open_:
                side.take([next(replies) for _ in side.masks])
    finally:
        for side in sides:
            side.search.close()
    before, after = (side.as_json() for side in sides)
    return {
        "outputs": list(work.item.choices),
        "key": work.item.key,
        "value": kind_of(predictions),
        "units": "words" if work.victim.backend.token_starts("a") is None else "tokens",
        "before": before,
        "after": after,
    }


def _cut(text: str, victim: Victim) -> tuple[str, ...]:
    """Cut a text into the victim's tokens; into words if the victim does not say which they are."""

    def cuts(text: str) -> Sequence[int]:
        starts = victim.backend.token_starts(text)
        return word_cuts(text) if starts is None else starts

    return pieces(text, cuts) if text else ()


# -- which trials ----------------------------------------------------------------------------------


_ENDED = (Verdict.FLIPPED, Verdict.HELD, Verdict.MEASURED)
_LISTED = 5
"""Trials that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which trials are explained."""

    trials: tuple[str, ...] = ()
    """By their identifiers, unambiguous beginnings of them, or the item of one trial; empty for all
    successes, and as many failed attacks of the same arms."""
    limit: int | None = None
    """Most successes, and most failed attacks."""


def choose(trials: Sequence[Trial], selection: Selection) -> list[Trial]:
    """Return the selected trials, in the order of the run.

    Successes are drawn by a hash of the trial, so a larger limit adds to a smaller one. For every
    success of an arm, one attack of the arm that failed is drawn as a control, if it has as many.

    Args:
        trials: all trials of the run.
        selection: which of them.

    Raises:
        UsageError: a trial is unknown, several fit, or one has nothing to explain, or there is no
            success.
    """
    if selection.trials:
        named = {_named(trials, text).id for text in selection.trials}
        return [trial for trial in trials if trial.id in named]
    successes = [
        trial
        for trial in trials
        if trial.first is not None and not trial.arm.is_control and not trial.is_refused
    ]
    if not successes:
        raise UsageError(
            "there is no success to explain; failed attacks are explained with --trial ID"
        )
    drawn = _drawn(successes)[: selection.limit]
    wanted = Counter(map(_arm, drawn))
    held = [trial for trial in trials if trial.verdict is Verdict.HELD and _shows_edit(trial)]
    for trial in _drawn(held):
        if wanted[_arm(trial)] > 0:
            wanted[_arm(trial)] -= 1
            drawn.append(trial)
    chosen = {trial.id for trial in drawn}
    return [trial for trial in trials if trial.id in chosen]


def _named(trials: Sequence[Trial], text: str) -> Trial:
    """Return the trial with this id, beginning of one, or item; an attack before its controls.

    Raises:
        UsageError: none or several fit, or it has nothing to explain.
    """
    ways: tuple[Callable[[Trial], bool], ...] = (
        lambda one: one.id == text,
        lambda one: one.item.id == text and not one.arm.is_control,
        lambda one: one.item.id == text,
        lambda one: text != "" and text in (one.id[: len(text)], _bare(one.id)[: len(text)]),
    )
    fitting = next(filter(None, ([one for one in trials if fits(one)] for fits in ways)), [])
    if not fitting:
        names = [*(_bare(one.id) for one in trials), *(one.item.id for one in trials)]
        raise UsageError(
            f"--trial {text!r}: this run has no such trial or item{did_you_mean(text, names)}; "
            "medstress case DIR lists them"
        )
    if len(fitting) > 1:
        some = ", ".join(
            f"{_bare(one.id)} ({one.arm.attack.label} on {one.arm.place.group}, "
            f"{one.verdict.value})"
            for one in fitting[:_LISTED]
        )
        raise UsageError(f"--trial {text!r}: {len(fitting):,} trials fit; give one of {some}")
    (trial,) = fitting
    if trial.verdict not in _ENDED or not _shows_edit(trial):
        raise UsageError(
            f"--trial {text}: it ended as {trial.verdict.value!r}, so there is no edited prompt to "
            "explain; name a trial that was flipped or held"
        )
    return trial


def _bare(trial_id: str) -> str:
    """Return an id without the mark of its hash."""
    return trial_id.rpartition(":")[2]


def _shows_edit(trial: Trial) -> bool:
    """Return whether the victim was asked about an edit, and not only probed."""
    return trial.queries.asked > trial.queries.probes


def _drawn(trials: Iterable[Trial]) -> list[Trial]:
    return sorted(trials, key=lambda trial: digest(["explain", 0, trial.id]))


def _arm(trial: Trial) -> tuple[Place, str]:
    return trial.arm.place, trial.arm.attack.label


def explanations(
    chosen: Iterable[Trial], edits: Mapping[str, str], again: Again, evaluations: int
) -> list[Explanation]:
    """Return the work for these trials; the same in every process.

    Args:
        chosen: the trials.
        edits: by trial, as JSON.
        again: parts of the experiment.
        evaluations: masked texts of one prompt at most.

    Raises:
        UsageError: a victim or attack is not in the experiment, or has no one prompt.
    """
    work = []
    for trial in chosen:
        try:
            about = again.about(trial)
        except KeyError as error:
            raise UsageError(
                f"trial {trial.id} ({trial.arm.attack.label} on {trial.arm.place.victim}, item "
                f"{trial.item.id!r}) is not in the experiment; give --experiment the file of this "
                "run"
            ) from error
        if about["item"].kind != Question.kind:
            raise UsageError(f"explain is for questions; trial {trial.id} is of another kind")
        _check_prompt(about["victim"])
        about["item"] = about["item"].of_unit(trial.unit)
        spec = {
            "trial": trial.id,
            "verdict": trial.verdict.value,
            "edits": edits[trial.id],
            "mask": MASK,
            "evaluations": evaluations,
            "batch": BATCH,
        }
        work.append(
            Explanation(
                **about,
                purpose=Purpose.EXPLAIN,
                edits=decode_edits(edits[trial.id]),
                evaluations=evaluations,
                spec=spec,
            )
        )
    return work


def _check_prompt(victim: Victim) -> None:
    task: Any = victim.task
    while not isinstance(task, ShuffledOptions):
        if not isinstance(task, Wrapper):
            return
        task = task.inner
    raise UsageError(
        f"model {victim.label!r} gets several prompts for a question (shuffled_options), and "
        "explain needs one: name trials of another model with --trial"
    )


# -- the stage -------------------------------------------------------------------------------------


def asking(folder: Path, selection: Selection, evaluations: int = EVALUATIONS) -> Asking:
    """Return what explains trials of a run; stored answers are used again.

    Args:
        folder: the run.
        selection: which trials to explain.
        evaluations: masked texts of one prompt at most.

    Raises:
        UsageError: the selection cannot be explained.
    """
    chosen = choose(Run.open(folder).trials, selection)  # before any model is loaded
    n_texts = 2 * evaluations * len(chosen)

    def works(bench: Prepared, run: Run) -> list[Explanation]:
        trials = choose(run.trials, selection)
        edits = run.folder.read(lambda reader: last_edits(reader, trials))
        return explanations(trials, edits, Again.of(bench), evaluations)

    def words(
        bench: Prepared, run: Run, own: Sequence[Explanation], ended: Collection[str]
    ) -> Iterator[str]:
        left = [one for one in own if one.id not in ended]
        n_successes = sum(trial.first is not None for trial in choose(run.trials, selection))
        parts = [plural(n_successes, "success", "successes")] if n_successes else []
        n_failed = len(own) - n_successes
        parts += [plural(n_failed, "failed attack")] if n_failed else []
        n_before = len(own) - len(left)
        before = f", {n_before} of them explained before" if n_before else ""
        n = sum(
            2 * evaluations * cast(Task, one.victim.task).n_calls(len(one.item.options))
            for one in left
        )
        calls = f"at most {n:,} calls" if left else "nothing to ask"
        yield f"explain: {' and '.join(parts)}{before}, {calls}"

    stage = Stage(
        name="explain",
        works=works,
        purposes=frozenset({Purpose.EXPLAIN}),
        most=lambda _: 2 * evaluations,
        words=words,
    )
    return Asking(
        name="explain",
        folder=folder,
        stages=[stage],
        most=lambda _: f"at most {n_texts:,} masked texts",
    )


def last_edits(reader: RunReader, trials: Iterable[Trial]) -> dict[str, str]:
    """Return trial id -> edits, as JSON: of the first success, else of the last query asked."""
    edits_of: dict[str, str] = {}
    others: dict[int, str] = {}
    for trial in trials:
        if trial.first is not None:
            edits_of[trial.id] = edits_text(trial.first.edits)
        else:
            others[trial.number] = trial.id
    if others:
        probes = reader.probes()
        for number, query, edits in reader.attack_edits():
            if number in others and (number, query) not in probes:
                edits_of[others[number]] = edits
    return edits_of
