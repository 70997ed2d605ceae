"""Labelled pairs: inference, or yes / no / maybe about an abstract as in PubMedQA."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from importlib.resources import files
from typing import Any

from medstress.attacks.noise.texts import Field, Side
from medstress.attacks.protocol import PAIRS
from medstress.core.errors import UsageError, did_you_mean
from medstress.core.outcomes import Outcome, Prediction
from medstress.kinds.kind import Kind, Marked, Tasks, VictimRequest, Words
from medstress.kinds.nli.item import FIELDS, LabelledCandidate, LabelledPair
from medstress.kinds.nli.task import NAME, DirectLabelling, PromptedLabelling
from medstress.kinds.noise_words import two_texts
from medstress.kinds.prompted import prompted_tasks
from medstress.kinds.victim_prompts import SHIPPED
from medstress.tasks.multiple_choice import AnswerBy
from medstress.tasks.task import AnyTask
from medstress.tasks.templates import stored_template
from medstress.tasks.wrapping import task_from_spec

_LIKELIHOOD = ("transformers",)
"""Back ends that say how likely any text is after a prompt."""


class Inference(Kind):
    """Natural language inference, and questions about a text that are answered by a label."""

    name = "labelled pairs"
    task = NAME
    item = LabelledPair

    def is_taken(self, kinds: frozenset[str]) -> bool:
        """Attacks on sentence pairs take these as well: they edit the same two texts."""
        return self.name in kinds or PAIRS in kinds

    def answered(self, unit: LabelledPair, *, right: bool) -> Prediction:
        """The gold label, or the first wrong one, at P = .6."""
        given = unit.label if right else next(x for x in unit.labels if x != unit.label)
        rest = 0.4 / (len(unit.labels) - 1)
        return Prediction(
            outcome=Outcome.RIGHT if right else Outcome.WRONG,
            answer=given,
            scores=tuple(math.log(0.6 if label == given else rest) for label in unit.labels),
        )

    def changed(self, candidate: LabelledCandidate) -> LabelledPair:
        """The pair with its new texts."""
        return replace(
            candidate.item, text_a=candidate.text_a, text_b=candidate.text_b, mentions=()
        )

    def values(self, candidate: LabelledCandidate) -> dict[str, Any]:
        """Texts and labels, as the reader has them."""
        item = candidate.item
        names = ("context", "question") if item.asks else FIELDS
        texts = dict(zip(names, (candidate.text_a, candidate.text_b), strict=True))
        return {**texts, "label": item.label, "labels": list(item.labels)}

    def mentions(self, item: LabelledPair) -> dict[str, tuple[Marked, ...] | None]:
        """Those of the row; where it has none they have to be found."""
        return {
            item.text_of(name): _marked(item, name) if item.mentions else None for name in FIELDS
        }

    def words(
        self,
        item: LabelledPair,
        mentions: Mapping[str, tuple[Marked, ...]],
        side: Side = "random",
        field: Field | None = None,
    ) -> Iterable[Words]:
        """One text or both."""
        return two_texts(item.text_a, item.text_b, mentions, side)

    def classes(self, items: Iterable[LabelledPair]) -> tuple[str, ...]:
        """The labels of all data sets."""
        return tuple(sorted({label for item in items for label in item.labels}))

    def tasks(self, asked: VictimRequest) -> Tasks:
        """A head or a function reads the texts; all else is asked with a prompt."""
        self.refuse_keys(asked, "shots", "shots_from")
        table, calls = asked.table, asked.backend.traits.calls
        if "classify" in calls and table.answer_by in (None, AnswerBy.HEAD.value):
            self.refuse_keys(asked, "wrap")
            return Tasks(default=_direct(asked))
        if not {"score", "generate"} & calls or table.answer_by == AnswerBy.HEAD.value:
            raise UsageError(
                f"victim {asked.label!r}: backend {table.backend!r} cannot answer {self.name}"
                + ("" if table.answer_by is None else f" by {table.answer_by}")
            )
        likely = AnswerBy.TEXT if table.backend in _LIKELIHOOD else AnswerBy.GENERATE
        # A letter is asked for where it is read.
        usual = SHIPPED if table.answer_by == AnswerBy.LETTER.value else _prompt()
        default, by_dataset = prompted_tasks(asked, likely, usual)
        return Tasks(
            default=PromptedLabelling(inner=default),
            by_dataset=tuple((label, PromptedLabelling(inner=task)) for label, task in by_dataset),
        )

    def task_from_spec(self, spec: Mapping[str, Any], prompt: Mapping[str, Any] | None) -> AnyTask:
        """By the prompt, or by the victim's names of labels."""
        if prompt is None:
            return DirectLabelling(names=spec["names"])
        return PromptedLabelling(inner=task_from_spec(spec["prompted"], stored_template(prompt)))


def _prompt() -> str:
    """The file of the prompt that lists labels."""
    return str(files(__name__) / "labels.txt")


def _direct(asked: VictimRequest) -> DirectLabelling:
    """The task of a victim whose labels may be known; they must be those of the data."""
    theirs, names = asked.backend.traits.labels, dict(asked.table.labels or {})
    if theirs:
        for name in names:
            if name not in theirs:
                raise UsageError(
                    f"victim {asked.label!r}: labels: it has no label {name!r}"
                    f"{did_you_mean(name, theirs)} (it has: {', '.join(theirs)})"
                )
        # Models write ENTAILMENT where data sets write entailment.
        alike = {label.casefold(): label for label in asked.classes}
        for name in theirs:
            if name not in names and name.casefold() in alike:
                names[name] = alike[name.casefold()]
        known = {names.get(name, name) for name in theirs}
        if missing := [label for label in asked.classes if label not in known]:
            raise UsageError(
                f"victim {asked.label!r} knows the labels {', '.join(theirs)}, and the data's are "
                f"{', '.join(asked.classes)}: say which of its labels is {missing[0]!r}, e.g. "
                f'labels = {{{theirs[0]} = "{missing[0]}"}}, or take another model'
            )
    return DirectLabelling(names={name: ours for name, ours in names.items() if name != ours})


def _marked(item: LabelledPair, name: str) -> tuple[Marked, ...]:
    return tuple((m.start, m.end, m.type or "entity") for m in item.mentions if m.field == name)


NLI = Inference()
