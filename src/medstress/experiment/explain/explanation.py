"""The explanation of one trial: its prompt before and after the edits, as work for the scheduler.

It is journalled, answered, cached and replayed like a trial. Its calls have the purpose `explain`
and count in the ledger under `other`.
"""

from __future__ import annotations

import math
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.core.calls import Reply
from medstress.core.errors import TrialError
from medstress.core.hashing import content_hash
from medstress.core.outcomes import Prediction
from medstress.core.text import Edit
from medstress.engine.asking import Guard, answer_all
from medstress.engine.inquiry import InquiryFlow, InquiryResult
from medstress.engine.work import CallRound, Purpose
from medstress.experiment.explain.shapley import (
    BATCH,
    EVALUATIONS,
    Floats,
    Masks,
    Owen,
    owen_values,
    tree_of,
)
from medstress.experiment.explain.texts import (
    MASK,
    Masker,
    Segment,
    Texts,
    masked_flow,
    pieces,
    segments_of,
    word_cuts,
)
from medstress.tasks.victim import Victim

# -- what is explained of an answer ----------------------------------------------------------------


class Value(StrEnum):
    """What the outputs of an explanation are."""

    PROBABILITY = "probability"
    """P(option) among the options, by the victim's scores."""
    ANSWER = "answer"
    """1 for the option that was answered, 0 for the others: the victim gives no scores."""
    MIXED = "mixed"
    """The one or the other, by masked text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Reads the outputs of one question from predictions."""

    names: tuple[str, ...]
    """Option letters."""
    key: str
    """The output of the right answer."""

    def read(self, prediction: Prediction) -> NDArray[np.float64]:
        """Return the outputs, `(n_outputs,)`; an unreadable answer has 0 for all.

        Probabilities stay between 0 and 1, so that values are shares of a change of probability,
        and victims with and without scores are on one scale; log odds would be ruled by prompts
        that nobody would ask.
        """
        if prediction.scores is not None:
            return np.array([math.exp(value) for value in prediction.scores])
        return np.array([float(name == prediction.answer) for name in self.names])

    def value(self, predictions: Sequence[Prediction]) -> Value:
        """Return what the outputs of predictions are."""
        scored = {prediction.scores is not None for prediction in predictions}
        if len(scored) > 1:
            return Value.MIXED
        return Value.PROBABILITY if scored == {True} else Value.ANSWER


# -- the explanation -------------------------------------------------------------------------------


