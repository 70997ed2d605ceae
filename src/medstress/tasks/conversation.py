"""Ask a target in three turns: reasoning, confidences, answer.

Reference: Ness et al., "MedFuzz: Exploring the robustness of large language models in medical
question answering", 2024, Algorithm 1. The wording is ours.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar, cast

from medstress.core.calls import (
    Answer,
    Decoding,
    Generate,
    Generated,
    Message,
    Prompt,
    Request,
)
from medstress.core.items import Candidate
from medstress.core.outcomes import Prediction
from medstress.tasks.multiple_choice import (
    Flow,
    Task,
    cut_off_prediction,
    mark,
    order_of,
    put_back,
    scored_letters,
    shown_in,
)
from medstress.tasks.prompt_sets import Exemplar, lettered, say, texts_hash
from medstress.tasks.reading import DEFAULT, Marks, letter_read, without_thoughts
from medstress.tasks.replies import (
    Confidences,
    Letter,
    Reply,
    Unreadable,
    confidences_in,
    read_reply,
    schema_of,
)
from medstress.tasks.templates import Template

CUT_OFF = Unreadable("it was cut off before its end: write nothing but the JSON object", "cut off")
"""What is said to a model whose reply reached `max_new_tokens`."""
_TEXTS = (
    *("target_system", "target_reasoning", "target_confidences", "target_answer"),
    *("target_letter", "repair"),
)
_NEXT_TURN = "\nUser:"
"""A model without turns writes this when it goes on with the user's part."""
_SPEAKERS = {"system": "", "user": "User: ", "assistant": "Assistant: "}

T = TypeVar("T")
Turn: TypeAlias = Generator[tuple[Request, ...], tuple[Answer, ...], Generated]


