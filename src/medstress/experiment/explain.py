"""Explain trials of a run: their choice, and for each its prompt before and after the edits.

An explanation is work for the scheduler: journalled, answered, cached and replayed like a trial.
Its calls have the purpose `explain` and count in the ledger under `other`.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from medstress.analyses.run import Run
from medstress.core.arms import Place
from medstress.core.calls import Reply
from medstress.core.errors import TrialError, UsageError, did_you_mean
from medstress.core.hashing import digest
from medstress.core.items import Question
from medstress.core.outcomes import Prediction, Verdict
from medstress.core.text import Edit
from medstress.core.trials import Trial
from medstress.core.words import plural
from medstress.engine.inquiry import Asked, InquiryFlow, InquiryResult
from medstress.engine.progress import Watcher
from medstress.engine.work import CallRound, Guard, Purpose, answer_all
from medstress.experiment.follow_ups import Stage
from medstress.experiment.models import victim_of
from medstress.experiment.plan import Prepared
from medstress.experiment.run import ask
from medstress.experiment.shapley import (
    BATCH,
    EVALUATIONS,
    MASK,
    Floats,
    Masker,
    Masks,
    Owen,
    Segment,
    Texts,
    masked_flow,
    owen_values,
    pieces,
    segments_of,
    tree_of,
    word_cuts,
)
from medstress.store.codec import decode_edits, edits_text
from medstress.store.reader import RunReader
from medstress.tasks.victim import Victim
from medstress.tasks.wrappers import ShuffledOptions, Wrapper

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
class Explanation(Asked):
    """The explanation of one trial's prompt, clean and edited."""

    edits: tuple[Edit, ...]
    """Of the success, or of the last query of an attack that failed."""
    settings: Settings
    """How it is explained."""

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


# -- which trials ----------------------------------------------------------------------------------


_ENDED = (Verdict.FLIPPED, Verdict.HELD, Verdict.MEASURED)
_LISTED = 5
"""Trials that a message lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Which trials are explained."""

    trials: tuple[str, ...] = ()
    """By their identifiers, unambiguous beginnings of them, or the item of one trial; empty for all
    successes, and as many failed attacks of the same arms."""
    limit: int | None = None
    """Most successes, and most failed attacks."""
    seed: int = 0
    """Of the draws."""


def choose(trials: Sequence[Trial], selection: Selection) -> list[Trial]:
    """Return the selected trials, in the order of the run.

    Successes are drawn by a hash of seed and trial, so a larger limit adds to a smaller one. For
    every success of an arm, one attack of the arm that failed is drawn as a control, if it has
    as many.

    Args:
        trials: all trials of the run.
        selection: which of them.

    Raises:
        UsageError: a trial is unknown, several fit, or one has nothing to explain, or there is no
            success.
    """
    if selection.trials:
        named = {_named(trials, text).id for text in selection.trials}
        return [trial for trial in trials if trial.id in named]
    successes = [
        trial
        for trial in trials
        if trial.first is not None and not trial.arm.is_control and not trial.is_refused
    ]
    if not successes:
        raise UsageError(
            "there is no success to explain; failed attacks are explained with --trial ID"
        )
    drawn = _drawn(successes, selection.seed)[: selection.limit]
    wanted = Counter(map(_arm, drawn))
    held = [trial for trial in trials if trial.verdict is Verdict.HELD and _shows_edit(trial)]
    for trial in _drawn(held, selection.seed):
        if wanted[_arm(trial)] > 0:
            wanted[_arm(trial)] -= 1
            drawn.append(trial)
    chosen = {trial.id for trial in drawn}
    return [trial for trial in trials if trial.id in chosen]


