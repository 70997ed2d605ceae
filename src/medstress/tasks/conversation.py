"""A target that is asked in three turns: reasoning, confidences, answer.

Reference: Ness et al., "MedFuzz: Exploring the robustness of large language models in medical
question answering", 2024, Algorithm 1. The wording is ours.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from medstress.calls import (
    Answer,
    Decoding,
    Generate,
    Generated,
    Message,
    Prompt,
    Request,
    Score,
    Scored,
)
from medstress.items import Candidate
from medstress.outcomes import Prediction
from medstress.prompts import PromptSet
from medstress.prompts.exemplars import Exemplar
from medstress.prompts.replies import Confidences, Letter, Reply, Unreadable, read_reply, schema_of
from medstress.tasks.multiple_choice import Flow, from_scores, lost, mark
from medstress.tasks.parsers import DEFAULT, option_read
from medstress.tasks.reading import Reading, is_lost, said
from medstress.tasks.task import Task
from medstress.tasks.templates import Template
from medstress.tasks.ties import Ties

CUT_OFF = Unreadable("it was cut off before its end: write nothing but the JSON object")
"""What a model is told of a reply that came to `max_new_tokens`."""
_NEXT_TURN = "\nUser:"
"""What a model without turns writes when it goes on to write the user's part."""
_SPEAKERS = {"system": "", "user": "User: ", "assistant": "Assistant: "}

