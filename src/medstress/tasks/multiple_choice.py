"""Multiple choice: the prompt, the call and the reading for each way to answer."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache, partial
from itertools import chain, islice
from typing import Any, Protocol, TypeAlias

from medstress.core.calls import (
    Answer,
    Choose,
    Chosen,
    Decoding,
    Generate,
    Generated,
    Message,
    Prompt,
    Rank,
    Request,
    Score,
    Scored,
)
from medstress.core.hashing import digest
from medstress.core.items import FOLLOW_UP, LETTERS, Candidate, Edited, Item, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.tasks.reading import DEFAULT, Marks, is_over, letter_read, without_thoughts
from medstress.tasks.templates import Template, load_template

Flow: TypeAlias = Generator[tuple[Request, ...], tuple[Answer, ...], Prediction]

UNCONDITIONED = "Answer:"
"""The prompt for the likelihood of an option alone, in `unconditional` scores."""
FLOOR = 1e-12
"""Smaller probabilities are raised to this before taking the logarithm."""


class AnswerBy(StrEnum):
    """How a victim answers."""

    LETTER = "letter"
    TEXT = "text"
    GENERATE = "generate"
    HEAD = "head"
    """A multiple-choice head scores (question, option) pairs one by one."""
    CHOICE = "choice"
    """The whole prompt goes to a user's function (python, mock)."""


class TextScore(StrEnum):
    """How the likelihood of an option's text becomes its score."""

    SUM = "sum"
    PER_TOKEN = "per_token"
    UNCONDITIONAL = "unconditional"
    """log P(option | prompt) - log P(option | "Answer:")."""