DIGITS = 9
"""Decimals of stored values."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How prompts are explained."""

    mask: str = MASK
    """Stands for masked tokens; empty leaves them out."""
    evaluations: int = EVALUATIONS
    """Masked texts of one prompt at most."""
    batch: int = BATCH
    """Masked texts of one prompt that are asked at once."""

    def as_json(self) -> dict[str, Any]:
        """Return what defines an explanation."""
        return {"mask": self.mask, "evaluations": self.evaluations, "batch": self.batch}


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """The explanation of one trial's prompt, clean and edited."""

    purpose: ClassVar[Purpose] = Purpose.EXPLAIN
    has_deadline: ClassVar[bool] = False
    repeat: ClassVar[int] = 0
    place: ClassVar[int] = 0

    dataset: str
    """Label of the data set."""
    group: str
    """Label of the entity group."""
    victim: Victim
    """The model, asked as the attack asks."""
    attack_label: str
    """Label of the attack: the ledger row the explanation counts in."""
    attack_spec: dict[str, Any]
    """The attack's parameters, as stored with the arm of its trials."""
    seed: int | None
    """Seed of that row."""
    item: Any
    """The item, or the part of it that the trial is about."""
    edits: tuple[Edit, ...]
    """Of the success, or of the last query of an attack that failed."""
    settings: Settings
    """How it is explained."""
    spec: dict[str, Any]
    """All that defines it, as JSON values; stored beside its findings (as `told`)."""

    @property
    def id(self) -> str:
        """Content hash of its place in the ledger, its item and its spec."""
        place = [self.dataset, self.group, self.victim.label, self.attack_label, self.seed]
        item = [self.item.id, self.item.hash]
        return content_hash([self.purpose.value, place, item, self.spec])

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
        self.masker = _masker(segments, cut, work.settings.mask)
        tree = tree_of(self.sizes)
        if tree is None:
            raise TrialError("not explained: the prompt is empty")
        n = len(self.tokens)
        self._whole = self.masker(np.ones(n, dtype=bool))
        self.search: Search = owen_values(
            tree, n, evaluations=work.settings.evaluations, batch=work.settings.batch
        )
        self.masks: Masks = next(self.search)
        self.found: Owen | None = None
        self.answer: Prediction | None = None

    @property
    def texts(self) -> list[Texts]:
        """What is asked next."""
        return [self.masker(mask) for mask in self.masks]

    def flow(self, texts: Texts) -> Any:
        """Return the victim's flow about masked texts."""
        flow = self._work.victim.flow(self._candidate)
        return flow if texts == self._whole else masked_flow(flow, self._whole, texts)

    def take(self, predictions: Sequence[Prediction], outputs: Outputs) -> None:
        """Go on with the answers to `masks`."""
        for mask, prediction in zip(self.masks, predictions, strict=True):
            if mask.all():
                self.answer = prediction
        try:
            self.masks = self.search.send(np.stack([outputs.read(one) for one in predictions]))
        except StopIteration as stop:
            self.masks, self.found = [], stop.value

    def as_json(self) -> dict[str, Any]:
        """Return the findings."""
        assert self.found is not None
        assert self.answer is not None
        values = np.round(self.found.values, DIGITS)
        base, full = np.round(self.found.base, DIGITS), np.round(self.found.full, DIGITS)
        return {
            "answer": self.answer.answer,
            "segments": [
                [segment.place, segment.edited, size]
                for segment, size in zip(self.segments, self.sizes, strict=True)
            ],
            "tokens": self.tokens,
            "values": values.tolist(),
            "base": base.tolist(),
            "full": full.tolist(),
            "evaluations": self.found.n_evaluations,
            # Of the values as stored, so that readers can check it.
            "gap": float(np.max(np.abs(values.sum(axis=0) + base - full))),
        }


def _explain(
    work: Explanation,
) -> Generator[CallRound, tuple[Reply, ...], dict[str, Any]]:
    """Search both prompts at once: they share batches, and texts in which the edit is masked."""
    outputs = Outputs(names=tuple(work.item.choices), key=work.item.key)
    fields = work.item.texts
    pair = segments_of(work.victim.flow, work.item, fields, work.edits)
    sides = [_Side(work, pair.before, ()), _Side(work, pair.after, work.edits)]
    n_asked, predictions = 0, list[Prediction]()
    try:
        while open_ := [side for side in sides if side.masks]:
            flows = [side.flow(texts) for side in open_ for texts in side.texts]
            held = yield from answer_all(flows, work.purpose, n_asked)
            answers = [one.answer for one in held]
            n_asked += len(answers)
            predictions += answers
            given = iter(answers)
            for side in open_:
                side.take([next(given) for _ in side.masks], outputs)
    finally:
        for side in sides:
            side.search.close()
    before, after = (side.as_json() for side in sides)
    return {
        "outputs": list(outputs.names),
        "key": outputs.key,
        "value": outputs.value(predictions).value,
        "units": "words" if work.victim.backend.token_starts("a") is None else "tokens",
        "before": before,
        "after": after,
    }


def _masker(segments: Sequence[Segment], cut: Sequence[tuple[str, ...]], mask: str) -> Masker:
    texts: dict[int, list[str]] = {}
    for segment, part in zip(segments, cut, strict=True):
        texts.setdefault(segment.number, []).extend(part)
    return Masker(texts=tuple(map(tuple, texts.values())), mask=mask)


def _cut(text: str, victim: Victim) -> tuple[str, ...]:
    """Cut a text into the victim's tokens; into words if the victim does not say which they are."""

    def cuts(text: str) -> Sequence[int]:
        starts = victim.backend.token_starts(text)
        return word_cuts(text) if starts is None else starts

    return pieces(text, cuts) if text else ()
