"""Defences: tasks around a task, whose flows are made of its flows.

A wrapped victim is asked like any other. A query counts as one query of the budget however many
calls it makes; every call is recorded.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from importlib.resources import files
from itertools import count
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from medstress.core.calls import Answer, Chosen, Classify, Compare, Message, Prompt, Request, Tag
from medstress.core.errors import UsageError
from medstress.core.hashing import digest
from medstress.core.items import LETTERS, Candidate, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.tasks.multiple_choice import (
    FLOOR,
    UNCONDITIONED,
    AnswerBy,
    Flow,
    MultipleChoice,
    Task,
    break_tie,
    changed,
    letters_in,
    mark,
    put_back,
    shown_in,
    together,
)
from medstress.tasks.templates import Template

_TIE = 1e-9
"""Mean probabilities that differ by less are tied: sums of the same shares in another order."""


def _of_inner(name: str) -> Any:
    """Return a property of a wrapper that is the inner task's own."""
    return property(attrgetter(f"inner.{name}"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrapper:
    """The base of wrappers: everything comes from the inner task unless a wrapper changes it."""

    name: ClassVar[str]
    """Its name in files."""
    inner: Task
    """The task that is wrapped."""
    template, is_sampled, stores_requests, n_samples = map(
        _of_inner, ("template", "is_sampled", "stores_requests", "n_samples")
    )

    def n_calls(self, n_options: int) -> int:
        """As the inner task."""
        return self.inner.n_calls(n_options)

    def listing(self, candidate: Candidate) -> str:
        """As the inner task."""
        return self.inner.listing(candidate)

    def flow(self, candidate: Candidate) -> Flow:
        """Turn one candidate into calls and their answers into a prediction."""
        raise NotImplementedError

    def spec(self) -> dict[str, Any]:
        """Return what defines it: its name, its own fields and the inner task."""
        own = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "inner"}
        return {"wrap": self.name, **own, "task": self.inner.spec()}


@dataclass(frozen=True, slots=True, kw_only=True)
class Majority(Wrapper):
    """The most frequent answer in k samples (self-consistency, Wang et al. 2022).

    Ties are broken as in scores (`break_tie`); an unreadable sample has no vote. Scores
    are shares of votes.
    """

    name: ClassVar[str] = "majority"
    k: int = 5
    """Samples of a query; each has its own sample index."""

    @property
    def n_samples(self) -> int:
        """k times the inner task's."""
        return self.k * self.inner.n_samples

    def n_calls(self, n_options: int) -> int:
        """k times the inner task's."""
        return self.k * self.inner.n_calls(n_options)

    def flow(self, candidate: Candidate) -> Flow:
        """Run k inner flows at once and count their votes."""
        step = self.inner.n_samples
        flows = [_resampled(self.inner.flow(candidate), number * step) for number in range(self.k)]
        return elected(candidate, (yield from together(flows)))


@dataclass(frozen=True, slots=True, kw_only=True)
class ShuffledOptions(Wrapper):
    """Ask with several orders of the options, and combine the answers by option.

    The first order is the item's own. If every readable answer has scores, the mean probability of
    each option decides; otherwise, or with `votes`, the most frequent answer. Ties are broken as in
    scores (`break_tie`). Unreadable answers are left out.
    """

    name: ClassVar[str] = "shuffled_options"
    n: int | None = None
    """Orders of a query. None: all cyclic shifts, so that each option is in each place once. A
    smaller number takes the first shifts, a larger one adds fixed random orders."""
    aggregate: str = "mean"
    """`mean` or `votes`."""

    def n_calls(self, n_options: int) -> int:
        """The inner task's, once for each order."""
        return len(orders(n_options, self.n)) * self.inner.n_calls(n_options)

    def flow(self, candidate: Candidate) -> Flow:
        """Ask the inner task about every order at once."""
        item = candidate.item
        chosen = orders(len(item.options), self.n)
        flows = [self.inner.flow(_reordered(candidate, order)) for order in chosen]
        shown = yield from together(flows)
        predictions = [
            put_back(item, prediction, order)
            for prediction, order in zip(shown, chosen, strict=True)
        ]
        readable = [p for p in predictions if p.outcome is not Outcome.UNREADABLE]
        is_scored = readable and all(p.scores is not None for p in readable)
        if self.aggregate == "votes" or not is_scored:
            return elected(candidate, predictions)
        return _averaged(candidate, readable)


class InFront(Wrapper):
    """The base of wrappers that put a text in front of every prompt."""

    def flow(self, candidate: Candidate) -> Flow:
        """Run the inner flow with the text before its prompts."""

        def ask(request: Request) -> Request:
            call = request.call
            # An option that is scored alone has no prompt.
            if isinstance(call, Tag | Compare | Classify) or call.prompt == UNCONDITIONED:
                return request
            return replace(request, call=replace(call, prompt=self._before(call.prompt, candidate)))

        def read(answer: Answer) -> Answer:
            # Some functions repeat their prompt.
            if isinstance(answer, Chosen) and answer.text is not None:
                return replace(answer, text=answer.text.removeprefix(self._lead(candidate)))
            return answer

        return (yield from changed(self.inner.flow(candidate), ask, read))

    def listing(self, candidate: Candidate) -> str:
        """Return the text and the prompt."""
        return self._lead(candidate) + self.inner.listing(candidate)

    def _lead(self, candidate: Candidate) -> str:
        """Return the text, with white space at its end."""
        raise NotImplementedError

    def _before(self, prompt: Any, candidate: Candidate) -> Any:
        """Return a prompt with the text in front."""
        raise NotImplementedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Instructed(InFront):
    """An instruction in front of every prompt; in a conversation, of its system turn."""

    name: ClassVar[str] = "instructed"
    text: str
    """The instruction: part of what defines the task, its source is not."""

    def _lead(self, candidate: Candidate) -> str:
        return f"{self.text}\n\n"

    def _before(self, prompt: Prompt, candidate: Candidate) -> Prompt:
        lead = self._lead(candidate)
        if isinstance(prompt, str):
            return lead + prompt
        first, *others = prompt
        if first.role != "system":
            return (Message("system", self.text), *prompt)
        return (Message("system", (lead + first.content).strip()), *others)


def elected(candidate: Candidate, predictions: Sequence[Prediction]) -> Prediction:
    """Return the most frequent answer; ties are broken as in scores."""
    answers = [p.answer for p in predictions if p.answer is not None]
    votes = Counter(answers)
    if not votes:
        cut = next((p for p in predictions if p.finish_reason is not None), predictions[0])
        return replace(
            cut, outcome=Outcome.UNREADABLE, answer=None, scores=None, mass=None, is_tied=False
        )
    most = max(votes.values())
    tied = [answer for answer, n in votes.items() if n == most]  # in the order of being given
    letter = break_tie(candidate.item, tied)
    shares = [votes[option] / votes.total() for option in candidate.item.letters]
    return Prediction(
        outcome=mark(candidate, letter),
        answer=letter,
        scores=tuple(math.log(max(share, FLOOR)) for share in shares),
        is_tied=len(tied) > 1 or any(p.is_tied for p in predictions),
    )


@lru_cache(maxsize=64)
def orders(n_options: int, n: int | None = None) -> tuple[tuple[int, ...], ...]:
    """Return the orders of options to ask; each lists the original places.

    >>> orders(3)
    ((0, 1, 2), (1, 2, 0), (2, 0, 1))
    >>> len(orders(3, 2)), len(orders(3, 5)), len(orders(2, 5))
    (2, 5, 2)
    """
    wanted = n_options if n is None else min(n, math.factorial(n_options))
    shifts = (tuple((i + s) % n_options for i in range(n_options)) for s in range(n_options))
    distinct = dict.fromkeys(shifts)
    for number in count():
        if len(distinct) >= wanted:
            break
        # Drawn by hash, so that every machine draws the same.
        drawn = sorted(range(n_options), key=lambda i: digest([n_options, number, i]))
        distinct[tuple(drawn)] = None
    return tuple(distinct)[:wanted]


def _resampled(flow: Flow, offset: int) -> Flow:
    return changed(flow, lambda request: replace(request, sample=request.sample + offset))


def _reordered(candidate: Candidate, order: tuple[int, ...]) -> Candidate:
    letters = letters_in(order)
    edits = (replace(e, field=letters.get(e.field, e.field)) for e in candidate.edits)
    return Candidate(item=shown_in(candidate.item, order), edits=tuple(edits))


def _averaged(candidate: Candidate, predictions: Sequence[Prediction]) -> Prediction:
    letters = candidate.item.letters
    rows = [[math.exp(value) for value in p.scores or ()] for p in predictions]
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    best = max(means) - _TIE
    tied = [letter for letter, mean in zip(letters, means, strict=True) if mean >= best]
    answered = [p.answer for p in predictions if p.answer in tied]
    letter = break_tie(candidate.item, list(dict.fromkeys([*answered, *tied])))
    masses = [p.mass for p in predictions if p.mass is not None]
    return Prediction(
        outcome=mark(candidate, letter),
        answer=letter,
        scores=tuple(math.log(max(mean, FLOOR)) for mean in means),
        mass=sum(masses) / len(masses) if masses else None,
        is_tied=len(tied) > 1,
    )


SPARE = 2
"""Extra examples drawn: one may have the item's id, another its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShot(InFront):
    """Show the first examples that are not the item itself, each with its answer.

    The answer is the letter of the key, or its text if the victim sees no letters (answer by text
    or head). In a conversation, an example is a user turn and an assistant turn.
    """

    name: ClassVar[str] = "few_shot"
    inner: MultipleChoice
    """The victim's own task."""
    shots: int
    """Number of examples before each prompt."""
    examples: tuple[Question, ...]
    """In the order of their file; `SPARE` more than are shown."""

    def spec(self) -> dict[str, Any]:
        """Return what defines the task: the examples themselves, not their source."""
        rows = [
            [q.id, q.context, q.stem, list(q.options), q.key, *([q.passage] if q.passage else [])]
            for q in self.examples
        ]
        return {**Wrapper.spec(self), "examples": rows}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], inner: MultipleChoice) -> FewShot:
        """The inverse of `spec`, given the inner task."""
        examples = tuple(
            Question(id=i, context=c, stem=s, options=tuple(o), key=k, passage="".join(p))
            for i, c, s, o, k, *p in spec["examples"]
        )
        return cls(inner=inner, shots=spec["shots"], examples=examples)

    def _shown(self, candidate: Candidate) -> Iterator[tuple[Candidate, str]]:
        """The examples of an item, and their answers."""
        item = candidate.item
        others = [q for q in self.examples if q.id != item.id and q.question != item.question]
        for question in others[: self.shots]:
            by_text = self.inner.answer_by in (AnswerBy.TEXT, AnswerBy.HEAD)
            yield Candidate(item=question), question.key_text if by_text else question.key

    def _lead(self, candidate: Candidate) -> str:
        # The examples as one text, with the options listed.
        shown = self._shown(candidate)
        return "".join(f"{self.inner.listing(example)} {answer}\n\n" for example, answer in shown)

    def _before(self, prompt: Prompt, candidate: Candidate) -> Prompt:
        if self.inner.answer_by is AnswerBy.CHOICE:
            return self._lead(candidate) + str(prompt)
        template, parts = self.template, []
        turns: list[Message] = []
        for example, answer in self._shown(candidate):
            rendered = template.render(example)
            if isinstance(rendered, str):
                parts.append(f"{rendered} {answer}\n\n")
            else:
                turns += [*rendered[1:], Message("assistant", answer)]
        if isinstance(prompt, str):
            return "".join(parts) + prompt
        return (prompt[0], *turns, *prompt[1:])


