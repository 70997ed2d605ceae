"""The explanation of one trial: its prompt before and after the edits, as work for the scheduler.

It is journalled, answered, cached and replayed like a trial. Its calls have the purpose `explain`
and count in the ledger under `other`.
"""

from __future__ import annotations

from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias

import numpy as np

from medstress.core.calls import Reply
from medstress.core.errors import TrialError
from medstress.core.hashing import content_hash
from medstress.core.outcomes import Prediction
from medstress.core.text import Edit
from medstress.engine.asking import Guard, answer_all
from medstress.engine.inquiry import InquiryFlow, InquiryResult
from medstress.engine.work import CallRound, Purpose
from medstress.experiment.explain.calls import Texts, masked_flow
from medstress.experiment.explain.masking import MASK, Mask, Masker, pieces, word_cuts
from medstress.experiment.explain.outputs import Outputs, outputs_of
from medstress.experiment.explain.segments import Segment, segments_of
from medstress.experiment.explain.shapley import (
    BATCH,
    EVALUATIONS,
    Floats,
    Masks,
    Owen,
    owen_values,
    tree_of,
)
from medstress.tasks.victim import Victim

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
    wrong: str | None
    """The victim's answer at the success; None if the attack failed."""
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
        cut = [segment.pieces or _cut(segment.text, work.victim) for segment in segments]
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
            if _is_whole(mask):
                self.answer = prediction
        try:
            self.masks = self.search.send(np.stack([outputs.read(one) for one in predictions]))
        except StopIteration as stop:
            self.masks, self.found = [], stop.value

    def as_json(self, outputs: Outputs) -> dict[str, Any]:
        """Return the findings."""
        assert self.found is not None
        assert self.answer is not None
        values = np.round(self.found.values, DIGITS)
        base, full = np.round(self.found.base, DIGITS), np.round(self.found.full, DIGITS)
        return {
            "answer": outputs.answer(self.answer),
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
    outputs = outputs_of(work.item, work.wrong)
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
    before, after = (side.as_json(outputs) for side in sides)
    return {
        "outputs": list(outputs.names),
        "key": outputs.key,
        "value": outputs.value(predictions).value,
        "units": "words" if _starts(work.victim, "a") is None else "tokens",
        "before": before,
        "after": after,
    }


def _masker(segments: Sequence[Segment], cut: Sequence[tuple[str, ...]], mask: str) -> Masker:
    tokens = [token for part in cut for token in part]
    if any(segment.pieces for segment in segments):
        # A tagger gets as many tokens as the text has, and none of them empty.
        own = mask if mask.strip() else MASK
        return Masker(texts=tuple((token,) for token in tokens), mask=own, one_by_one=True)
    texts: dict[int, list[str]] = {}
    for segment, part in zip(segments, cut, strict=True):
        texts.setdefault(segment.number, []).extend(part)
    return Masker(texts=tuple(map(tuple, texts.values())), mask=mask)


def _cut(text: str, victim: Victim) -> tuple[str, ...]:
    """Cut a text into the victim's tokens; into words if the victim does not say which they are."""

    def cuts(text: str) -> Sequence[int]:
        starts = _starts(victim, text)
        return word_cuts(text) if starts is None else starts

    return pieces(text, cuts) if text else ()


def _starts(victim: Victim, text: str) -> Sequence[int] | None:
    return victim.backend.token_starts(text)


def _is_whole(mask: Mask) -> bool:
    return bool(mask.all())