R = TypeVar("R", bound=Reply)
Turn: TypeAlias = Generator[tuple[Request, ...], tuple[Answer, ...], Generated]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Ask about a candidate in three turns of one new conversation.

    Where the target's back end gives scores and the victim answers by letter, the last turn
    is a `Score` over the letters, so that P(key) is known; else the letter is generated and read.
    Confidences and letter are read from JSON alone; the victim's parser reads what the JSON gives
    as the answer, so that "C: Heparin" is a C. What cannot be used is asked for once more.
    Confidences that stay so are unknown, an answer that stays so makes the prediction
    `UNREADABLE`. So does a reasoning that is cut off, after which nothing else is asked: what the
    model would have concluded is not known. Confidences or an answer that are cut off count as
    not used.
    """

    own: Task
    """How the victim is asked otherwise; shows items to people."""
    prompts: PromptSet
    """What is said."""
    exemplars: tuple[Exemplar, ...] = ()
    """Worked questions before the case."""
    parser: str = DEFAULT
    """Reads the answer, where it is generated."""
    by_letter: bool = False
    """Whether the answer is scored rather than generated."""
    in_turns: bool = True
    """False renders the conversation as one text, for models without a chat template."""
    decoding: Decoding = Decoding(max_new_tokens=384)
    """Of the reasoning turn; the others share its temperature."""
    answer_tokens: int = Decoding().max_new_tokens
    """Most new tokens of confidences and answer."""
    reading: Reading = Reading.FINISHED
    """What of a reply is read; thoughts that are not read do not come back in later turns."""

    @property
    def template(self) -> Template:
        """The victim's own prompt."""
        return self.own.template

    @property
    def is_sampled(self) -> bool:
        """Whether asking again may bring another answer."""
        return self.decoding.temperature > 0

    @property
    def ties(self) -> Ties:
        """As the victim otherwise."""
        return self.own.ties

    @property
    def n_samples(self) -> int:
        """Sample indices that one query uses."""
        return 1

    @property
    def is_told(self) -> bool:
        """Its requests follow from earlier answers, so they are stored as they are."""
        return True

    def n_calls(self, n_options: int) -> int:
        """The most calls of one query: three turns, and two where replies have to be repaired."""
        return 5

    @property
    def most_written(self) -> int:
        """The most tokens that the victim writes for one query: the reasoning, and up to four
        replies of the other turns."""
        short = 2 if self.by_letter else 4
        return self.decoding.max_new_tokens + short * self.answer_tokens + self.by_letter

    def listing(self, candidate: Candidate) -> str:
        """The victim's own prompt with the options listed."""
        return self.own.listing(candidate)

    def spec(self) -> dict[str, Any]:
        """What defines it."""
        return {
            "conversation": self.prompts.hash,
            "exemplars": [exemplar.id for exemplar in self.exemplars],
            "parser": self.parser,
            "by_letter": self.by_letter,
            "in_turns": self.in_turns,
            "decoding": [self.decoding.max_new_tokens, self.decoding.temperature],
            "answer_tokens": self.answer_tokens,
            "reading": self.reading.value,
        }

    def flow(self, candidate: Candidate) -> Flow:
        """Turn one candidate into three turns and their answers into a prediction.

        Yields:
            Rounds of one request; is sent one answer.
        """
        item, say = candidate.item, self.prompts.render
        context, stem = candidate.context, candidate.stem
        options = tuple(zip(item.letters, candidate.options, strict=True))
        question = f"{context} {stem}" if context else stem
        reasoning = say(
            "target_reasoning", question=question, options=options, exemplars=self.exemplars
        )
        turns = [Message("system", say("target_system")), Message("user", reasoning)]
        reasoned = yield from self._said(turns, self.decoding)
        rationale = turns[-1].content or reasoned.reasoning or ""
        if is_lost(reasoned, self.reading):
            return replace(lost(reasoned), rationale=rationale)
        turns.append(Message("user", say("target_confidences", letters=item.letters)))
        told, reply = yield from self._read(turns, Confidences, item.letters, _is_complete)
        confidences, is_cut = _ordered(told, item.letters), is_lost(reply, self.reading)
        turns.append(Message("user", say("target_answer", by_letter=self.by_letter)))
        if self.by_letter:
            found = yield from self._scored(turns, candidate)
        else:
            found = yield from self._letter(turns, candidate)
        return replace(found, rationale=rationale, confidences=confidences, cut_confidences=is_cut)

    def _said(self, turns: list[Message], decoding: Decoding, schema: str | None = None) -> Turn:
        """One generated turn, put at the end of the conversation without its thoughts."""
        ends = self.reading is Reading.FINISHED
        call = Generate(self._prompt(turns), decoding, schema=schema, wants_end=ends)
        (reply,) = yield (Request(call),)
        assert isinstance(reply, Generated)
        text = said(reply, self.reading)
        if not self.in_turns and _NEXT_TURN in text:
            # Where the user's part begins the model's own has come to its end.
            text, reply = text.split(_NEXT_TURN, 1)[0], replace(reply, finish_reason=None)
        turns.append(Message("assistant", text.strip()))
        return reply

    def _read(
        self,
        turns: list[Message],
        kind: type[R],
        letters: str,
        objection: Callable[[R, str], str | None],
    ) -> Generator[tuple[Request, ...], tuple[Answer, ...], tuple[R | Unreadable, Generated]]:
        """A turn that has to be JSON, with one turn to repair it: what is read, and the reply."""

        def says(told: R) -> str | None:
            return objection(told, letters)

        def read(reply: Generated) -> R | Unreadable:
            if is_lost(reply, self.reading):
                return CUT_OFF
            return read_reply(turns[-1].content, kind, says)

        decoding = replace(self.decoding, max_new_tokens=self.answer_tokens)
        schema = schema_of(kind, letters)
        reply = yield from self._said(turns, decoding, schema)
        found = read(reply)
        if isinstance(found, Unreadable):
            turns.append(Message("user", self.prompts.render("repair", reason=found.reason)))
            reply = yield from self._said(turns, decoding, schema)
            found = read(reply)
        return found, reply

    def _letter(
        self, turns: list[Message], candidate: Candidate
    ) -> Generator[tuple[Request, ...], tuple[Answer, ...], Prediction]:
        def answer(told: Letter) -> str | None:
            return option_read(self.parser, told.answer, candidate.options)

        def objection(told: Letter, letters: str) -> str | None:
            if answer(told) is not None:
                return None
            return f"answer: expected one of the letters {', '.join(letters)}"

        told, reply = yield from self._read(turns, Letter, candidate.item.letters, objection)
        if is_lost(reply, self.reading):
            return lost(reply)
        letter = None if isinstance(told, Unreadable) else answer(told)
        return Prediction(outcome=mark(candidate, letter), answer=letter, text=reply.text)

    def _scored(
        self, turns: list[Message], candidate: Candidate
    ) -> Generator[tuple[Request, ...], tuple[Answer, ...], Prediction]:
        lead = "" if self.in_turns else " "
        texts = tuple(lead + letter for letter in candidate.item.letters)
        (reply,) = yield (Request(Score(self._prompt(turns), texts, first_token=True)),)
        assert isinstance(reply, Scored)
        mass = sum(math.exp(value) for value in reply.log_probs)
        return from_scores(candidate, reply.log_probs, self.ties, mass=mass)

    def _prompt(self, turns: list[Message]) -> Prompt:
        if self.in_turns:
            return tuple(turns)
        lines = [f"{_SPEAKERS[turn.role]}{turn.content}" for turn in turns]
        return "\n\n".join([*lines, "Assistant:"])


def _is_complete(told: Confidences, letters: str) -> str | None:
    missing = [letter for letter in letters if letter not in told.confidence]
    return f"confidence: {', '.join(missing)} missing" if missing else None


def _ordered(told: Confidences | Unreadable, letters: str) -> tuple[float, ...] | None:
    """One confidence an option, or None where they are unknown."""
    if isinstance(told, Unreadable):
        return None
    return tuple(told.confidence[letter] for letter in letters)