_WRAPPERS: Mapping[str, type[Wrapper]] = {
    one.name: one for one in (ShuffledOptions, Majority, Instructed)
}
SHIPPED = "defensive"
"""Name of the instruction shipped with medstress."""
SUMMARIES = {
    "shuffled_options": "answers over several orders of the options, averaged",
    "majority": "the answer given most often in k samples",
    "instructed": "a defensive instruction in front of the prompt",
}
MOST_CALLS = 10_000
"""Most calls of one query; far below the offset of the flip check's sample index."""
Calls: TypeAlias = Annotated[int, Field(strict=True, ge=2, le=MOST_CALLS)]


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class _Shuffled(_Entry):
    name: Literal["shuffled_options"]
    n: Calls | None = None
    aggregate: Literal["mean", "votes"] = "mean"


class _Majority(_Entry):
    name: Literal["majority"]
    k: Calls = 5


class _Instructed(_Entry):
    name: Literal["instructed"]
    instruction: str = SHIPPED


_WRAPS = TypeAdapter[tuple[_Entry, ...]](
    tuple[Annotated[_Shuffled | _Majority | _Instructed, Field(discriminator="name")], ...]
)


def read_wraps(entries: Any) -> tuple[dict[str, Any], ...]:
    """Check the entries of a `wrap` list and fill in defaults.

    Raises:
        ValueError: an entry is wrong; the message says what was expected.

    >>> read_wraps(["instructed", {"name": "majority", "k": 3}])
    ({'name': 'instructed', 'instruction': 'defensive'}, {'name': 'majority', 'k': 3})
    """
    if isinstance(entries, str) or not isinstance(entries, Sequence):
        raise ValueError(f"expected a list such as [{next(iter(SUMMARIES))!r}]")
    named = [{"name": entry} if isinstance(entry, str) else entry for entry in entries]
    try:
        return tuple(entry.model_dump() for entry in _WRAPS.validate_python(tuple(named)))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise ValueError(f"{place}: {first['msg']}, got {first['input']!r}") from None


