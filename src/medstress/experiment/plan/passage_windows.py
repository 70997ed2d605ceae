"""Passages that do not fit a model's window are cut at the end of a sentence, for all victims.

All victims of a run are asked about the same items, so the smallest window decides: a comparison of
two victims that had read different passages would compare passages.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from medstress.core.calls import Window
from medstress.core.items import Question
from medstress.core.sentence_splitting import sentence_spans
from medstress.datasets.source import Loaded
from medstress.experiment.plan.dataset_parts import DatasetPart
from medstress.tasks.victim import Victim

_WORD = re.compile(r"\S+")
ROOM = 128
"""Tokens left free for what attacks put into a prompt: names, an inserted sentence."""


def with_fitting_passages(part: DatasetPart, victims: Sequence[Victim]) -> DatasetPart:
    """Return a data set whose passages fit the windows of all victims that show them.

    The prompt of the clean item, its longest option, the reply and `ROOM` tokens have to fit. An
    item whose prompt is too long without its passage keeps the first word of it, and its trials
    fail as they would have.

    Returns:
        The data set, with a note for each victim for which passages were cut, one if no victim is
        shown any passage, and one for each that expects passages where questions have none.
        Victims whose window is unknown, such as servers, cut nothing.
    """
    n_passages = sum(bool(getattr(item, "passage", "")) for item in part.questions)
    readers = [
        victim
        for victim in victims
        if victim.on(part.label).prompt is not None and victim.on(part.label).shows("passage")
    ]
    notes = []
    if n_passages and not readers and not getattr(part.loaded, "has_optional_passages", False):
        notes.append(
            f"{n_passages} questions have a passage, but no victim's prompt shows it: set prompt = "
            '"open_book" or "open_book_cloze", or place {{ passage }} in a prompt of yours'
        )
    for victim in readers:
        if n_missing := len(part.questions) - n_passages:
            notes.append(
                f"{n_missing} of {len(part.questions)} questions have no passage; victim "
                f"{victim.label!r} is asked about them without one"
            )
        window = victim.backend.window
        if window is None or not n_passages:
            continue
        asked = victim.on(part.label)
        questions = tuple(_fitting(item, asked, window) for item in part.questions)
        n_cut = sum(new is not old for new, old in zip(questions, part.questions, strict=True))
        if n_cut:
            notes.append(
                f"{n_cut} of {n_passages} passages do not fit the {window.tokens:,} tokens that "
                f"victim {victim.label!r} reads at once; they are cut at the end of a sentence, or "
                "of a word where not even the first sentence fits, for all victims"
            )
            part = replace(part, questions=questions)
            if isinstance(part.loaded, Loaded):
                # Probes draw passages of all rows.
                fitting = (_fitting(item, asked, window) for item in part.loaded.questions)
                part = replace(part, loaded=replace(part.loaded, questions=tuple(fitting)))
    return replace(part, loaded=replace(part.loaded, notes=(*part.loaded.notes, *notes)))


def _fitting(item: Question, victim: Victim, window: Window) -> Question:
    """Return the item with as many sentences of its passage as fit."""
    if not item.passage.strip():
        return item
    most = window.tokens - ROOM - _reply(victim)
    ends = [end for _, end in sentence_spans(item.passage)]
    words = [found.end() for found in _WORD.finditer(item.passage, 0, ends[0])]

    def fits(end: int) -> bool:
        prompt = victim.task.template.render(_shortened(item, end).candidate())  # type: ignore[attr-defined]
        longest = max(item.options, key=len)
        prompts = [f"{prompt} {longest}"] if isinstance(prompt, str) else [prompt, longest]
        return sum(window.count(prompts)) <= most

    if fits(ends[-1]):
        return item
    if not fits(ends[0]):
        ends = words
    n = bisect_left(ends, True, key=lambda end: not fits(end))
    return _shortened(item, ends[max(n, 1) - 1])


def _reply(victim: Victim) -> int:
    """Return the most tokens of a reply that share the window with the prompt."""
    spec: Any = victim.task.spec()
    while "task" in spec:
        spec = spec["task"]
    if spec.get("answer_by") != "generate":
        return 0
    return int(spec["decoding"][0]) + int(spec.get("reasoning_tokens") or 0)


def _shortened(item: Question, end: int) -> Question:
    if end >= len(item.passage.rstrip()):
        return item
    kept = (m for m in item.mentions if m.field != "passage" or m.end <= end)
    return replace(item, passage=item.passage[:end], mentions=tuple(kept))
