"""What a passage is worth, what edits take with it, and whether the model reads it or remembers.

* *gains*: accuracy on clean items with the passage and without it, on the same items. A passage
  that does not decide its question is a control: a reader gains nothing from it.
* *evidence*: answers once the passage supports another option.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from medstress.analyses.run import Analysis, Cell, Run
from medstress.analyses.shown import (
    HIDDEN,
    Field,
    OfAttack,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    named,
    table,
    where,
)
from medstress.core.arms import Place
from medstress.core.items import Question
from medstress.core.resources import DECIDES
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate
from medstress.stats.paired import difference
from medstress.stats.shares import Mask, rate

PASSAGES: Mapping[str, bool | None] = {"all": None, "deciding": True, "undecided": False}
"""Slice -> whether its passages decide the question, as rows of the data say; None: all."""
SWAP = "passage_swap"
"""The attack whose edits make the passage support a distractor."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What passages are worth to one model."""

    dataset: str
    group: str
    open: str
    """The model that is shown the passage."""
    closed: str
    """The same model, asked in the same way, that is not."""
    passages: str
    n: int
    accuracy_open: Estimate
    accuracy_closed: Estimate
    gain: Estimate
    p: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence(OfAttack):
    """Answers once a passage supports another option, of those that were right before.

    The three shares add up to 1.
    """

    followed: Estimate
    """The option that the passage supports now."""
    kept: Estimate
    """The key."""
    other: Estimate
    """Anything else; unreadable answers are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passages(Shown):
    """All about passages in a run."""

    gains: Sequence[Gain]
    evidence: Sequence[Evidence]
    has_pair: bool = field(metadata=HIDDEN)
    """Whether one model is asked with passages and without."""
    title = "Passages"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """What passages are worth, and what was answered on other evidence."""
        paired = (
            "The gain is paired: the same items, by Tango's score interval. Undecided passages are "
            "on the topic and do not settle the question: a gain there is no reading."
        )
        no_error = (
            "Of items answered rightly before. A lost answer is no error here: the text no longer "
            "supports the key."
        )
        worth = "What the passage is worth: accuracy on clean items with it and without it"
        answers = "Reading and remembering: answers once the passage supports another option"
        return [
            table("passages", worth, self.gains, _GAIN, notes=[paired]),
            table("evidence", answers, self.evidence, _EVIDENCE, notes=[no_error]),
        ]

    def remarks(self) -> Iterator[Remark]:
        """Say what is not known, what may be chance, and who remembers."""
        if self.has_pair and not self.gains:
            yield Remark(
                "no_gain",
                "What the passage is worth is unknown: a model without passages is not asked under "
                "attacks that edit the passage alone; add another attack, such as no_op.",
            )
        for row in self.evidence:
            if row.kept.low is not None and row.kept.low > (row.followed.high or 0.0):
                sentence = (
                    f"{row.victim} keeps the key more often than it follows the passage under "
                    f"{row.attack}: it remembers rather than reads."
                )
                yield Remark("remembers", sentence, where(row, row.attack), "note")


def passages_of(run: Run) -> Passages | None:
    """Compare models with passages and without; None where the run shows no passage."""
    evidence = [row for cell in run.cells for row in _evidence(cell)]
    items = run.folder.items.values()
    has_passages = any(item.kind == Question.kind and item.passage for item in items)
    pairs = _pairs(run.manifest["victims"]) if has_passages else []
    if not pairs and not evidence:
        return None
    free = {name for name, part in run.manifest["groups"].items() if not part.get("n_names")}
    gains = list(_gains(run, pairs, free))
    return Passages(gains=gains, evidence=evidence, has_pair=bool(pairs))


READING = Analysis("passages", passages_of)


def _pairs(victims: Mapping[str, Mapping[str, Any]]) -> list[tuple[str, str]]:
    """Return (shown passages, not shown any) of the same model, asked in the same way."""
    from medstress.tasks.templates import stored_template

    prompts = {name: victim.get("prompt") for name, victim in victims.items()}
    shows = {
        name: prompt is not None and stored_template(prompt).shows("passage")
        for name, prompt in prompts.items()
    }

    def way(victim: Mapping[str, Any]) -> list[Any]:
        task = victim["task"]
        keys = ("answer_by", "text_score", "parser", "decoding")
        return [victim["model_hash"], *(task.get(key) for key in keys)]

    return [
        (reader, other)
        for reader in victims
        for other in victims
        if shows[reader] and not shows[other] and way(victims[reader]) == way(victims[other])
    ]


_Clean: TypeAlias = tuple[Cell, Mapping[str, int]]
"""A cell with one answered trial an item, and the place of each item in it."""


def _clean(trials: Sequence[Trial]) -> _Clean | None:
    answered = [trial for trial in trials if trial.is_answered]
    if not answered:
        return None
    cell = Cell.of(answered).one_per_item()
    return cell, {trial.item.id: i for i, trial in enumerate(cell.trials)}


def _gains(run: Run, pairs: Sequence[tuple[str, str]], free: Collection[str]) -> Iterator[Gain]:
    # Attacks without names ask the clean items of the other groups once more.
    named = [t for t in run.trials if t.arm.place.group not in free] or run.trials
    trials: dict[Place, list[Trial]] = defaultdict(list)
    for trial in named:
        if trial.item.passage:
            trials[trial.arm.place].append(trial)
    groups = dict.fromkeys((place.dataset, place.group) for place in trials)
    clean = {place: _clean(of_place) for place, of_place in trials.items()}
    for dataset, group in groups:
        for reader, other in pairs:
            first, second = (clean.get(Place(dataset, group, one)) for one in (reader, other))
            if first is None or second is None:
                continue
            for name, wanted in PASSAGES.items():
                shared = [
                    (i, second[1][trial.item.id])
                    for i, trial in enumerate(first[0].trials)
                    if trial.item.id in second[1] and wanted in (None, _decides(trial))
                ]
                if shared:
                    i, j = np.array(shared, dtype=np.int64).T
                    with_it, without = first[0].eligible[i], second[0].eligible[j]
                    gain = difference(with_it, without, first[0].units[:, i])
                    yield Gain(
                        dataset=dataset,
                        group=group,
                        open=reader,
                        closed=other,
                        passages=name,
                        n=len(i),
                        accuracy_open=rate(with_it, first[0].units[:, i]),
                        accuracy_closed=rate(without, second[0].units[:, j]),
                        gain=gain.estimate,
                        p=gain.p,
                    )


def _decides(trial: Trial) -> bool | None:
    """Return whether the passage decides the question; anything but a truth value says nothing."""
    decides = trial.item.metadata.get(DECIDES)
    return decides if isinstance(decides, bool) else None


def supported(trial: Trial) -> str | None:
    """Return the letter of the distractor that a swap put in the key's place in the passage."""
    if trial.arm.attack.name != SWAP or not trial.edits:
        return None
    name = trial.edits[0].replacement.casefold()
    texts = zip(trial.item.letters, trial.item.options, strict=True)
    return next((x for x, t in texts if x != trial.item.key and t.strip().casefold() == name), None)