def wrapped(
    task: MultipleChoice,
    entries: Sequence[Mapping[str, Any]],
    base: Path,
    label: str,
    examples: Sequence[Question] = (),
) -> Task:
    """Put wrappers around a task, the first one innermost.

    Args:
        task: the victim's own task.
        entries: as `read_wraps` returns them.
        base: folder that relative paths start from.
        label: label of the victim, for messages.
        examples: answered examples, `SPARE` more than are shown; they wrap first.

    Raises:
        UsageError: a wrapper has no effect on its task, or a file is missing.
    """
    made: Task = task
    if examples:
        shots = len(examples) - SPARE
        made = FewShot(inner=task, shots=shots, examples=tuple(examples))
    for entry in entries:
        name, own = entry["name"], {key: entry[key] for key in entry if key != "name"}
        if name == Majority.name and not made.is_sampled:
            raise UsageError(
                f"model {label!r}: majority asks {entry['k']} samples, and they would all be "
                'equal here: it needs answer_by = "generate" with a temperature above 0, or a '
                "function"
            )
        is_listed = task.template.lists_options or task.answer_by is AnswerBy.CHOICE
        if name == ShuffledOptions.name and not is_listed:
            raise UsageError(
                f"model {label!r}: shuffled_options changes nothing, because prompt "
                f"{task.template.name!r} does not list the options"
            )
        if name == Instructed.name:
            own = {"text": _instruction(entry["instruction"], base)}
        made = _WRAPPERS[name](inner=made, **own)
    if made.n_calls(len(LETTERS)) > MOST_CALLS:
        raise UsageError(
            f"model {label!r}: one query would take more than {MOST_CALLS:,} calls; lower k of "
            "majority or n of shuffled_options"
        )
    return made


