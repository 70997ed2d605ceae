"""Multiple-choice questions, whose options hold the entities that attacks replace."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from medstress.attacks.noise.texts import OPTIONS, Field, Side, marks_of, own_marks, texts_of
from medstress.attacks.protocol import QUESTIONS
from medstress.core.items import TEXTS, Candidate, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.text import Edit
from medstress.kinds.kind import Kind, Marked, Tasks, VictimRequest, Words
from medstress.kinds.noise_words import words_of
from medstress.kinds.prompted import head_template, prompted_tasks
from medstress.tasks.option_order import order_of
from medstress.tasks.task import Task
from medstress.tasks.templates import stored_template
from medstress.tasks.wrapping import task_from_spec


class Choice(Kind):
    """Multiple choice."""

    name = QUESTIONS
    task = "multiple_choice"
    item = Question
    draws_names = True
    has_fields = True
    learner = "medstress.training.choice:open_learner"

    def edited_options(self, unit: Question, edits: Sequence[Edit]) -> frozenset[str]:
        """The letters of the options that edits change; none if they only change places."""
        if order_of(Candidate(item=unit, edits=tuple(edits))) is not None:
            return frozenset()
        return frozenset({edit.field for edit in edits} & set(unit.letters))

    def answered(self, unit: Question, *, right: bool) -> Prediction:
        """The key, or the first wrong option, at P = .6."""
        given = unit.key if right else next(x for x in unit.letters if x != unit.key)
        rest = 0.4 / (len(unit.letters) - 1)
        return Prediction(
            outcome=Outcome.RIGHT if right else Outcome.WRONG,
            answer=given,
            scores=tuple(math.log(0.6 if letter == given else rest) for letter in unit.letters),
            mass=0.9,
        )

    def changed(self, candidate: Candidate) -> Question:
        """The question with its new texts."""
        return replace(
            candidate.item,
            passage=candidate.passage,
            context=candidate.context,
            stem=candidate.stem,
            options=candidate.options,
            mentions=(),
        )

    def values(self, candidate: Candidate) -> dict[str, Any]:
        """Texts and key."""
        return {
            "context": candidate.context,
            "stem": candidate.stem,
            "options": dict(zip(candidate.item.letters, candidate.options, strict=True)),
            "answer_idx": candidate.item.key,
            **_passage(candidate),
        }

    def words(
        self,
        item: Question,
        mentions: Mapping[str, tuple[Marked, ...]],
        side: Side = "random",
        field: Field | None = None,
    ) -> Iterable[Words]:
        """Passage, context and stem, or the texts of one field."""
        return [
            words_of(item.text_of(name), marks_of(item, name, mentions))
            for name in (TEXTS if field is None else texts_of(item, field))
            if item.text_of(name)
        ]

    def mentions(self, item: Question) -> dict[str, tuple[Marked, ...] | None]:
        """The item's own; they have to be found in texts without any."""
        names = (*TEXTS, *texts_of(item, OPTIONS))
        return {item.text_of(name): own_marks(item, name) or None for name in names}

    def tasks(self, asked: VictimRequest) -> Tasks:
        """Prompts, wrapped or not."""
        default, by_dataset = prompted_tasks(asked)
        return Tasks(default=default, by_dataset=by_dataset)

    def task_from_spec(self, spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> Task:
        """Given the prompt."""
        assert prompt is not None
        return task_from_spec(spec, stored_template(prompt))

    def is_described(self, spec: Mapping[str, Any]) -> bool:
        """Tasks of questions do not say their kind."""
        return "kind" not in spec

    def check_training(self, prompt: str, base: Path) -> None:
        """The prompt must be one that a head reads."""
        head_template(prompt, base)

    def trained_victim(self, encoder: str, prompt: str) -> dict[str, Any]:
        """A head, asked with the prompt that it was trained with."""
        return {"backend": "transformers", "answer_by": "head", "prompt": prompt}


def _passage(item: Question | Candidate) -> dict[str, str]:
    """Return the passage as a field, if there is one."""
    return {"passage": item.passage} if item.passage else {}


CHOICE = Choice()
