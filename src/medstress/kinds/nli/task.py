"""Labelling a pair: both texts go to a head or a function, else to a prompt that lists labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from medstress.core.calls import Chosen, Classify, Request, Scored
from medstress.core.items import LETTERS, Candidate, Question
from medstress.core.outcomes import Outcome, Prediction
from medstress.core.text import Edit
from medstress.kinds.nli.item import LabelledCandidate, LabelledPair
from medstress.tasks.multiple_choice import FLOOR, Flow
from medstress.tasks.task import Task
from medstress.tasks.templates import Template

NAME = "classification"
"""What the task is called, by back ends and in manifests."""
_PREMISE = "Premise: "
_HYPOTHESIS = "Hypothesis: "
_ASKED = " Which label describes the hypothesis, given the premise?"


@dataclass(frozen=True, kw_only=True)
class DirectLabelling:
    """The task of a victim that reads both texts: a head, or a function."""

    names: Mapping[str, str] = field(default_factory=dict)
    """The victim's name of a label -> its name in the data, where the two differ."""

    def spec(self) -> dict[str, Any]:
        """What defines the task, for fingerprints."""
        return {"kind": NAME, "names": dict(sorted(self.names.items()))}

    def listing(self, candidate: LabelledCandidate) -> str:
        """Both texts as they are asked, one a line."""
        return f"{candidate.text_a}\n{candidate.text_b}"

    def flow(self, candidate: LabelledCandidate) -> Flow:
        """Ask for the label of one candidate."""
        item = candidate.item
        theirs = tuple(self._of_data.get(label, label) for label in item.labels)
        (reply,) = yield (Request(Classify(candidate.text_a, candidate.text_b, theirs)),)
        if isinstance(reply, Scored):
            return from_scores(item, reply.log_probs)
        assert isinstance(reply, Chosen)
        if reply.scores is not None:
            top = max(reply.scores)
            shares = [value / top for value in reply.scores]  # a plain sum may overflow
            return from_scores(
                item, tuple(math.log(max(share / sum(shares), FLOOR)) for share in shares)
            )
        said = reply.answer if reply.answer is not None else (reply.text or "")
        return judged(item, label_said(said, theirs, item.labels), text=reply.text)

    @cached_property
    def _of_data(self) -> dict[str, str]:
        """Label of the data -> the victim's."""
        return {ours: theirs for theirs, ours in self.names.items()}


@dataclass(frozen=True, kw_only=True)
class PromptedLabelling:
    """The task of a victim that is asked with a prompt: the labels are its options."""

    inner: Task
    """How the question is asked and its answer read."""

    def spec(self) -> dict[str, Any]:
        """What defines the task, for fingerprints."""
        return {"kind": NAME, "prompted": self.inner.spec()}

    @property
    def template(self) -> Template:
        """The prompt."""
        return self.inner.template

    @property
    def stores_requests(self) -> bool:
        """Whether requests are stored as they are."""
        return self.inner.stores_requests

    def listing(self, candidate: LabelledCandidate) -> str:
        """The prompt with the labels listed."""
        return self.inner.listing(as_question(candidate))

    def flow(self, candidate: LabelledCandidate) -> Flow:
        """Ask for one of the labels."""
        found = yield from self.inner.flow(as_question(candidate))
        if found.answer is None:
            return found
        return replace(found, answer=candidate.item.labels[LETTERS.index(found.answer)])


def as_question(candidate: LabelledCandidate) -> Candidate:
    """A pair as a question whose options are the labels, with its edits carried over."""
    item = candidate.item
    before_a, before_b = ("", "") if item.asks else (_PREMISE, _HYPOTHESIS)
    question = Question(
        id=item.id,
        context=before_a + item.text_a,
        stem=before_b + item.text_b + ("" if item.asks else _ASKED),
        options=item.labels,
        key=LETTERS[item.labels.index(item.label)],
    )
    places = {"text_a": ("context", len(before_a)), "text_b": ("stem", len(before_b))}
    edits = []
    for edit in candidate.edits:
        name, shift = places[edit.field]
        edits.append(
            Edit(
                field=name,
                start=edit.start + shift,
                end=edit.end + shift,
                replacement=edit.replacement,
            )
        )
    return question.candidate(tuple(edits))


def label_said(said: str, theirs: tuple[str, ...], labels: tuple[str, ...]) -> str | None:
    """The label that a text names, case and white space ignored; None where it names none.

    >>> label_said(" Yes\\n", ("yes", "no"), ("yes", "no"))
    'yes'
    """
    known = {name.strip().casefold(): label for name, label in zip(theirs, labels, strict=True)}
    return known.get(said.strip().casefold())


def judged(item: LabelledPair, label: str | None, text: str | None = None) -> Prediction:
    """The prediction of a label; None is unreadable."""
    if label is None:
        return Prediction(outcome=Outcome.UNREADABLE, answer=None, text=text)
    outcome = Outcome.RIGHT if label == item.label else Outcome.WRONG
    return Prediction(outcome=outcome, answer=label, text=text)


def from_scores(item: LabelledPair, log_probs: tuple[float, ...]) -> Prediction:
    """Return the most probable label as a prediction; ties go to the first label."""
    if not all(map(math.isfinite, log_probs)):
        return Prediction(
            outcome=Outcome.UNREADABLE,
            answer=None,
            text="log probabilities that are not finite",
        )
    top = max(log_probs)
    total = top + math.log(sum(math.exp(value - top) for value in log_probs))
    found = judged(item, item.labels[log_probs.index(top)])
    return replace(
        found,
        scores=tuple(value - total for value in log_probs),
        is_tied=log_probs.count(top) > 1,
    )