def _named(trials: Sequence[Trial], text: str) -> Trial:
    """Return the trial with this id, beginning of one, or item; an attack before its controls.

    Raises:
        UsageError: none or several fit, or it has nothing to explain.
    """
    ways: tuple[Callable[[Trial], bool], ...] = (
        lambda one: one.id == text,
        lambda one: one.item.id == text and not one.arm.is_control,
        lambda one: one.item.id == text,
        lambda one: text != "" and text in (one.id[: len(text)], _bare(one.id)[: len(text)]),
    )
    fitting = next(filter(None, ([one for one in trials if fits(one)] for fits in ways)), [])
    if not fitting:
        known = [*(_bare(one.id) for one in trials), *(one.item.id for one in trials)]
        raise UsageError(
            f"--trial {text!r}: this run has no such trial or item{did_you_mean(text, known)}; "
            "medstress case DIR lists them"
        )
    if len(fitting) > 1:
        some = ", ".join(
            f"{_bare(one.id)} ({one.arm.attack.label} on {one.arm.place.group}, "
            f"{one.verdict.value})"
            for one in fitting[:_LISTED]
        )
        raise UsageError(f"--trial {text!r}: {len(fitting):,} trials fit; give one of {some}")
    (trial,) = fitting
    if trial.verdict not in _ENDED or not _shows_edit(trial):
        raise UsageError(
            f"--trial {text}: it ended as {trial.verdict.value!r}, so there is no edited prompt to "
            "explain; name a trial that was flipped or held"
        )
    return trial


def _bare(trial_id: str) -> str:
    """Return an id without the mark of its hash."""
    return trial_id.rpartition(":")[2]


def _shows_edit(trial: Trial) -> bool:
    """Return whether the victim was asked about an edit, and not only probed."""
    return trial.queries.asked > trial.queries.probes


def _drawn(trials: Iterable[Trial], seed: int) -> list[Trial]:
    return sorted(trials, key=lambda trial: digest(["explain", seed, trial.id]))


def _arm(trial: Trial) -> tuple[Place, str]:
    return trial.arm.place, trial.arm.attack.label


def explanations(
    chosen: Iterable[Trial],
    edits: Mapping[str, str],
    prepared: Prepared,
    settings: Settings,
) -> list[Explanation]:
    """Return the work for these trials; the same in every process.

    Args:
        chosen: the trials.
        edits: by trial, as JSON.
        prepared: the experiment.
        settings: how they are explained.

    Raises:
        UsageError: a victim or attack is not in the experiment, or has no one prompt.
    """
    victims = {victim.label: victim for victim in prepared.victims}
    attacks = {part.label: part for part in prepared.attacks}
    items = {(part.label, item.id): item for part in prepared.datasets for item in part.questions}
    work = []
    for trial in chosen:
        arm, (dataset, group, model) = trial.arm, trial.arm.place
        label = arm.attack.label
        item = items.get((dataset, trial.item.id))
        if model not in victims or label not in attacks or item is None:
            raise UsageError(
                f"trial {trial.id} ({label} on {model}, item {trial.item.id!r}) is not in the "
                "experiment; give --experiment the file of this run"
            )
        if item.kind != Question.kind:
            raise UsageError(f"explain is for questions; trial {trial.id} is of another kind")
        part = attacks[label]
        victim = victims[model].on(dataset)
        if "turns" in part.attack.needs:
            victim = victim_of(victim, part.attack, dataset, item, arm.seed, trial.repeat)
        _check_prompt(victim)
        work.append(
            Explanation(
                purpose=Purpose.EXPLAIN,
                dataset=dataset,
                group=group,
                victim=victim,
                attack_label=label,
                attack_spec=dict(arm.attack.params),
                seed=arm.seed,
                item=item.of_unit(trial.unit),
                edits=decode_edits(edits[trial.id]),
                settings=settings,
                spec={
                    "trial": trial.id,
                    "verdict": trial.verdict.value,
                    "edits": edits[trial.id],
                    **settings.as_json(),
                },
            )
        )
    return work


