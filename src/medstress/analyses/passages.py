"""What a passage is worth, what edits take with it, and whether the model reads it or remembers.

* *gains*: accuracy on clean items with the passage and without it, on the same items. A passage
  that does not decide its question is a control: a reader gains nothing from it.
* *accuracies*: accuracy before and after each attack on the same items; an item that an attack
  cannot edit keeps its clean answer. Attacks that change the evidence are left out: what they take
  is no error.
* *evidence*: answers once the passage supports another option.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.as_json import HIDDEN
from medstress.analyses.run import Cell, Run
from medstress.analyses.shown import (
    Chart,
    Field,
    OfAttack,
    Point,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    label,
    panel,
    table,
    where,
)
from medstress.core.arms import Place
from medstress.core.items import Question
from medstress.core.passages import DECIDES
from medstress.core.trials import Trial
from medstress.core.validity import EVIDENCE_CHANGED
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
class Accuracies(OfAttack):
    """Accuracy before and after one attack or control, on the items of a group."""

    """Label of the attack, or name of the control: its arm with most queries stands for all."""
    accuracy: Estimate
    accuracy_after: Estimate
    """Over all seeds."""


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
    accuracies: Sequence[Accuracies]
    evidence: Sequence[Evidence]
    has_pair: bool = field(metadata=HIDDEN)
    """Whether one model is asked with passages and without."""
    title = "Passages"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """What passages are worth, what was answered on other evidence, what attacks take."""
        return [
            table(
                "passages",
                "What the passage is worth: accuracy on clean items with it and without it",
                self.gains,
                _GAIN,
                n_labels=4,
                notes=[
                    "The gain is paired: the same items, by Tango's score interval. Undecided "
                    "passages are on the topic and do not settle the question: a gain there is no "
                    "reading."
                ],
            ),
            table(
                "evidence",
                "Reading and remembering: answers once the passage supports another option",
                self.evidence,
                _EVIDENCE,
                n_labels=4,
                notes=[
                    "Of items answered rightly before. A lost answer is no error here: the text no "
                    "longer supports the key."
                ],
            ),
            table(
                "passage_accuracies",
                "Accuracy before and after each attack, on the same items",
                self.accuracies,
                _ACCURACIES,
                n_labels=4,
                notes=[
                    "An item that an attack cannot edit keeps its answer. Attacks after which the "
                    "text no longer supports the key are left out."
                ],
            ),
        ]

    def charts(self) -> Sequence[Chart]:
        """Accuracy of readers and others before and after attacks; answers on other evidence."""
        by_model: dict[Place, list[Accuracies]] = defaultdict(list)
        for row in self.accuracies:
            by_model[Place(row.dataset, row.group, row.victim)].append(row)
        points = []
        for place, rows in by_model.items():
            title = ", ".join(name.replace("_", " ") for name in place[:2])
            marks = [("before", rows[0].accuracy)]
            marks += [(row.attack, row.accuracy_after) for row in rows]
            points += [
                Point(x=attack.replace("_", " "), y=share, series=place.victim, panel=title)
                for attack, share in marks
            ]
        return [
            Chart(
                name="passages",
                title="Accuracy with the passage and without it",
                kind="dots",
                x="attack",
                y="accuracy",
                points=tuple(points),
                by_model=True,
            ),
            Chart(
                name="evidence",
                title="Answers once the passage supports another option",
                kind="bars",
                x="attack",
                y="share of right answers",
                points=tuple(
                    Point(x=row.attack, y=share, series=name, panel=panel(row, self.evidence))
                    for row in self.evidence
                    for name, share in (
                        ("follows the passage", row.followed),
                        ("keeps the key", row.kept),
                        ("other", row.other),
                    )
                ),
            ),
        ]

    def remarks(self) -> Sequence[Remark]:
        """Say what is not known, what may be chance, and who remembers."""
        remarks = []
        if self.has_pair and not self.gains:
            remarks.append(
                Remark(
                    rule="no_gain",
                    sentence="What the passage is worth is unknown: a model without passages is "
                    "not asked under attacks that edit the passage alone; add another attack, such "
                    "as no_op.",
                )
            )
        for gain in self.gains:
            low, high = gain.gain.ends
            if gain.passages == "undecided" and low is not None and low > 0:
                sentence = "gains from passages that do not settle the question: no reading."
            elif gain.passages == "all" and low is not None and high is not None and low <= 0:
                sentence = "may be no better with passages than without."
            else:
                continue
            remarks.append(
                Remark(
                    rule="passage_gain",
                    where=(gain.dataset, gain.group, gain.open),
                    level="note",
                    sentence=f"{gain.open} {sentence}",
                )
            )
        for row in self.evidence:
            low = row.kept.low
            if low is not None and low > (row.followed.high or 0.0):
                remarks.append(
                    Remark(
                        rule="remembers",
                        where=where(row, row.attack),
                        level="note",
                        sentence=f"{row.victim} keeps the key more often than it follows the "
                        f"passage under {row.attack}: it remembers rather than reads.",
                    )
                )
        return remarks


class PassagesOfRun:
    """What passages are worth, and what edits of them take."""

    name = "passages"

    def compute(self, run: Run) -> Passages | None:
        """Compare models with passages and without; None where the run shows no passage."""
        evidence = [row for cell in run.cells for row in _evidence(cell)]
        has_passages = any(
            item.kind == Question.kind and item.passage for item in run.folder.items.values()
        )
        pairs = _pairs(run.manifest["victims"]) if has_passages else []
        if not pairs and not evidence:
            return None
        groups = run.manifest["groups"]
        free = {name for name, part in groups.items() if not part.get("n_names")}
        return Passages(
            gains=list(_gains(run, pairs, free)),
            accuracies=list(_accuracies(run, free)) if pairs else [],
            evidence=evidence,
            has_pair=bool(pairs),
        )


READING = PassagesOfRun()


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
                    yield _gain(first[0], second[0], i, j, name)


def _decides(trial: Trial) -> bool | None:
    """Return whether the passage decides the question; anything but a truth value says nothing."""
    decides = trial.item.metadata.get(DECIDES)
    return decides if isinstance(decides, bool) else None


def _gain(
    first: Cell, second: Cell, i: NDArray[np.int64], j: NDArray[np.int64], passages: str
) -> Gain:
    right, beside = first.eligible[i], second.eligible[j]
    gain = difference(right, beside, first.units[:, i])
    return Gain(
        dataset=first.place.dataset,
        group=first.place.group,
        open=first.place.victim,
        closed=second.place.victim,
        passages=passages,
        n=len(i),
        accuracy_open=rate(right, first.units[:, i]),
        accuracy_closed=rate(beside, second.units[:, j]),
        gain=gain.estimate,
        p=gain.p,
    )


def _accuracies(run: Run, free: Collection[str]) -> Iterator[Accuracies]:
    """Yield accuracy before and after each attack and control on the same items of a group.

    Attacks without names are asked about all items; they are shown on the items of each group
    that has names, beside its attacks.
    """
    trials: dict[Place, list[Trial]] = defaultdict(list)
    for trial in run.trials:
        trials[trial.arm.place].append(trial)
    groups = dict.fromkeys((place.dataset, place.group) for place in trials)
    with_names = {dataset for dataset, group in groups if group not in free}
    arms = _one_arm_each(run)
    for dataset, group in groups:
        if group in free and dataset in with_names:
            continue
        # An arm of the group itself stands before one that was asked about all items.
        here = {
            (place.victim, name): cell
            for (place, name), cell in arms.items()
            if (place.dataset, place.group) == (dataset, group)
        }
        wider = {
            (place.victim, name): cell
            for (place, name), cell in arms.items()
            if place.dataset == dataset and place.group in free
        }
        for (victim, name), cell in {**wider, **here}.items():
            clean = _clean(trials.get(Place(dataset, group, victim), ()))
            if clean is None or not cell.answered.any() or any(map(_changes_evidence, cell.trials)):
                continue
            shared = [
                (clean[1][trial.item.id], j)
                for j, trial in enumerate(cell.trials)
                if trial.item.id in clean[1]
            ]
            i, j = np.array(shared, dtype=np.int64).reshape(-1, 2).T
            once = np.unique(i)
            before = clean[0]
            yield Accuracies(
                dataset=dataset,
                group=group,
                victim=victim,
                attack=name,
                accuracy=rate(before.eligible[once], before.units[:, once]),
                accuracy_after=rate(
                    before.eligible[i] & ~cell.flipped(cell.budget)[j], before.units[:, i]
                ),
            )


def _one_arm_each(run: Run) -> dict[tuple[Place, str], Cell]:
    """Return the cells of attacks by label, then of each control the one with most queries."""
    arms = {(cell.place, cell.attack.label): cell for cell in run.attacks}
    controls: dict[tuple[Place, str], Cell] = {}
    for cell in run.cells:
        if cell.arm.control is not None:
            key = (cell.place, cell.arm.control)
            rivals = [cell, *([controls[key]] if key in controls else [])]
            controls[key] = max(rivals, key=_n_asked)
    return {**controls, **arms}


def _n_asked(cell: Cell) -> int:
    return sum(trial.queries.asked for trial in cell.trials)


def _changes_evidence(trial: Trial) -> bool:
    reason = None if trial.pick is None else trial.pick.validity.reason
    return supported(trial) is not None or reason == EVIDENCE_CHANGED


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
        **cell.place._asdict(),
        attack=cell.attack.label,
        followed=share(followed),
        kept=share(kept),
        other=share(~(followed | kept)),
    )


def _last(trial: Trial) -> str | None:
    return None if trial.last is None else trial.last.answer


_GAIN: Sequence[Field[Gain]] = (
    column("Group", lambda row: label(row.group)),
    column("With passages", lambda row: label(row.open), wide=True),
    column("Without", lambda row: label(row.closed), wide=True),
    column("Passages", lambda row: row.passages),
    column("Items", lambda row: row.n, "count", wide=True),
    column("Accuracy with", lambda row: row.accuracy_open, "share", key="accuracy_open"),
    column("Accuracy without", lambda row: row.accuracy_closed, "share", key="accuracy_closed"),
    column("Gain", lambda row: row.gain, "score"),
    column("p", lambda row: row.p, "p", wide=True),
)
_ACCURACIES: Sequence[Field[Accuracies]] = (
    column("Data", lambda row: label(row.dataset), wide=True),
    column("Group", lambda row: label(row.group)),
    column("Model", lambda row: label(row.victim)),
    column("Attack", lambda row: label(row.attack)),
    column("Before", lambda row: row.accuracy, "share"),
    column("After", lambda row: row.accuracy_after, "share"),
)
_EVIDENCE: Sequence[Field[Evidence]] = (
    *attack_labels(lambda row: row),
    column("Follows the passage", lambda row: row.followed, "share", key="followed"),
    column("Keeps the key", lambda row: row.kept, "share", key="kept"),
    column("Other", lambda row: row.other, "share"),
)