@dataclass(frozen=True, slots=True, kw_only=True)
class Conversation:
    """Ask about a candidate in three turns of one new conversation.

    If the back end gives scores and the victim answers by letter, the last turn is a `Score` over
    the letters, so that P(key) is known. Otherwise the letter is generated and read.

    JSON is asked for, and prose is read too: the victim's parser reads the answer ("B", "The answer
    is B."), and confidences may be a line such as "A: 3, B: 5". An unusable reply, also one that is
    cut off, is asked for once more, with the reason. If it stays unusable, confidences are unknown,
    and an answer makes the prediction `UNREADABLE`.

    A reasoning that is cut off ends the conversation as `UNREADABLE`, because the model's
    conclusion is unknown.
    """

    own: Task
    """The victim's task outside conversations; it shows items to people."""
    exemplars: tuple[Exemplar, ...] = ()
    """Worked questions before the case."""
    parser: str = DEFAULT
    """Reads a generated answer."""
    thoughts: Marks = None
    """Opening and closing mark of the model's thoughts, on top of the usual ones."""
    by_letter: bool = False
    """True if the answer is scored, False if it is generated."""
    in_turns: bool = True
    """False renders the conversation as one text, for models without a chat template."""
    decoding: Decoding = Decoding(max_new_tokens=384)
    """Decoding of the reasoning turn; the other turns share its temperature."""
    answer_tokens: int = Decoding().max_new_tokens
    """Most new tokens of confidences and answer."""

    @property
    def template(self) -> Template:
        """The victim's own prompt."""
        return self.own.template

    @property
    def is_sampled(self) -> bool:
        """True if asking again may give another answer."""
        return self.decoding.temperature > 0

    @property
    def n_samples(self) -> int:
        """Sample indices that one query uses."""
        return 1

    @property
    def stores_requests(self) -> bool:
        """True: requests depend on earlier answers, so they are stored in full."""
        return True

    def n_calls(self, n_options: int) -> int:
        """Return the most calls of one query: three turns and two repairs."""
        return 5

    def listing(self, candidate: Candidate) -> str:
        """Return the victim's own prompt with the options listed."""
        return self.own.listing(candidate)

    def spec(self) -> dict[str, Any]:
        """Return what defines the task, for fingerprints."""
        return {
            "conversation": texts_hash(*_TEXTS),
            "exemplars": [exemplar.id for exemplar in self.exemplars],
            "parser": self.parser,
            "thoughts": self.thoughts and list(self.thoughts),
            "by_letter": self.by_letter,
            "in_turns": self.in_turns,
            "decoding": [self.decoding.max_new_tokens, self.decoding.temperature],
            "answer_tokens": self.answer_tokens,
        }

    def flow(self, candidate: Candidate) -> Flow:
        """Turn one candidate into three turns and their answers into a prediction.

        Yields:
            Rounds of one request; each is answered by a tuple of one answer.
        """
        if (order := order_of(candidate)) is not None:
            shown = yield from self.flow(Candidate(item=shown_in(candidate.item, order)))
            return put_back(candidate.item, shown, order)
        letters = candidate.item.letters
        context, stem = candidate.context, candidate.stem
        reasoning = say(
            "target_reasoning",
            examples="\n\n".join(one.shown(n) for n, one in enumerate(self.exemplars, start=1)),
            question=f"{context} {stem}" if context else stem,
            options=lettered(zip(letters, candidate.options, strict=True)),
        )
        turns = [Message("system", say("target_system")), Message("user", reasoning)]
        reasoned = yield from self._turn(turns, self.decoding)
        rationale = turns[-1].content or reasoned.reasoning or ""
        if reasoned.is_cut:
            cut = cut_off_prediction(reasoned)
            return replace(cut, rationale=rationale, cut_turn="reasoning")
        form = "{" + ", ".join(f'"{letter}": 1' for letter in letters) + "}"
        turns.append(Message("user", say("target_confidences", form=form)))
        numbers, reply = yield from self._read(turns, Confidences, candidate, _confidences)
        cut_turn = "confidences" if reply.is_cut else None
        turns.append(Message("user", say("target_letter" if self.by_letter else "target_answer")))
        if self.by_letter:
            lead = "" if self.in_turns else " "
            prediction = yield from scored_letters(candidate, self._prompt(turns), lead)
        else:
            prediction = yield from self._letter(turns, candidate)
        confidences = None if isinstance(numbers, Unreadable) else numbers
        cut_turn = "answer" if prediction.finish_reason else cut_turn
        return replace(prediction, rationale=rationale, confidences=confidences, cut_turn=cut_turn)

    def _turn(self, turns: list[Message], decoding: Decoding, schema: str | None = None) -> Turn:
        """Generate one turn and append it to the conversation without its thoughts."""
        call = Generate(self._prompt(turns), decoding, schema=schema)
        (reply,) = yield (Request(call),)
        assert isinstance(reply, Generated)
        text = without_thoughts(reply.text, self.thoughts)
        if not self.in_turns and _NEXT_TURN in text:
            # The model's own turn ends where the user's part begins.
            text, reply = text.split(_NEXT_TURN, 1)[0], replace(reply, finish_reason=None)
        turns.append(Message("assistant", text.strip()))
        return reply

    def _read(
        self,
        turns: list[Message],
        kind: type[Reply],
        candidate: Candidate,
        read: Callable[[str, Candidate, bool], T | Unreadable],
    ) -> Generator[tuple[Request, ...], tuple[Answer, ...], tuple[T | Unreadable, Generated]]:
        """Ask for JSON, with one turn to repair it; return what was read, and the reply."""
        decoding = replace(self.decoding, max_new_tokens=self.answer_tokens)
        schema = schema_of(kind, candidate.item.letters)
        reply = yield from self._turn(turns, decoding, schema)
        result = read(turns[-1].content, candidate, reply.is_cut)
        if isinstance(result, Unreadable):
            turns.append(Message("user", say("repair", reason=result.reason)))
            reply = yield from self._turn(turns, decoding, schema)
            result = read(turns[-1].content, candidate, reply.is_cut)
        return result, reply

    def _letter(
        self, turns: list[Message], candidate: Candidate
    ) -> Generator[tuple[Request, ...], tuple[Answer, ...], Prediction]:
        result, reply = yield from self._read(turns, Letter, candidate, self._answer)
        letter = None if isinstance(result, Unreadable) else result
        if letter is None and reply.is_cut:
            return cut_off_prediction(reply)
        return Prediction(outcome=mark(candidate, letter), answer=letter, text=reply.text)

    def _answer(self, text: str, candidate: Candidate, is_cut: bool) -> str | Unreadable:
        """Return the letter of a reply: of its JSON, or, as the parser reads it, of all of it."""
        options, letters = candidate.options, ", ".join(candidate.item.letters)

        def objection(reply: Letter) -> str | None:
            if letter_read(self.parser, reply.answer, options) is not None:
                return None
            return f"answer: expected one of the letters {letters}"

        letter = letter_read(self.parser, text, options, is_cut=is_cut)
        if is_cut or (letter is not None and self.parser == DEFAULT):  # that reads JSON too
            return letter or CUT_OFF
        reply = read_reply(text, Letter, objection)
        if isinstance(reply, Letter):
            letter = letter_read(self.parser, reply.answer, options)
        return letter or cast("Unreadable", reply)

    def _prompt(self, turns: list[Message]) -> Prompt:
        if self.in_turns:
            return tuple(turns)
        lines = [f"{_SPEAKERS[turn.role]}{turn.content}" for turn in turns]
        return "\n\n".join([*lines, "Assistant:"])


def _confidences(text: str, candidate: Candidate, is_cut: bool) -> tuple[float, ...] | Unreadable:
    """Return the confidence of each option, from JSON or prose."""
    letters = candidate.item.letters
    if is_cut:
        return CUT_OFF

    def objection(reply: Confidences) -> str | None:
        missing = [letter for letter in letters if letter not in reply.confidence]
        return f"confidence: {', '.join(missing)} missing" if missing else None

    reply = read_reply(text, Confidences, objection)
    if isinstance(reply, Unreadable):
        return confidences_in(text, letters) or reply
    return tuple(reply.confidence[letter] for letter in letters)