def gives_scores(entries: Sequence[Mapping[str, Any]]) -> bool:
    """Return whether wrappers give scores (shares of votes) to a victim without scores."""
    return any(entry["name"] in (Majority.name, ShuffledOptions.name) for entry in entries)


def task_from_spec(spec: Mapping[str, Any], template: Template) -> Task:
    """Build the task of a spec, wrapped or not, given the template."""
    kind = spec.get("wrap")
    if kind is None:
        return MultipleChoice.from_spec(spec, template)
    inner = task_from_spec(spec["task"], template)
    if kind == FewShot.name:
        assert isinstance(inner, MultipleChoice)
        return FewShot.from_spec(spec, inner)
    own = {name: value for name, value in spec.items() if name not in ("wrap", "task")}
    return _WRAPPERS[kind](inner=inner, **own)


def _instruction(name: str, base: Path) -> str:
    """Return the text of the shipped instruction, or of a file."""
    shipped = files("medstress.tasks") / "instructions" / f"{SHIPPED}.txt"
    path = base / Path(name).expanduser()
    try:
        text = (shipped if name == SHIPPED else path).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"instruction {name!r} of instructed is neither {SHIPPED!r} nor a text file that can "
            f"be read ({error})"
        ) from error
    if not text:
        raise UsageError(f"instruction {name!r} of instructed: the file is empty")
    return text
