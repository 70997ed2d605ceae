"""Answered examples before every prompt, rendered with the prompt's own template."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from medstress.core.calls import Answer, Message, Prompt, Request
from medstress.core.items import Candidate, Question
from medstress.tasks.multiple_choice import AnswerBy, Flow, MultipleChoice, changed
from medstress.tasks.wrappers import Wrapper, put_before, without_lead

SPARE = 2
"""Extra examples drawn: one may have the item's id, another its text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FewShot(Wrapper):
    """Show the first examples that are not the item itself, each with its answer.

    The answer is the letter of the key, or its text if the victim sees no letters (answer by text
    or head). In a conversation, an example is a user turn and an assistant turn.
    """

    inner: MultipleChoice
    """The victim's own task."""
    shots: int
    """Number of examples before each prompt."""
    examples: tuple[Question, ...]
    """In the order of their file; `SPARE` more than are shown."""

    def flow(self, candidate: Candidate) -> Flow:
        """Run the inner flow with the examples before its prompts."""

        def ask(request: Request) -> Request:
            return put_before(request, lambda prompt: self._before(prompt, candidate))

        def read(answer: Answer) -> Answer:
            return without_lead(answer, self._lead(candidate))

        return (yield from changed(self.inner.flow(candidate), ask, read))

    def listing(self, candidate: Candidate) -> str:
        """Return the examples and the prompt."""
        return self._lead(candidate) + self.inner.listing(candidate)

    def spec(self) -> dict[str, Any]:
        """Return what defines the task: the examples themselves, not their source."""
        rows = [
            [q.id, q.context, q.stem, list(q.options), q.key, *([q.passage] if q.passage else [])]
            for q in self.examples
        ]
        own = {"wrap": "few_shot", "shots": self.shots, "examples": rows}
        return {**own, "task": self.inner.spec()}

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], inner: MultipleChoice) -> FewShot:
        """The inverse of `spec`, given the inner task."""
        examples = tuple(
            Question(
                id=id_,
                context=context,
                stem=stem,
                options=tuple(options),
                key=key,
                passage=passage[0] if passage else "",
            )
            for id_, context, stem, options, key, *passage in spec["examples"]
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
        """Return the examples as one text, with the options listed."""
        shown = self._shown(candidate)
        return "".join(f"{self.inner.listing(each)} {answer}\n\n" for each, answer in shown)

    def _before(self, prompt: Prompt, candidate: Candidate) -> Prompt:
        if self.inner.answer_by is AnswerBy.CHOICE:
            return self._lead(candidate) + str(prompt)
        template, parts = self.template, []
        turns: list[Message] = []
        for each, answer in self._shown(candidate):
            rendered = template.render(each)
            if isinstance(rendered, str):
                parts.append(f"{rendered} {answer}\n\n")
            else:
                turns += [*rendered[1:], Message("assistant", answer)]
        if isinstance(prompt, str):
            return "".join(parts) + prompt
        return (prompt[0], *turns, *prompt[1:])