TEXT_SCORES = {
    "sum": "log P(option | prompt), summed over the option's tokens; favours short options",
    "per_token": "log P(option | prompt) / number of tokens (Brown et al. 2020, section 2.4)",
    "unconditional": 'log P(option | prompt) - log P(option | "Answer:") (Brown et al. 2020, '
    "section 2.4; Holtzman et al. 2021, domain-conditional PMI)",
}
"""Formula and source of every `TextScore`, for `medstress list text_scores`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MultipleChoice:
    """The multiple-choice task of one victim."""

    template: Template
    """The prompt."""
    answer_by: AnswerBy = AnswerBy.LETTER
    """Which call is made and how its answer is read."""
    text_score: TextScore = TextScore.SUM
    """Used by `text` answering."""
    parser: str = DEFAULT
    """Used by `generate` answering and for texts that a function returns."""
    thoughts: Marks = None
    """Opening and closing mark of the model's thoughts, on top of the usual ones."""
    decoding: Decoding = Decoding()
    """Used by `generate` answering."""
    reasoning_tokens: int | None = None
    """Most tokens of the reasoning turn in a conversation; None: the attack's."""

    def spec(self) -> dict[str, object]:
        """Return what defines the task, for fingerprints."""
        own: dict[str, object] = {}
        if self.answer_by is AnswerBy.CHOICE and not self.template.lists_options:
            own["listing"] = listed(self.template).hash  # what a function is shown
        return {
            "template": self.template.hash,
            "answer_by": self.answer_by.value,
            "text_score": self.text_score.value,
            "parser": self.parser,
            "thoughts": self.thoughts and list(self.thoughts),
            "decoding": [self.decoding.max_new_tokens, self.decoding.temperature],
            "reasoning_tokens": self.reasoning_tokens,
            **own,
        }

    @property
    def is_sampled(self) -> bool:
        """True if asking again may give another answer; always assumed of functions."""
        if self.answer_by is AnswerBy.GENERATE:
            return self.decoding.temperature > 0
        return self.answer_by is AnswerBy.CHOICE

    @property
    def stores_requests(self) -> bool:
        """True if requests are stored in full, because only Jinja could make them again."""
        return self.template.is_jinja

    @property
    def n_samples(self) -> int:
        """Sample indices that one query uses."""
        return 1

    def n_calls(self, n_options: int) -> int:
        """Return the calls of one query; the number of options does not matter."""
        both = self.answer_by is AnswerBy.TEXT and self.text_score is TextScore.UNCONDITIONAL
        return 2 if both else 1

    def listing(self, candidate: Candidate) -> str:
        """Return the prompt with the options listed."""
        return listing(self.template, candidate)

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], template: Template) -> MultipleChoice:
        """The inverse of `spec`, given the template."""
        tokens, temperature = spec["decoding"]
        thoughts = spec["thoughts"]
        return cls(
            template=template,
            answer_by=AnswerBy(spec["answer_by"]),
            text_score=TextScore(spec["text_score"]),
            parser=spec["parser"],
            thoughts=thoughts and (thoughts[0], thoughts[1]),
            decoding=Decoding(max_new_tokens=tokens, temperature=temperature),
            reasoning_tokens=spec["reasoning_tokens"],
        )

    def flow(self, candidate: Candidate) -> Flow:
        """Turn one candidate into calls and their answers into a prediction.

        Yields:
            Rounds of requests; each is answered by a tuple with one answer for each request.
        """
        if candidate.follow_up:
            return (yield from self._followed_up(candidate))
        if (order := order_of(candidate)) is not None:
            shown_item = shown_in(candidate.item, order)
            prediction = yield from self.flow(Candidate(item=shown_item))
            return put_back(candidate.item, prediction, order)
        match self.answer_by:
            case AnswerBy.CHOICE:
                shown = listing(self.template, candidate)
                (reply,) = yield (Request(Choose(shown, candidate.item.letters)),)
                assert isinstance(reply, Chosen)
                return self._from_choice(candidate, reply)
            case AnswerBy.LETTER:
                prompt, lead = self.template.render(candidate), "" if self.template.chat else " "
                return (yield from scored_letters(candidate, prompt, lead))
            case AnswerBy.TEXT:
                return (yield from self._texts(candidate))
            case AnswerBy.GENERATE:
                (reply,) = yield (Request(self._generated(self.template.render(candidate))),)
                assert isinstance(reply, Generated)
                return self._from_reply(candidate, reply)
            case AnswerBy.HEAD:
                question = self.template.render(candidate)
                assert isinstance(question, str)
                (reply,) = yield (Request(Rank(question, candidate.options)),)
                assert isinstance(reply, Scored)
                return from_scores(candidate, reply.log_probs)

    def _followed_up(self, candidate: Candidate) -> Flow:
        """Ask, go on speaking after the answer, and read the reply to that.

        The first call is that of the question alone, so its answer is the one that is known. A
        first reply that was cut off ends the conversation: its answer is unknown.
        """
        asked = without_follow_up(candidate)
        first = yield from self.flow(asked)
        if first.finish_reason is not None:
            return first
        by_function = self.answer_by is AnswerBy.CHOICE
        prompt = listing(self.template, asked) if by_function else self.template.render(asked)
        words = first.answer or ""
        if first.text is not None:
            words = without_thoughts(first.text, self.thoughts).strip()
        turns = turns_after(prompt, words, candidate.follow_up)
        if self.answer_by is AnswerBy.LETTER:
            return (yield from scored_letters(asked, turns))
        (reply,) = yield (Request(self._generated(turns)),)
        assert isinstance(reply, Generated)
        return self._from_reply(asked, reply)

    def _generated(self, prompt: Prompt) -> Generate:
        return Generate(prompt, self.decoding, is_over=partial(is_over, own=self.thoughts))

    def _texts(self, candidate: Candidate) -> Flow:
        prompt = self.template.render(candidate)
        lead = "" if self.template.chat else " "
        texts = tuple(lead + option for option in candidate.options)
        calls = [Request(Score(prompt, texts))]
        if self.text_score is TextScore.UNCONDITIONAL:
            calls.append(Request(Score(UNCONDITIONED, tuple(" " + text.strip() for text in texts))))
        replies = yield tuple(calls)
        conditional = replies[0]
        assert isinstance(conditional, Scored)
        scores = conditional.log_probs
        match self.text_score:
            case TextScore.PER_TOKEN:
                pairs = zip(scores, conditional.n_tokens, strict=True)
                scores = tuple(value / max(n, 1) for value, n in pairs)
            case TextScore.UNCONDITIONAL:
                prior = replies[1]
                assert isinstance(prior, Scored)
                pairs_of = zip(scores, prior.log_probs, strict=True)
                scores = tuple(value - base for value, base in pairs_of)
        return from_scores(candidate, scores, note=conditional.note)

    def _from_reply(self, candidate: Candidate, reply: Generated) -> Prediction:
        letter = letter_read(
            self.parser, reply.text, candidate.options, self.thoughts, is_cut=reply.is_cut
        )
        if letter is None and reply.is_cut:
            return cut_off_prediction(reply)
        text = reply.text or reply.note or ""
        return Prediction(outcome=mark(candidate, letter), answer=letter, text=text)

    def _from_choice(self, candidate: Candidate, reply: Chosen) -> Prediction:
        if reply.scores is not None:
            top = max(reply.scores)
            shares = [value / top for value in reply.scores]  # a plain sum may overflow
            logs = [math.log(max(share / sum(shares), FLOOR)) for share in shares]
            return from_scores(candidate, logs)
        if reply.answer is not None:
            return Prediction(outcome=mark(candidate, reply.answer), answer=reply.answer)
        # Some functions return the prompt followed by the answer.
        text = (reply.text or "").removeprefix(listing(self.template, candidate))
        return self._from_reply(candidate, Generated(text=text))