def _evidence(cell: Cell) -> Iterator[Evidence]:
    """Yield the shares of one arm; nothing if no passage supports an option after its change."""
    changed = cell.mask(lambda trial: trial.is_eligible and supported(trial) is not None)
    if not changed.any():
        return

    def share(hits: Mask) -> Estimate:
        return rate(hits[changed], cell.units[:, changed])

    followed = cell.mask(lambda t: _last(t) is not None and _last(t) == supported(t))
    kept = cell.mask(lambda t: _last(t) == t.item.key)
    yield Evidence(
        **cell.labels,
        followed=share(followed),
        kept=share(kept),
        other=share(~(followed | kept)),
    )


def _last(trial: Trial) -> str | None:
    return None if trial.last is None else trial.last.answer


_GAIN: Sequence[Field[Gain]] = (
    named("Group", "group"),
    named("With passages", "open", wide=True),
    named("Without", "closed", wide=True),
    column("Passages", "passages"),
    column("Items", "n", "count", wide=True),
    column("Accuracy with", "accuracy_open", "share"),
    column("Accuracy without", "accuracy_closed", "share"),
    column("Gain", "gain", "score"),
    column("p", "p", "p", wide=True),
)
_EVIDENCE: Sequence[Field[Evidence]] = (
    *attack_labels(),
    column("Follows the passage", "followed", "share"),
    column("Keeps the key", "kept", "share"),
    column("Other", "other", "share"),
)