def _check_prompt(victim: Victim) -> None:
    task: Any = victim.task
    while not isinstance(task, ShuffledOptions):
        if not isinstance(task, Wrapper):
            return
        task = task.inner
    raise UsageError(
        f"victim {victim.label!r} has no one prompt to explain (shuffled_options): name trials of "
        "another victim with --trial"
    )


# -- the stage -------------------------------------------------------------------------------------


def run_explanations(
    folder: Path,
    experiment: str | Path | Mapping[str, Any] | None,
    selection: Selection,
    settings: Settings,
    watcher: Watcher,
    overrides: Sequence[str] = (),
    *,
    confirm: Callable[[Sequence[str]], None] = lambda _: None,
    dry_run: bool = False,
) -> str | None:
    """Explain trials of a run; stored answers are used again.

    Args:
        folder: the run.
        experiment: the file, recipe or dict that the folder is a run of; see `ask`.
        selection: which trials to explain.
        settings: how.
        watcher: receives notes on what is being done, and progress.
        overrides: as the command line's --set.
        confirm: as for `ask`.
        dry_run: announce what would be asked, and ask nothing.

    Returns:
        Sentence on why not everything was explained; None if it was.

    Raises:
        UsageError: the selection cannot be explained.
        StoreError: the folder is a run of another experiment.
    """
    chosen = choose(Run.open(folder).trials, selection)  # before any model is loaded
    n = 2 * settings.evaluations * len(chosen)
    return ask(
        folder,
        [explaining(selection, settings)],
        experiment,
        overrides=overrides,
        confirm=confirm,
        most=lambda _: f"at most {n:,} masked texts",
        dry_run=dry_run,
        watcher=watcher,
    )


def explaining(selection: Selection, settings: Settings) -> Stage:
    """Return the stage that explains trials.

    Args:
        selection: which trials.
        settings: how.
    """

    def works(bench: Prepared, run: Run) -> list[Explanation]:
        trials = choose(run.trials, selection)
        edits = run.folder.read(lambda reader: last_edits(reader, trials))
        return explanations(trials, edits, bench, settings)

    def words(bench: Prepared, run: Run) -> Iterator[str]:
        own, ended = works(bench, run), run.folder.read(RunReader.answered_follow_ups)
        left = [one for one in own if one.id not in ended]
        n_successes = sum(trial.first is not None for trial in choose(run.trials, selection))
        parts = [plural(n_successes, "success", "successes")] if n_successes else []
        n_failed = len(own) - n_successes
        parts += [plural(n_failed, "failed attack")] if n_failed else []
        before = (
            f", {len(own) - len(left)} of them explained before" if len(left) < len(own) else ""
        )
        n = 0
        for one in left:
            count = getattr(one.victim.task, "n_calls", lambda _: 1)
            n += 2 * settings.evaluations * count(len(getattr(one.item, "options", ())) or 2)
        calls = f"at most {n:,} calls" if left else "nothing to ask"
        yield f"explain: {' and '.join(parts)}{before}, {calls}"

    def choice(bench: Prepared, run: Run) -> Mapping[str, Any]:
        own = [str(one.spec["trial"]) for one in works(bench, run)]
        return {"settings": settings.as_json(), "trials": own} if own else {}

    return Stage(
        name="explain",
        works=works,
        purposes=frozenset({Purpose.EXPLAIN}),
        most=lambda _, work: 2 * work.settings.evaluations,
        words=words,
        choice=choice,
    )


def last_edits(reader: RunReader, trials: Iterable[Trial]) -> dict[str, str]:
    """Return trial id -> edits, as JSON: of the first success, else of the last query asked."""
    edits_of: dict[str, str] = {}
    others: dict[int, str] = {}
    for trial in trials:
        if trial.first is not None:
            edits_of[trial.id] = edits_text(trial.first.edits)
        else:
            others[trial.number] = trial.id
    if others:
        probes = reader.probes()
        for number, query, edits in reader.attack_edits():
            if number in others and (number, query) not in probes:
                edits_of[others[number]] = edits
    return edits_of