def listing(template: Template, candidate: Candidate) -> str:
    """Return the prompt with the options listed, as one text, for people and functions."""
    prompt = listed(template).render(candidate)
    if isinstance(prompt, str):
        return prompt
    return "\n\n".join(message.content for message in prompt)


def listed(template: Template) -> Template:
    """Return the template of listings: its own if it lists the options."""
    if template.lists_options:
        return template
    return load_template("open_book" if template.shows("passage") else "qstab")


def from_scores(
    candidate: Edited,
    scores: Sequence[float],
    mass: float | None = None,
    note: str | None = None,
) -> Prediction:
    """Return the prediction from log probabilities of the choices; `note` says why one has none."""
    if not all(math.isfinite(value) for value in scores):
        text = note or "log probabilities that are not finite"
        return Prediction(outcome=Outcome.UNREADABLE, answer=None, text=text)
    top = max(scores)
    total = top + math.log(sum(math.exp(value - top) for value in scores))
    best = [x for x, value in zip(candidate.item.choices, scores, strict=True) if value == top]
    letter = break_tie(candidate.item, best)
    return Prediction(
        outcome=mark(candidate, letter),
        answer=letter,
        scores=tuple(value - total for value in scores),
        mass=mass,
        is_tied=len(best) > 1,
    )


def scored_letters(candidate: Candidate, prompt: Prompt, lead: str = "") -> Flow:
    """Ask how likely each letter comes next, after a space where `lead` is one."""
    letters = tuple(lead + letter for letter in candidate.item.letters)
    (reply,) = yield (Request(Score(prompt, letters, first_token=True)),)
    assert isinstance(reply, Scored)
    mass = sum(map(math.exp, reply.log_probs))
    return from_scores(candidate, reply.log_probs, mass, reply.note)


def cut_off_prediction(reply: Generated) -> Prediction:
    """Return the prediction of a reply that was cut off before its answer: unreadable."""
    return Prediction(
        outcome=Outcome.UNREADABLE,
        answer=None,
        text=reply.text,
        finish_reason=reply.finish_reason,
    )


def mark(candidate: Edited, letter: str | None) -> Outcome:
    """Return the outcome of answering with a letter; None is unreadable."""
    if letter is None:
        return Outcome.UNREADABLE
    return Outcome.RIGHT if letter == candidate.item.key else Outcome.WRONG


def break_tie(item: Item, tied: Sequence[str]) -> str:
    """Return the tied letter whose hash with the item's id is the smallest.

    >>> from medstress.core.items import Question
    >>> item = Question(id="q7", stem="?", options=("gout", "flu"), key="A")
    >>> break_tie(item, "AB"), break_tie(item, "BA")
    ('B', 'B')
    """
    return min(tied, key=lambda letter: digest([item.id, letter]))


def without_follow_up(candidate: Candidate) -> Candidate:
    """Return the candidate as it is asked first, before anything is said of the answer."""
    return Candidate(
        item=candidate.item,
        edits=tuple(edit for edit in candidate.edits if edit.field != FOLLOW_UP),
    )


def turns_after(prompt: Prompt, answer: str, follow_up: str) -> tuple[Message, ...]:
    """Return a conversation: the question, the victim's answer, and what is said after it.

    >>> [turn.role for turn in turns_after("A or B?", "A", "Are you sure?")]
    ['user', 'assistant', 'user']
    """
    asked = (Message("user", prompt),) if isinstance(prompt, str) else prompt
    return (*asked, Message("assistant", answer), Message("user", follow_up))


