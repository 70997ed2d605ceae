"""Variants of all items, and passages: what the model reads, and how often its answers agree.

*Probes* ask variants of all items. Counted are trials whose clean item was answered, rightly or
not, and whose variants all were. An answer counts by its option, wherever it is
(`option_order`) and however it is worded (`brand_generic`). An unreadable answer is neither right
nor like another.

References:
    Cocchieri et al., "ReMedQA", EACL 2026: ReAcc and ReCon.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from medstress.analyses.run import Analysis, Cell, Run, pair
from medstress.analyses.shown import (
    FLAT,
    HIDDEN,
    Chart,
    Field,
    OfAttack,
    Point,
    Remark,
    Shown,
    Table,
    attack_labels,
    column,
    control_words,
    label,
    named,
    panel,
    place_labels,
    table,
)
from medstress.core.arms import Place
from medstress.core.items import Question
from medstress.core.outcomes import Verdict
from medstress.core.resources import DECIDES
from medstress.core.trials import Trial
from medstress.stats.estimate import Estimate
from medstress.stats.paired import difference
from medstress.stats.shares import rate

UNREADABLE = 0.1
"""Share of unreadable answers above which a warning says so."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rates:
    """Rates over the answers to variants."""

    accuracy: Estimate
    """Right / all; items that were wrong before count."""
    change: Estimate
    """Accuracy minus that of the clean items, paired."""
    right_to_wrong: Estimate
    """Wrong / variants of rightly answered items."""
    wrong_to_right: Estimate
    """Right / variants of items answered wrongly or unreadably."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe(OfAttack):
    """One probe, or a control that asked as many variants, in one place."""

    cell: Cell = field(metadata=HIDDEN)
    seeds: Sequence[int | None]
    control_of: str | None
    n_trials: int
    n_answers: int
    n_unreadable: int
    """Of these answers."""
    accuracy_before: Estimate
    """Of the clean items, in the same trials."""
    rates: Rates = field(metadata=FLAT)
    accuracy_all: Estimate
    """Trials right on the clean item and on every variant (ReAcc)."""
    consistency: Estimate
    """Trials whose variants all got the option of the clean answer, right or wrong (ReCon)."""
    consistency_net: Mapping[str, Estimate]
    """By control: consistency minus the control's on the trials of both, paired."""
    by_variant: Mapping[str, Rates]
    """By name of the variant, where the variants of a probe have names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Probes(Shown):
    """All probes of a run, and their controls."""

    rows: Sequence[Probe]
    title = "Probes"
    is_brief = True

    def tables(self) -> Sequence[Table]:
        """Rates of probes and controls, then rates by variant where variants have names."""
        by_variant = [(row, one) for row in self.rows for one in row.by_variant.items()]
        read = (
            "An answer counts by its option, whatever its letter. A control asks as many variants "
            "of the same items: compare each share with the control's."
        )
        controls = dict.fromkeys(name for row in self.rows for name in row.consistency_net)
        fields = [
            *_RATES,
            *(
                column(
                    f"Alike, net of {label(name).words}",
                    f"consistency_net.{name}",
                    "score",
                    key=f"consistency_net_{name}",
                )
                for name in controls
            ),
        ]
        caption = "Probes: answers to all variants of all items"
        return [
            table("probes", caption, self.rows, fields, notes=[read]),
            table("probes_by_variant", "Probes by variant", by_variant, _BY_VARIANT),
        ]

    def charts(self) -> Sequence[Chart]:
        """How often answers agree under each probe and under its controls."""
        places = [row.place for row in self.rows]
        points = [
            Point(
                row.control_of or row.attack,
                row.consistency,
                control_words(row.cell.attack.name) if row.control_of else "probe",
                panel(row.place, places),
            )
            for row in self.rows
        ]
        y = "share of trials answered alike"
        return [Chart("probes", "All variants answered alike", "bars", "probe", y, points)]

    def remarks(self) -> Sequence[Remark]:
        """Say what may be chance, and what could not be read."""
        return [remark for row in self.rows if row.control_of is None for remark in _remarks(row)]


def probes_of(run: Run) -> Probes | None:
    """Compute a row for each arm that keeps the answers to its variants; None without one."""
    probed = [cell for cell in run.cells if any(trial.answers for trial in cell.trials)]
    return Probes(rows=[_probe(run, cell) for cell in probed]) if probed else None


PROBES = Analysis("probes", probes_of)


def _probe(run: Run, cell: Cell) -> Probe:
    counted = cell.mask(_is_counted)
    trials = [(i, trial) for i, trial in enumerate(cell.trials) if counted[i]]
    every = [(i, letter) for i, trial in trials for letter in trial.answers]
    right, alike = cell.mask(_is_right_before), cell.mask(is_consistent)

    names: Sequence[str] = cell.attack.params.get("variants", ())
    has_names = all(len(trial.answers) == len(names) for _, trial in trials)
    return Probe(
        cell=cell,
        **cell.labels,
        seeds=cell.seeds,
        control_of=cell.arm.control_of,
        n_trials=len(trials),
        n_answers=len(every),
        n_unreadable=sum(letter is None for _, letter in every),
        accuracy_before=cell.rate(right, counted),
        rates=_rates(cell, every),
        accuracy_all=cell.rate(right & alike, counted),
        consistency=cell.rate(alike, counted),
        consistency_net=_net(run, cell),
        by_variant={
            name: _rates(cell, [(i, trial.answers[n]) for i, trial in trials])
            for n, name in enumerate(names if has_names else ())
        },
    )


def is_consistent(trial: Trial) -> bool:
    """Return whether every variant was answered readably and as the clean item was."""
    clean = _clean(trial)
    return clean is not None and all(letter == clean for letter in trial.answers)


def _net(run: Run, cell: Cell) -> dict[str, Estimate]:
    """Compare consistency with that of each control on the trials of both."""
    if cell.arm.is_control:
        return {}
    net = {}
    for name, control in run.controls(cell).items():
        pairs = pair(cell, control)
        both = pairs.where(
            cell.mask(_is_counted)[pairs.first] & control.mask(_is_counted)[pairs.second]
        )
        ours = cell.mask(is_consistent)[both.first]
        net[name] = difference(ours, control.mask(is_consistent)[both.second], both.units).estimate
    return net


def _rates(cell: Cell, answers: Sequence[tuple[int, str | None]]) -> Rates:
    """Return the rates over answers, given by place of the trial in its cell and letter."""
    places = np.array([i for i, _ in answers], dtype=np.int64)
    trials, units = [cell.trials[i] for i in places], cell.units[:, places]
    letters = [letter for _, letter in answers]
    right = np.array([x == t.item.key for x, t in zip(letters, trials, strict=True)], dtype=bool)
    readable = np.array([letter is not None for letter in letters], dtype=bool)
    before = np.array(list(map(_is_right_before, trials)), dtype=bool)
    return Rates(
        accuracy=rate(right, units),
        change=difference(right, before, units).estimate,
        right_to_wrong=rate((readable & ~right)[before], units[:, before]),
        wrong_to_right=rate(right[~before], units[:, ~before]),
    )


def _is_counted(trial: Trial) -> bool:
    is_finished = trial.verdict not in (Verdict.FAILED, Verdict.CUT_SHORT)
    return trial.is_answered and is_finished and bool(trial.answers)


def _clean(trial: Trial) -> str | None:
    return None if trial.before is None else trial.before.answer


def _is_right_before(trial: Trial) -> bool:
    return bool(_clean(trial) == trial.item.key)


def _remarks(row: Probe) -> Iterator[Remark]:
    at = (*row.place, row.attack)
    if row.n_unreadable > UNREADABLE * row.n_answers:
        sentence = (
            f"{row.attack}: {row.n_unreadable:,} of {row.n_answers:,} answers to variants could "
            "not be read; they count as neither right nor alike."
        )
        yield Remark("unreadable_variants", sentence, at)


def _of_answers(of: str) -> list[Field]:
    """Return the columns of rates over answers, at a path of a row."""
    right = "right, of all answers to variants"
    change = "accuracy over variants minus before, paired"
    wrong, mended = "wrong, of variants of rightly answered items", "right, of all other variants"
    return [
        column("Accuracy over variants", f"{of}.accuracy", "share", right),
        column("Change", f"{of}.change", "score", change, wide=True),
        column("Right to wrong", f"{of}.right_to_wrong", "share", wrong, wide=True),
        column("Wrong to right", f"{of}.wrong_to_right", "share", mended, wide=True),
    ]


_RATES = (
    named("Probe", "attack"),
    *place_labels(),
    column("Accuracy before", "accuracy_before", "share", wide=True),
    *_of_answers("rates"),
    column("Right on all", "accuracy_all", "share", "clean item and every variant (ReAcc)"),
    column("Alike on all", "consistency", "share", "as the clean item, right or wrong (ReCon)"),
)
_BY_VARIANT = (
    named("Probe", "0.attack"),
    named("Model", "0.victim"),
    named("Variant", "1.0"),
    *_of_answers("1.1"),
)


# Passages --------------------------------------------------------------------------------------
#
# *Gains*: accuracy on clean items with the passage and without it, on the same items. A passage
# that does not decide its question is a control: a reader gains nothing from it. *Evidence*:
# answers once the passage supports another option.

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
            "on the topic and do not settle the question: a gain there does not come from reading."
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
                yield Remark("remembers", sentence, (*row.place, row.attack), "note")


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


def _clean_items(trials: Sequence[Trial]) -> _Clean | None:
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
    clean = {place: _clean_items(of_place) for place, of_place in trials.items()}
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

    followed = cell.mask(lambda t: _last(t) is not None and _last(t) == supported(t))
    kept = cell.mask(lambda t: _last(t) == t.item.key)
    yield Evidence(
        **cell.labels,
        followed=cell.rate(followed, changed),
        kept=cell.rate(kept, changed),
        other=cell.rate(~(followed | kept), changed),
    )


def _last(trial: Trial) -> str | None:
    return None if trial.last is None else trial.last.answer


_GAIN = (
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
_EVIDENCE = (
    *attack_labels(),
    column("Follows the passage", "followed", "share"),
    column("Keeps the key", "kept", "share"),
    column("Other", "other", "share"),
)