def order_of(candidate: Candidate) -> tuple[int, ...] | None:
    """Return the order in which a candidate's edits put the options, as original places.

    None unless the edits do that and nothing else: each replaces the whole text of one option by
    that of another, and no text is lost. Options are distinct, so the order is unique.
    """
    edits, item = candidate.edits, candidate.item
    if len(edits) < 2:
        return None  # most candidates; no single edit exchanges options
    places = {text: at for at, text in enumerate(item.options)}
    order = list(range(len(item.options)))
    for edit in edits:
        at = LETTERS.find(edit.field) if len(edit.field) == 1 else -1
        is_whole = 0 <= at < len(order) and (edit.start, edit.end) == (0, len(item.options[at]))
        if not is_whole or edit.replacement not in places:
            return None
        order[at] = places[edit.replacement]
    return tuple(order) if len(set(order)) == len(order) else None


@lru_cache(maxsize=4096)
def shown_in(item: Question, order: tuple[int, ...]) -> Question:
    """Return a question with its options in another order."""
    letters = letters_in(order)
    mentions = (replace(m, field=letters.get(m.field, m.field)) for m in item.mentions)
    return replace(
        item,
        options=tuple(item.options[i] for i in order),
        key=letters[item.key],
        mentions=tuple(mentions),
    )


def letters_in(order: tuple[int, ...]) -> dict[str, str]:
    """Return original letter -> the letter under which its option is shown."""
    return {LETTERS[original]: LETTERS[shown] for shown, original in enumerate(order)}


def put_back(item: Question, prediction: Prediction, order: tuple[int, ...]) -> Prediction:
    """Translate a prediction about an order to the original letters."""
    places = [order.index(i) for i in range(len(order))]
    scores, confidences, answer = prediction.scores, prediction.confidences, prediction.answer
    return replace(
        prediction,
        answer=None if answer is None else item.letters[order[LETTERS.index(answer)]],
        scores=None if scores is None else tuple(scores[i] for i in places),
        confidences=None if confidences is None else tuple(confidences[i] for i in places),
    )


Rounds: TypeAlias = Generator[tuple[Request, ...], tuple[Answer, ...], list[Prediction]]


def together(flows: Sequence[Flow]) -> Rounds:
    """Run flows side by side.

    Yields:
        Rounds with the requests of all unfinished flows, flow by flow.

    Returns:
        Their predictions, same order.
    """
    predictions: dict[int, Prediction] = {}
    pending = {i: next(flow) for i, flow in enumerate(flows)}
    try:
        while pending:
            answers = iter((yield tuple(chain.from_iterable(pending.values()))))
            for i, requests in list(pending.items()):
                part = tuple(islice(answers, len(requests)))
                try:
                    pending[i] = flows[i].send(part)
                except StopIteration as stop:
                    predictions[i] = stop.value
                    del pending[i]
    finally:
        for flow in flows:
            flow.close()
    return [predictions[i] for i in range(len(flows))]


def changed(
    flow: Flow,
    ask: Callable[[Request], Request],
    read: Callable[[Answer], Answer] = lambda answer: answer,
) -> Flow:
    """Run a flow, changing its requests before they are asked and its answers before it reads them.

    Returns:
        The flow's prediction.
    """
    requests = next(flow)
    try:
        while True:
            answers = yield tuple(map(ask, requests))
            try:
                requests = flow.send(tuple(map(read, answers)))
            except StopIteration as stop:
                prediction: Prediction = stop.value
                return prediction
    finally:
        flow.close()


class AnyTask(Protocol):
    """Turns candidates into rounds of requests, and their answers into predictions."""

    def flow(self, candidate: Any) -> Flow:
        """Turn one candidate into calls and their answers into a prediction."""

    def listing(self, candidate: Any) -> str:
        """Return what people see: the prompt with the options listed, or the sentence."""

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints; with the template it can be rebuilt."""


class Task(AnyTask, Protocol):
    """A task with a prompt."""

    @property
    def template(self) -> Template:
        """The prompt."""

    @property
    def is_sampled(self) -> bool:
        """True if another sample may give another answer."""

    @property
    def stores_requests(self) -> bool:
        """True if requests are stored in full, because item, edits and the prompt's form cannot
        reproduce them."""

    @property
    def n_samples(self) -> int:
        """Sample indices that one query uses, from 0."""

    def n_calls(self, n_options: int) -> int:
        """Return the most calls of one query about an item with `n_options` options."""
